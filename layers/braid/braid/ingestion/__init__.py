"""Writing and deleting: checks, supersession, both stores, bulk imports and repair."""
