"""Compares Braid with other retrieval libraries: the same vectors, questions and cores, one after another."""
