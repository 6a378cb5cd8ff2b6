"""Caches of answers, contexts, question vectors and graph look-ups.

- ``answers``: caches of answers and of contexts' retrievals, and the set of caches that the settings switch on. Keys
  contain the tenant's write generation, so that a write, whose commit advances it, invalidates what was cached before
- ``graph``: in-process cache of graph look-ups
- ``keys_and_generations``: keys and hit counts of one cache, write generations, and the cache of question vectors
"""
