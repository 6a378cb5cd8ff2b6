"""Combines, scores and orders hits, without a store; long work checks the request's deadline.

- ``fusion``: the strands' hits as one list of candidates
- ``pagerank``: propagation over the neighbourhood of names and hits, and the boost of shared entities
- ``neighbourhood``, ``found_mentions``: what PageRank runs on, and how far mentions found in texts are trusted
- ``graph_walks``: the answer to a query of the graph
- ``scoring``: comparable scores, ranking profiles, schema drift, freshness, closeness
"""
