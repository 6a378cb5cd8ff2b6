"""The embedded knowledge graph.

- ``knowledge_graph``: the port's implementation
- ``vertex_rows``, ``edge_rows``; ``name_rows``: SQL of vertices and edges; of names, by which vertices are linked
- ``tenant_graphs``: which graph a request is answered from
- ``adjacency``: a tenant's graph as arrays; ``saved``: the file that they are mapped from
- ``following``: those arrays after writes, by the log of changes
- ``lazy_texts``: ids, names and evidence in both, read on access
- ``surroundings``: the part around a question's seeds, read from rows instead
- ``expansion``: expansion from seeds; ``subgraphs``: what PageRank and graph queries read
"""
