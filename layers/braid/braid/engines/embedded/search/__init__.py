"""The embedded search index.

- ``index``: the port's implementation
- ``rows``, ``row_writes``: SQL that reads and writes records; ``filters``: a request's filters as SQL
- ``bm25``: lexical search; ``knn``: vector search
- ``hnsw_graph``: the vectors of a tenant and space: few are all compared, of many an HNSW graph finds the near ones
- ``hnsw_segments``: the parts of that graph, the search in them, and their files
"""
