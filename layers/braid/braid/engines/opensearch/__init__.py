"""Search index on OpenSearch: searches, writes, embedding spaces and index migration.

``client`` retries calls; :mod:`braid.retrieval.pipeline` degrades the answer when they fail.

- ``search_index``: implements the port, calling the index of the tenant's alias; ``one_index``: one index, over
  ``client``; ``index_placement``: finds the index of a tenant's records, the shared one or its own, by aliases
- ``connection``: connections whose requests end in time
- ``question_searches``: builds the searches of one question and parses their results; ``reads_and_counts``: the same
  for reads by id, counts and scans; ``filters``: filters of both. They send nothing
- ``mapping``, ``embedding_spaces``: records as documents, and their vector fields
- ``bulk``: bulk writes; ``migration``: migrates all tenants to an index of another profile, or a tenant to its own
  index; ``dual_write``: writes during a migration
"""
