"""Search index on OpenSearch: searches, writes, embedding spaces and index migration.

Calls are repeated by ``client``; what a question does without an answer is decided in :mod:`braid.retrieval.pipeline`.

- ``index``: the port, each call by the tenant's alias; ``single_index``: the index behind one, over ``client``;
  ``tenant_index``: in which index a tenant's records are, the shared one or its own, told by aliases
- ``connection``: ends requests in time
- ``question_searches``, ``reads_and_counts``: bodies of requests, and parsers of their answers; they send nothing:
  the first those of one question's searches, the second reads by id, counts and scans; ``filters``: their filters
- ``mapping``, ``embedding_spaces``: records as documents, and their vector fields
- ``bulk``: writes of many; ``migration``: moves all to an index of another profile, or a tenant to an index of its own;
  ``dual_write``: writes meanwhile
"""
