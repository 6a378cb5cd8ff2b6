"""The embedded search index.

- ``index``: the port's implementation
- ``rows``: SQL of records; ``filters``: a request's filters as SQL
- ``bm25``: lexical search; ``knn``: vector search
- ``hnsw_graph``, ``hnsw_segments``: the HNSW graph of a tenant and space, and its files
"""
