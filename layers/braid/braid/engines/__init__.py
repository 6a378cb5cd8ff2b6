"""Implementations of the ports: stores and models.

- ``embedded``: the engines of a laptop
- ``opensearch``, ``neptune``, ``aws``: the deployed engines; ``retries_and_deadlines``: their retry policy and
  deadlines
- ``onnx``: local models; ``rerankers``: hosted ones

Another store needs:

- a package here that implements the port: :class:`braid.ports.search_index.SearchIndex` and
  :class:`braid.ports.reembedding.IndexMigration`, or :class:`braid.ports.knowledge_graph.WritableGraph`
- a kind in :class:`braid.settings.EngineKind`, its settings in :mod:`braid.settings`, and a branch in the port's
  property of :mod:`braid.opened_engines`
- the contract tests of the port, ``tests/contract/search_index.py``, ``index_moves.py`` or ``knowledge_graph.py`` and
  others there, run on it
"""
