"""Braid beside other retrieval libraries: the same vectors, questions and cores, one after the other."""
