"""Protocols of what the library needs from stores and models, with their request and answer shapes; no engine.

- ``search_index``, ``knowledge_graph``, ``graph_query``: records, entities and relationships
- ``encoder``, ``reranker``: models
- ``schema_registry``, ``members``, ``cache``, ``message_queue``, ``object_store``, ``job_store``: the other stores
- ``index_migration``: the search index while it moves to another model profile
- ``ingestion``, ``imports``, ``drifted_records``: what writes records, imports objects and queues outdated records
- ``scan_cursor``, ``keys``: formats and checks that every engine shares
"""
