"""What newer records and edges supersede: which they are, why they may not, and since when the old ones have ended.

- ``records``: which records a request supersedes; ``edges``: which edges, and so which facts; both check it
- ``validity_ends``: brings both together and stores when validity ends
"""
