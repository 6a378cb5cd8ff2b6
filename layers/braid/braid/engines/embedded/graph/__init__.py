"""The embedded knowledge graph: SQLite rows and adjacency arrays in memory."""
