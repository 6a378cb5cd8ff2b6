"""Caches of answers, contexts, question vectors and graph look-ups.

- ``answers``: answers and what contexts retrieve, and the caches that the settings switch on
- ``graph``: entities and common traversals, in this process
- ``namespace``: a tenant's part of the cache: keys, hit counts, write generations, question vectors
"""
