"""The embedded search index.

- ``index``: the port's implementation
- ``row_reads``, ``row_writes``: SQL that reads and writes records; ``filters``: a request's filters as SQL
- ``bm25``: lexical search; ``knn``: vector search
- ``hnsw_graph``: the HNSW graph of a tenant and space, kept consistent with the rows, saved in ``vectors/`` of the
  store's folder
- ``hnsw_segments``: segments of that graph and the search in them, exact among few vectors
- ``hnsw_files``, ``hnsw_manifest``: the files of a saved graph
- ``removed_vectors_log``: log of the vectors that recent writes removed
"""
