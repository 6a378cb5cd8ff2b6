"""The engines of a laptop: one folder with a SQLite file, vector graphs and objects.

- ``store``: connections and transactions, with ``tables``, ``table_creation_and_upgrades``, ``sqlite_files`` and
  ``write_generations``
- ``search``, ``graph``: the search index and the knowledge graph
- ``graph_change_log``: counts of the graph and a log of its writes, kept by triggers
- ``cache_schemas_jobs_members``: the cache, schema versions, memberships and jobs; ``message_queue``,
  ``object_store`` and ``index_migration``: the ports of these names
"""
