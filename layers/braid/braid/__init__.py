"""Braid: one question in, one ranked and cited list out, from vectors, words and a knowledge graph."""

__version__ = "0.1.0"
