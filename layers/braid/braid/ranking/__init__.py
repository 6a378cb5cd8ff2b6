"""From several lists to one. Pure functions.

- ``scoring``: maps of engines' scores onto [0, 1], recency, and the final score by ranking profile
- ``fusion``: weighted sum and reciprocal rank fusion of the strands
- ``pagerank``, ``shared_entity_boost``: propagation over the neighbourhood of names and hits
- ``graph_walks``: the answer of a declarative graph query
- ``schema_drift``, ``freshness``, ``confidence``, ``citations``: what else an answer says of its results
"""
