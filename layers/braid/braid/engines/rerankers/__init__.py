"""Hosted rerankers (Bedrock, Voyage), and the selection among all; the local cross-encoder is in ``engines.onnx``.

A further one is a module here, a kind in ``models.scalars.RerankerKind`` and a line in ``selection``.
"""
