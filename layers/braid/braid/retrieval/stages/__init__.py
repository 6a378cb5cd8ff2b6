"""The five stages of retrieval, each a function from a request to a result; they use ports, and no engine.

- ``plan_and_search``: the stages plan, embed and vector search
- ``graph_expand``: the graph's stage, with ``name_linking`` for the names in the question, ``walk_seeds_and_scores``
  for the seeds of walks and the scores of their hits, ``graph_constraint`` for a caller's constraint,
  ``fact_lookup`` for relationships as answers, with ``joined_names`` ("both A and B") and ``conditions_by_name``
  ("owned by A … depend on B") for several names, and ``entity_sets`` for all entities of a type
- ``fuse_rerank``: the last stage, with ``candidates`` (their records, and which are admissible), ``reordering_by_text``
  (by their texts), ``fact_results``, ``confidence``, ``excerpts``, ``results_and_citations`` (and copies of a text),
  ``answer_size``
- ``stage_messages``: requests and results of the stages

All of them see only items that are valid at the question's ``as_of``, by default now: the search and the graph filter
by it, and ``candidates`` checks it again.
"""
