"""Fuses, scores and orders hits, without a store; long computations check the request's deadline.

- ``fusion``: fuses the strands' hits into one list of candidates, and adapts the strands' weights to them
- ``pagerank_and_paths``: personalised PageRank from names and hits, the paths that explain its results, and the
  boost of records that share an entity
- ``neighbourhood_arrays``: the arrays that PageRank runs on; ``mention_weights``: its weights for mentions that were
  found in texts, and the share of propagation over them in the fused score
- ``graph_queries_and_facts``: evaluates declarative graph queries; groups and ranks relationships as answers
- ``scoring``: comparable scores, ranking profiles, schema drift and the schema window, freshness, closeness;
  ``braid.retrieval.stages.candidates`` applies drift and the window to candidates
"""
