"""Braid on a laptop: the command line ``braid``.

- ``main`` builds the command line from ``commands``; ``options``, ``question_validation``, ``terminal`` and
  ``answer_rendering`` are shared by the commands, and ``english_detection`` detects texts that are not English
- ``datasets`` and ``documents`` read and ingest; ``evaluation`` measures retrieval, and ``tuning`` fits the fusion
  parameters; ``model_export`` makes model folders
- ``http_server`` serves the HTTP API, ``mcp_server`` the MCP tools for agents; ``openapi`` and
  ``agent_gateway_openapi`` write OpenAPI documents
- ``state_machine`` runs the deployed workflows locally; ``local_servers`` starts the stores with which deployed engines
  are tested
- ``demo`` is the guided tour
"""
