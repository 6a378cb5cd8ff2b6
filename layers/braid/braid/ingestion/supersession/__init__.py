"""Supersession: finds and checks which records and edges newer ones supersede, and ends their validity.

- ``superseded_records``: finds and checks the records that a request supersedes
- ``superseded_edges``: the same of edges, and thereby of facts
- ``ending_validity``: combines both and stores the ends of validity
"""
