"""The HTTP API on a laptop: an ASGI server around the deployed handler, and the tenants it serves."""
