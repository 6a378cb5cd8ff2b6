"""The embedded search index: SQLite rows, FTS5 words and HNSW vectors."""
