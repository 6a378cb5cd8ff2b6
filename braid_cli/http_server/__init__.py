"""HTTP server of ``braid serve``: an ASGI application around the deployed handler.

- ``server``: verifies tokens, reads bodies, and limits concurrent requests and bodies, per tenant and in all; more are
  refused with 429 or 503
- ``connections``: limits the number of connections, their timeouts, and the bytes of unread responses
- ``parsing``: parses HTTP/1.1, and limits the parsing time of one request on the event loop's thread
- ``request_scheduler``: scheduler of accepted requests: which starts next, and how many are started and not yet slow
- ``fair_shares``: limits tenants with expensive questions while other tenants are active
- ``workers``, ``worker_process``, ``worker_protocol``: worker processes, and the protocol between them and the server;
  ``malloc_arenas``: limits glibc's memory pools
- ``mcp_http``: the MCP tools over HTTP; ``startup_links``: the tenants whose links are printed
"""
