"""Supersession: finds and checks which records and edges newer ones supersede, and ends their validity.

- ``records``: finds and checks the records that a request supersedes; ``edges``: its edges, and thereby facts
- ``ending_validity``: combines both and stores the ends of validity
"""
