"""Knowledge graph on Neptune, or another Gremlin endpoint.

- ``knowledge_graph``: the port's implementation; ``removals``: what it removes and distrusts
- ``connection``: the socket, retries and time limits; ``graphbinary_strings``: requests and replies as bytes
- ``element_layout``: storage layout of vertices and edges; ``stored_counts``: counts of a tenant's vertices and edges
- ``name_links``: look-up of entities by names; ``expansion``, ``graph_query``: walks from seeds, and queries
"""
