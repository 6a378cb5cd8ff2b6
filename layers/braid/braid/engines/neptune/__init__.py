"""Knowledge graph on Neptune, or another Gremlin endpoint.

- ``knowledge_graph``: the port's implementation, over ``connection``
- ``element_layout``: storage layout of vertices and edges; ``stored_counts``: counts of a tenant's vertices and edges
- ``expansion``, ``graph_query``: walks from seeds, and queries
"""
