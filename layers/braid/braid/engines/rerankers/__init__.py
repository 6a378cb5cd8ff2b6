"""Hosted rerankers, and the selection among all; the local cross-encoder is in ``engines.onnx``.

- ``selection``: opens the reranker that a request or the settings name, on first use
- ``bedrock``, ``voyage``: one service each, with ``requests`` for what both send and bound

A further one is a module here, a kind in ``models.scalars.RerankerKind`` and a line in ``selection``; one that costs
money for each call is named in ``RerankerKind.is_hosted``, so that the quotas of ``settings`` hold for it.
"""
