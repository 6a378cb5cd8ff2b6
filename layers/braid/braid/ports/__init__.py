"""Ports: protocols of the stores and models that the library needs, with their request and response types; no engines.

Code that every implementation shares is here too: ``cache`` has ``ResilientCache``, which calls no cache that has just
failed, and ``deletion_marks`` and ``keys`` are built on the ports.

- ``search_index``, ``knowledge_graph``, ``graph_query``: records, entities and relationships
- ``encoder``: encoders and rerankers; ``name_finder``: names in texts
- ``schema_registry``, ``members``, ``cache``, ``message_queue``, ``object_store``: the other stores
- ``ingestion``: writes of records and imports of objects
- ``reembedding``: jobs, the queue of outdated records, and index migration to another model profile
- ``deletion_marks``: marks of tenants that are being deleted and refuse writes
- ``keys``, ``batches``: keys, cursors, and batches within the limits of a request, for all engines

Each engine applies ``as_of``: embedded ``tables.is_valid`` and ``graph.adjacency.walkable_*``, deployed
``opensearch.filters.filter_clause`` and ``neptune.element_layout.valid``; ``retrieval.stages.candidates`` checks again.
"""
