"""The knowledge graph on Neptune, over Gremlin."""
