# What the deployed parts talk to, as local servers without Docker: Java 21 and Maven; LocalStack also Python 3.13.
.PHONY: engines-up stores-up engines-down engines-status test-engines

PYTHON ?= .venv/bin/python

engines-up: ## start OpenSearch, Gremlin Server and LocalStack on loopback ports
	$(PYTHON) -m braid_cli.local_servers up opensearch gremlin localstack

engines-down: ## stop them all; their logs stay in .braid/servers
	$(PYTHON) -m braid_cli.local_servers down

stores-up: ## start OpenSearch and Gremlin Server only
	$(PYTHON) -m braid_cli.local_servers up opensearch gremlin

engines-status:
	$(PYTHON) -m braid_cli.local_servers status

# The workflow suite starts a LocalStack of its own. Leaves the servers as it found them only when they did not run before; a failure keeps their logs.
test-engines: ## contract and fault suites on the real servers, started and stopped for it
	@$(PYTHON) -m braid_cli.local_servers status >/dev/null 2>&1 && { $(PYTHON) -m pytest tests/engines; exit $$?; }; \
	trap '$(PYTHON) -m braid_cli.local_servers down' EXIT INT TERM; \
	$(PYTHON) -m braid_cli.local_servers up && $(PYTHON) -m pytest tests/engines
