# Needs git, make and Python 3.11 or newer; brings uv itself when there is none. `make` alone lists what there is.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

# Tools that are not in uv.lock, because their dependencies contradict ours: each is installed by hashes into a folder of
# its own, from a lock in make/tools. To renew one: make lock-tools, with its new version here.
TOOLS := uv==0.13.8 aws-sam-cli==1.170.0 cfn-lint==1.58.0 checkov==3.3.30 pip-audit==2.10.1
# A server for tests. Its dependencies are not bounded: newer ones than it was released with break it.
LOCALSTACK := localstack-core[runtime]==4.14.0
LOCALSTACK_BEFORE := 2026-03-05
PIP_AUDIT := .uv/tools/pip-audit/bin/pip-audit

# The first Python that is new enough, by its real path: a version manager's stand-in may exist for Pythons it has not.
HOST_PYTHON := $(shell for name in "$${HOST_PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14; do \
	"$$name" -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)' 2>/dev/null && break; done)
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
export UV_PYTHON := $(HOST_PYTHON)
export UV_PYTHON_DOWNLOADS := never
# Nothing that is run here reports its use to its makers, or asks them for a newer version of itself.
export ORT_DISABLE_TELEMETRY := 1
export HF_HUB_DISABLE_TELEMETRY := 1
export DO_NOT_TRACK := 1
export SAM_CLI_TELEMETRY := 0
export CKV_SKIP_PACKAGE_UPDATE_CHECK := true
export BC_SKIP_MAPPING := true
export NPM_CONFIG_UPDATE_NOTIFIER := false
export AWS_DEFAULT_REGION ?= eu-west-1

AUDIT = $(PIP_AUDIT) --strict --progress-spinner off --timeout 5 \
	--disable-pip --require-hashes $(if $(OSV_URL),--vulnerability-service osv --osv-url "$(OSV_URL)")

# One environment serves demo, test and lint: each adds what it needs and removes nothing.
SYNC = $(if $(HOST_PYTHON),$(UV) sync --locked --inexact --quiet --extra aws --extra documents --extra mcp --extra workflow --group clone,$(error Braid needs Python 3.11 or newer on the PATH))

# Tests run in as many processes as there are cores, four at most, as each may hold a model. The tests of one file stay
# together and in their order: they share what is dear to make. PROCESSES=0 runs all in one, to look into with --pdb.
PROCESSES ?= logical
PYTEST := python -m pytest --numprocesses $(PROCESSES) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Pythons that the package is tried with: this machine's, unless others are named.
PYTHONS ?= $(HOST_PYTHON)

.PHONY: help
help: ## show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- for everyone -----------------------------------------------------------------------------------------------------

.PHONY: setup
setup: $(UV)
	$(SYNC) --no-default-groups

.PHONY: demo
demo: setup ## ingest the demo archive and answer questions from it
	.venv/bin/braid demo

.PHONY: serve
serve: setup ## answer over HTTP on this machine, and show answers in a browser
	.venv/bin/braid serve

.PHONY: wheel
wheel: setup ## build the wheel, to install Braid outside the clone, and the source distribution, into dist
	rm -f dist/braid_retrieval-*
	$(UV) build --quiet --no-build-isolation --python .venv/bin/python --out-dir dist

.PHONY: test
test: test-setup ## run the tests
	.venv/bin/$(PYTEST)

.PHONY: test-setup
test-setup: $(UV)
	$(SYNC)

# --- for those who change it ------------------------------------------------------------------------------------------

.PHONY: test-py313
test-py313: $(UV) ## run the tests under Python 3.13, which the functions run on
	$(need_lambda_python)
	UV_PYTHON="$(LAMBDA_PYTHON)" UV_PROJECT_ENVIRONMENT=.venv-py313 $(SYNC)
	.venv-py313/bin/$(PYTEST) tests/contract tests/workflow tests/unit

.PHONY: test-browser
test-browser: $(UV) ## try the explorer in a browser; needs Chromium, by its usual name or as CHROMIUM=PATH
	$(SYNC) --group browser
	.venv/bin/python -m pytest tests/browser

.PHONY: test-audit
test-audit: test-setup ## see that make audit finds what is listed, and fails where nothing answers
	.venv/bin/python -m pytest tests/audit

# The wheel is built from the source distribution, and tried with the versions of the lock in an empty environment.
.PHONY: test-package
test-package: test-setup wheel ## build wheel and source distribution, and try them outside the clone (PYTHONS="3.11 3.12 …")
	$(EXPORT) --output-file dist/requirements.txt >/dev/null
	$(EXPORT) --extra workflow --output-file dist/requirements-workflow.txt >/dev/null
	UV="$(abspath $(UV))" PYTHONS="$(PYTHONS)" PATH="$(abspath .uv/bin):$$PATH" .venv/bin/python -m pytest tests/package

.PHONY: test-frameworks
test-frameworks: $(UV) ## try the retrievers of LangChain and LlamaIndex, by LangChain's own tests too
	UV_PROJECT_ENVIRONMENT=.venv-frameworks $(SYNC) --extra langchain --extra llamaindex --group frameworks
	.venv-frameworks/bin/python -m pytest -p no:asyncio tests/frameworks

.PHONY: test-export
test-export: $(UV) ## compare exported models with PyTorch's own vectors (several GB)
	UV_PROJECT_ENVIRONMENT=.venv-export $(SYNC) --extra export
	.venv-export/bin/python -m pytest tests/export

.PHONY: lint
lint: $(UV) ## check style, types and the direction of imports
	$(SYNC) --group lint
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/mypy make
	.venv/bin/lint-imports
	.venv/bin/bandit --quiet --configfile pyproject.toml --recursive layers/braid/braid functions braid_cli make bench
	$(MAKE) lock-check

# Not part of lint or of .ci/run: it needs PyPI's list of advisories, which a mirror of packages need not have. A package
# that could not be looked up fails it, so that it never passes for want of a list. pip-audit leaves out what this
# machine's Python and system would not install, and takes no package twice: so conditions are dropped from the list, and
# a package's other versions are audited from a list of their own. OSV_URL is the address of questions to a service that
# speaks OSV's interface, where pypi.org is not reachable: a mirror's, or https://api.osv.dev/v1/query.
.PHONY: audit
audit: $(UV) $(PIP_AUDIT) ## look for known vulnerabilities in what is deployed or runs on a laptop (OSV_URL=… asks there)
	@lists=$$(mktemp -d); trap 'rm -rf "$$lists"' EXIT; \
	$(EXPORT) --all-extras --group clone --output-file "$$lists/all" >/dev/null; \
	awk -v lists="$$lists" '/^[^ ]/ { name = $$1; sub(/==.*/, "", name); list = lists "/" (++seen[name]) ".txt" } \
		{ sub(/ ; [^\\]*/, " "); print > list }' "$$lists/all"; \
	found=; for list in "$$lists"/*.txt; do $(AUDIT) --requirement "$$list" || found=yes; done; \
	[ -z "$$found" ] || { echo "make audit: vulnerable, or not looked up: the lines above say which" >&2; exit 1; }

.PHONY: format
format: $(UV) ## apply the style
	$(SYNC) --group lint
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

.PHONY: bench
bench: setup ## measure on this machine, and write the figures to bench/; the engines: make bench-engines
	.venv/bin/python -m bench

.PHONY: bench-planner
bench-planner: setup ## show where walking first and searching first cross over, and which the planner picks
	.venv/bin/python -m bench planner

.PHONY: bench-engines
bench-engines: setup ## measure embedded and deployed engines side by side, on servers started for it (SIZES="1000,10000")
	.venv/bin/python -m bench engines $(if $(SIZES),--sizes $(SIZES))

.PHONY: bench-writes
bench-writes: setup ## measure writing beside embedding alone, and its memory at growing sizes (FOLDER=… SIZES="1000,10000")
	.venv/bin/python -m bench writes $(FOLDER) $(if $(SIZES),--sizes $(SIZES))

.PHONY: scale
scale: $(UV) ## size the stores, simulate questions and writes, and write docs/scale.md's tables (RECORDS=… LARGEST=… prints an index's shape)
	$(SYNC) --no-default-groups --group simulation
	.venv/bin/python -m bench.scale_simulation $(if $(RECORDS),$(RECORDS) $(or $(LARGEST),1))

.PHONY: load
load: $(UV) ## send braid serve 1, 8 and 32 users, and write the figures to bench/ (SECONDS=600 a step, ENGINE=aws)
	$(SYNC) --no-default-groups --group load
	.venv/bin/python -m bench load $(SECONDS) $(if $(ENGINE),--engine $(ENGINE))

.PHONY: evaluate
evaluate: $(UV) ## evaluate dataset folders (DATA="a b"), write the figures into the documentation and draw them
	$(SYNC) --no-default-groups --group plots
	.venv/bin/python -m braid_cli.evaluation.published_figures $(DATA)

.PHONY: test-hostile
test-hostile: test-setup ## attack it: tenancy, malformed requests, bombs, kills, damaged files (KILLS=200 for the long form)
	EXAMPLES=1200 .venv/bin/$(PYTEST) tests/hostile tests/contract/test_embedded_tenants.py tests/unit/api/test_hostile_input.py tests/unit/api/test_openapi.py

.PHONY: openapi
openapi: setup ## write the HTTP interface as OpenAPI to shared/openapi.json
	.venv/bin/python -m braid_cli.openapi

.PHONY: behaviour
behaviour: test-setup ## write docs/behaviour.md, which maps what Braid does to the tests that hold it to that
	.venv/bin/python -m tests.behaviour_map

.PHONY: clean
clean: ## remove what was built here; models and data in .braid stay
	rm -rf .venv .venv-py313 .venv-frameworks .venv-export .aws-sam dist
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# --- dependencies -----------------------------------------------------------------------------------------------------

# What Lambda installs is exported from the one lock, so that a function never runs what no test ran.
EXPORT := $(UV) export --quiet --locked --no-default-groups --no-emit-project --no-header --format requirements.txt

.PHONY: lock
lock: $(UV) ## renew uv.lock, and the requirements of layer and images from it
	$(UV) lock
	$(MAKE) requirements

.PHONY: requirements
requirements: $(UV)
	$(EXPORT) --only-group layer --output-file layers/braid/requirements.txt >/dev/null
	$(EXPORT) --only-group telemetry --output-file layers/telemetry/requirements.txt >/dev/null
	$(EXPORT) --only-group image --output-file functions/requirements.txt >/dev/null
	$(EXPORT) --only-group graph --output-file functions/graph_expand/requirements.txt >/dev/null
	$(EXPORT) --only-group small --output-file functions/small/requirements.txt >/dev/null

.PHONY: lock-check
lock-check: $(UV)
	$(UV) lock --check --quiet
	@temporary=$$(mktemp -d); trap 'rm -rf "$$temporary"' EXIT; \
	$(EXPORT) --only-group layer --output-file "$$temporary/layer" >/dev/null; \
	$(EXPORT) --only-group telemetry --output-file "$$temporary/telemetry" >/dev/null; \
	$(EXPORT) --only-group image --output-file "$$temporary/image" >/dev/null; \
	$(EXPORT) --only-group graph --output-file "$$temporary/graph" >/dev/null; \
	$(EXPORT) --only-group small --output-file "$$temporary/small" >/dev/null; \
	diff -u layers/braid/requirements.txt "$$temporary/layer" \
		&& diff -u layers/telemetry/requirements.txt "$$temporary/telemetry" \
		&& diff -u functions/requirements.txt "$$temporary/image" \
		&& diff -u functions/graph_expand/requirements.txt "$$temporary/graph" \
		&& diff -u functions/small/requirements.txt "$$temporary/small" \
		|| { echo "requirements differ from uv.lock: run make lock" >&2; exit 1; }

# --- deployment -------------------------------------------------------------------------------------------------------

include make/deploy.mk

# --- stores -----------------------------------------------------------------------------------------------------------

include make/engines.mk
engines-up stores-up engines-down test-engines: test-setup

# --- uv ---------------------------------------------------------------------------------------------------------------

.uv/bin/uv:
	$(if $(HOST_PYTHON),,$(error Braid needs Python 3.11 or newer on the PATH))
	@rm -rf .uv; "$(HOST_PYTHON)" -m venv .uv || { rm -rf .uv; \
		echo "$(HOST_PYTHON) cannot make a virtual environment: install its venv module, or uv" >&2; exit 1; }
	.uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement make/tools/uv.txt

# --- tools ------------------------------------------------------------------------------------------------------------

# The folder is made anew when its lock changes.
.uv/tools/%: make/tools/%.txt | $(UV)
	@rm -rf $@; $(UV) venv --quiet $@
	@$(UV) pip install --quiet --python $@/bin/python --require-hashes --requirement $< || { rm -rf $@; exit 1; }

.uv/tools/aws-sam-cli/bin/sam: .uv/tools/aws-sam-cli ;
.uv/tools/cfn-lint/bin/cfn-lint: .uv/tools/cfn-lint ;
.uv/tools/checkov/bin/checkov: .uv/tools/checkov ;
.uv/tools/pip-audit/bin/pip-audit: .uv/tools/pip-audit ;

.PHONY: lock-tools
lock-tools: $(UV) ## renew the locks of the tools in make/tools
	for tool in $(TOOLS); do echo "$$tool" | $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --output-file "make/tools/$${tool%%==*}.txt" -; done
	echo "$(LOCALSTACK)" | $(UV) pip compile --quiet --python-version 3.13 --exclude-newer $(LOCALSTACK_BEFORE) \
		--generate-hashes --no-header --no-annotate --output-file make/tools/localstack-core.txt -
	npm install --package-lock-only --ignore-scripts --silent --prefix make/tools/asl-validator
