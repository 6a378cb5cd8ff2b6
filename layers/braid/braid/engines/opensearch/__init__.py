"""Search index on OpenSearch: searches, writes, embedding spaces and index migration."""
