"""The embedded knowledge graph.

- ``knowledge_graph``: the port's implementation
- ``rows``: SQL of vertices, names and edges
- ``adjacency``: a tenant's graph as arrays in memory
- ``changes``: counts of the graph and a log of its writes, kept by triggers
- ``walk``: expansion from seeds; ``subgraphs``: what PageRank and graph queries read
"""
