"""The engines of a laptop: one folder with a SQLite file, vector graphs and objects.

- ``store``: connections and transactions; ``tables``, ``connections``, ``files`` and ``generations`` serve it
- ``search``, ``graph``: the search index and the knowledge graph
- ``cache``, ``job_store``, ``members``, ``message_queue``, ``object_store``, ``schema_registry``, ``index_migration``:
  one port each, by the same name
"""
