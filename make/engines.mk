# The stores that the deployed engines talk to, as local servers: Java 21 or newer and Maven, no Docker.
.PHONY: engines-up engines-down engines-status localstack-up test-engines

PYTHON ?= .venv/bin/python

engines-up: ## start OpenSearch and Gremlin Server on loopback ports
	$(PYTHON) -m local.servers up

engines-down: ## stop them all; their logs stay in .braid/servers
	$(PYTHON) -m local.servers down

localstack-up: ## start LocalStack on a loopback port: Python 3.13 and uv
	$(PYTHON) -m local.servers up localstack

engines-status:
	$(PYTHON) -m local.servers status

# Leaves the servers as it found them only when they did not run before; a failure keeps their logs.
test-engines: ## contract and fault suites on the real servers, started and stopped for it
	@$(PYTHON) -m local.servers status >/dev/null 2>&1 && { $(PYTHON) -m pytest tests/engines; exit $$?; }; \
	trap '$(PYTHON) -m local.servers down' EXIT INT TERM; \
	$(PYTHON) -m local.servers up && $(PYTHON) -m pytest tests/engines
