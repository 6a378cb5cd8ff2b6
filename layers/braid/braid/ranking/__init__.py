"""Combines, scores and orders hits, without a store; long work checks the request's deadline.

- ``fusion``: the strands' hits as one list of candidates
- ``pagerank``: propagation over the neighbourhood of names and hits, and the boost of shared entities
- ``neighbourhood``: what PageRank runs on; ``found_mentions``: the weights there of mentions that were found in texts,
  and the share of propagation over them in the fused score
- ``graph_answers``: relationships as answers, in groups, and the answer to a declarative graph query
- ``scoring``: comparable scores, ranking profiles, schema drift and the schema window, freshness, closeness; where they
  are applied, ``braid.retrieval.stages.candidates`` says
"""
