"""OpenSearch, Gremlin Server and LocalStack on loopback ports, from packages, without Docker.

``python -m braid_cli.local_servers up`` starts them and writes their addresses to the state folder; ``down`` stops
them. They are what the deployed engines are tested on.

- ``opensearch_server``, ``gremlin_server``, ``localstack_server``: one server each
- ``java``, ``maven``: what they run on and come from; ``process``: starts and stops one; ``state``: who runs
"""
