"""Protocols of what the library needs from stores and models, with their request and answer shapes; no engine.

Beside the protocols stands what every implementation shares: ``cache`` holds ``ResilientCache`` too, the only circuit
breaker there is, and ``deletion_marks`` and ``keys`` are built on the ports.

- ``search_index``, ``knowledge_graph``, ``graph_query``: records, entities and relationships
- ``encoder``: encoders and rerankers; ``name_finder``: names in texts
- ``schema_registry``, ``members``, ``cache``, ``message_queue``, ``object_store``: the other stores
- ``ingestion``: writes of records and imports of objects
- ``reembedding``: jobs, the queue of outdated records, and the search index while it moves to another model profile
- ``deletion_marks``: which tenants are being deleted, and take no writes
- ``keys``, ``batches``: keys, cursors, and batches within the limits of a request, which every engine shares
"""
