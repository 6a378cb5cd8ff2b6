"""Knowledge graph on Neptune, or another Gremlin endpoint.

- ``knowledge_graph``: the port's implementation, over ``connection``
- ``element_layout``: vertices and edges as they are stored; ``stored_counts``: a tenant's counts beside them
- ``expansion``, ``graph_query``: walks from seeds, and queries
"""
