"""From several ranked lists to one. Pure functions.

- ``fusion``: the strands' hits as one list of candidates
- ``pagerank``: propagation over the neighbourhood of names and hits, and the boost of shared entities
- ``graph_walks``: the best path to each vertex
- ``scoring``: comparable scores, ranking profiles, schema drift, freshness, closeness
"""
