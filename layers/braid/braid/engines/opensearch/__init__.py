"""The search index on OpenSearch."""
