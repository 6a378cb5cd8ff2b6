"""Caches of answers, contexts, question vectors and graph look-ups."""
