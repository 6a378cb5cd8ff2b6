"""Knowledge graph on Neptune, or another Gremlin endpoint."""
