"""Hosted rerankers (Bedrock, Voyage), and the selection among all; the local cross-encoder is in ``engines.onnx``.

A further one is a module here, a kind in ``models.scalars.RerankerKind`` and a line in ``selection``; one that costs
money for each call is named in ``RerankerKind.is_hosted``, so that the quotas of ``settings`` hold for it.
"""
