"""The five stages of retrieval, each a function from a request to a result; they know ports, and no engine.

- ``plan_and_search``: the stages plan, embed and vector search
- ``graph_expand``: the graph's stage, with ``name_linking`` for the names in the question, ``seeds_and_hits`` for where
  walks begin and what their hits count, ``graph_constraint`` for a caller's bounds, and ``facts`` for relationships as
  answers
- ``fuse_rerank``: the last stage, with ``candidates``, ``confidence``, ``excerpts`` and ``results_and_citations``
- ``states``: what one stage hands to the next
"""
