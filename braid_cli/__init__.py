"""Braid on a laptop: the command line ``braid`` and what its commands need.

- ``main`` builds the command line from ``commands``; ``options``, ``question``, ``terminal`` and ``show`` are shared by
  them, and ``languages`` tells English questions from others
- ``datasets`` and ``documents`` read and ingest; ``evaluation`` and ``tuning`` measure and fit; ``export`` makes model
  folders
- ``http_server`` answers over HTTP, ``mcp_server`` offers tools to agents; ``openapi`` and ``gateway_tools`` write
  documents of the HTTP API
- ``state_machine`` runs the deployed workflows, ``local_servers`` starts the stores that deployed engines are tested on
- ``demo`` is the tour
"""
