"""The embedded knowledge graph.

- ``knowledge_graph``: the port's implementation
- ``vertex_rows``, ``edge_rows``; ``name_rows``: SQL of vertices and edges; of names, by which vertices are linked
- ``tenant_graphs``: which graph a request is answered from
- ``adjacency``: a tenant's graph as arrays; ``mapped_graph``: the file that they are mapped from
- ``write_overlay``: those arrays after writes, by the log of changes
- ``lazy_texts``: ids, names and evidence in both, read on access
- ``graph_from_rows``: the part around a question's seeds, read from rows instead
- ``expansion``: expansion from seeds; ``subgraphs``: what PageRank and graph queries read
"""
