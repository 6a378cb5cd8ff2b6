"""Stores and models behind the ports.

- ``embedded``: the engines of a laptop
- ``opensearch``, ``neptune``, ``aws``: the deployed engines; ``retrying``: their retry policy, and a call's deadline
- ``onnx``: local models; ``rerankers``: hosted ones
"""
