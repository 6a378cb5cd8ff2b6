"""Implementations of the ports: stores and models.

- ``embedded``: the engines of a laptop
- ``opensearch``, ``neptune``, ``aws``: the deployed engines; ``retries_and_deadlines``: their retry policy and
  deadlines
- ``onnx``: local models; ``rerankers``: hosted ones
"""
