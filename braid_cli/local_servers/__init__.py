"""Test servers for the deployed engines: OpenSearch, Gremlin Server and LocalStack, without Docker.

``python -m braid_cli.local_servers up`` starts them on loopback ports and writes their addresses to the state folder;
``down`` stops them.

- ``opensearch_server``, ``gremlin_server``, ``localstack_server``: one server each
- ``java``, ``maven``: find Java, and download packages; ``process``: starts and stops a server; ``running_servers``:
  the state file of running servers
"""
