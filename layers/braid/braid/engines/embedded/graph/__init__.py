"""The embedded knowledge graph.

- ``knowledge_graph``: the port's implementation
- ``vertex_rows``, ``edge_rows``, ``name_rows``: SQL of vertices, edges, and names by which vertices are linked
- ``tenant_graphs``: chooses the representation of the graph that answers a request
- ``adjacency``: a tenant's graph as arrays; ``mapped_graph``: a file from which the arrays are memory-mapped
- ``write_overlay``: the arrays with an overlay of later writes, from the log of changes
- ``lazy_texts``: ids, names and evidence of arrays and overlay, read on access
- ``rows_around_seeds``: the part around a question's seeds, read from rows without arrays
- ``expansion``: expansion from seeds; ``subgraphs``: neighbourhoods for PageRank and graph queries
"""
