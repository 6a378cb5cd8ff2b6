"""Stores and models behind the ports.

- ``embedded``: the engines of a laptop
- ``opensearch``, ``neptune``, ``aws``: the deployed engines; ``retries_and_deadlines``: of their calls
- ``onnx``: local models; ``rerankers``: hosted ones
"""
