"""The five stages of retrieval, each a function from a request to a result; they know ports, and no engine."""
