"""The HTTP API on a laptop: an ASGI server around the deployed handler, and the tenants it serves.

- ``server``: verifies tokens, reads bodies, and bounds how many requests and bodies there are at once, of one tenant
  and in all; what is too much is refused with 429 or 503
- ``connections``: bounds the number of connections, their time, and the bytes of answers that nobody reads
- ``parsing``: takes requests apart, and bounds what that costs of the thread that serves all connections
- ``turns``: of the requests that were let in, which begins next; bounds those that are begun and not yet slow
- ``heavy_tenants``: which tenants ask heavy questions; bounds how many requests and begun questions these have
- ``workers``, ``worker_process``, ``frames``: processes that answer, and what is said to them; ``memory``: theirs
- ``mcp_http``: tools for agents; ``tenant_links``: whose links are printed
"""
