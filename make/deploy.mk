# Checks of the template and its state machines, and builds of what needs no container engine.

SAM := .uv/tools/aws-sam-cli/bin/sam
CFN_LINT := .uv/tools/cfn-lint/bin/cfn-lint
CHECKOV := .uv/tools/checkov/bin/checkov
ASL_VALIDATOR := .uv/tools/asl-validator/node_modules/.bin/asl-validator

.uv/tools/asl-validator: make/tools/asl-validator/package-lock.json
	@command -v npm >/dev/null || { echo "make lint-deploy needs npm, of Node.js, for the state machine validator" >&2; exit 1; }
	@rm -rf $@; mkdir -p $@; cp make/tools/asl-validator/*.json $@
	@npm ci --ignore-scripts --silent --prefix $@ || { rm -rf $@; exit 1; }
$(ASL_VALIDATOR): .uv/tools/asl-validator ;

# The Python of the functions. A version manager's stand-in on the PATH may answer for a Python that it does not select.
LAMBDA_PYTHON := $(shell for name in python3.13 "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.13*/bin/python3.13; do \
	"$$name" -c 'import sys; print(sys.executable)' 2>/dev/null && break; done)
need_lambda_python = $(if $(LAMBDA_PYTHON),,$(error make $@ needs Python 3.13, which the functions run on, as python3.13 on the PATH))

TEMPLATES := template.yaml observability.yaml firewall.yaml stores.yaml small.yaml

SBOM = $(UV) export --quiet --locked --no-default-groups --format cyclonedx1.5 --preview-features sbom-export

.PHONY: deploy-check
deploy-check: setup ## say what a deployment lacks, before anything is created (CONFIG=dev; OFFLINE=1 asks no account)
	@.venv/bin/python -m make.deploy_check $(or $(CONFIG),dev) $(if $(OFFLINE),--offline)

.PHONY: deploy-stores
deploy-stores: setup ## make OpenSearch, Neptune and a network for them, and note where they are (CONFIG=dev PARAMETERS="A=b …")
	@.venv/bin/python -m make.deploy_stores $(or $(CONFIG),dev) $(PARAMETERS)

# For a machine in the stores' network, which has no way to a registry: Linux on x86_64, with a Python 3.13.
TOOLBOX := dist/toolbox
.PHONY: toolbox
toolbox: setup ## pack the command line with all that it needs for a machine in the stores' network, as dist/toolbox.tar.gz (Linux on x86_64)
	rm -rf $(TOOLBOX) $(TOOLBOX).tar.gz
	mkdir -p $(TOOLBOX)/site
	$(UV) build --quiet --wheel --no-build-isolation --python .venv/bin/python --out-dir $(TOOLBOX)
	$(UV) export --quiet --locked --no-default-groups --extra aws --extra documents --group clone --no-emit-project \
		--output-file $(TOOLBOX)/requirements.txt >/dev/null
	$(UV) pip install --quiet --python-version 3.13 --python-platform x86_64-manylinux_2_28 --only-binary :all: \
		--require-hashes --target $(TOOLBOX)/site --requirement $(TOOLBOX)/requirements.txt
	.venv/bin/python -m zipfile -e $(TOOLBOX)/braid_retrieval-*.whl $(TOOLBOX)/site
	printf '%s\n' '#!/bin/sh' 'PYTHONPATH="$$(cd "$$(dirname "$$0")" && pwd)/site" exec python3.13 -m braid_cli.main "$$@"' > $(TOOLBOX)/braid
	chmod +x $(TOOLBOX)/braid
	tar -czf $(TOOLBOX).tar.gz -C dist toolbox

.PHONY: addresses
addresses: $(UV) ## print where a deployed stack's stores are, as variables for braid on a machine that reaches them (CONFIG=dev)
	@$(MAKE) --silent setup >&2
	@.venv/bin/python -m make.addresses $(or $(CONFIG),dev)

# Checkov looks at no resource that a loop makes, so it is given the templates with their loops unrolled.
.PHONY: lint-deploy
lint-deploy: setup $(SAM) $(CFN_LINT) $(CHECKOV) $(ASL_VALIDATOR) ## check the template, the state machines and the deployment's security
	$(SAM) validate --lint
	$(CFN_LINT) $(TEMPLATES)
	.venv/bin/python -m make.inline_state_machines .aws-sam/asl
	$(CFN_LINT) .aws-sam/asl/state-machines.json
	for machine in .aws-sam/asl/*.asl.json; do $(ASL_VALIDATOR) --json-path "$$machine"; done
	.venv/bin/python -m make.templates .aws-sam/unrolled $(TEMPLATES)
	$(CHECKOV) --file $(TEMPLATES:%.yaml=.aws-sam/unrolled/%.json) functions/Dockerfile Dockerfile

# Images need a container engine; here what the Dockerfile copies and installs is laid in folders instead: what all images
# have, once, and the rest of each. Everything is built for this machine's processor, so that the result can be run here.
BUILT := .aws-sam/checked
ZIP_FUNCTIONS := PlanFunction VectorSearchFunction GraphExpandFunction ContextFunction SearchApiFunction
IMAGE_FUNCTIONS := EmbedFunction:embed FuseRerankFunction:fuse_rerank AnswerFunction:answer IngestFunction:ingest ReembedFunction:reembed SmallFunction:small
HOST_ARCHITECTURE := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,x86_64)

.PHONY: build
build: $(UV) $(SAM) ## build functions and layers, and run what was built on Python 3.13
	$(need_lambda_python)
	rm -rf $(BUILT)
	for name in $(ZIP_FUNCTIONS) TelemetryLayer; do \
		PATH="$(dir $(LAMBDA_PYTHON)):$$PATH" $(SAM) build "$$name" --build-dir "$(BUILT)/$$name" \
			--parameter-overrides Architecture=$(HOST_ARCHITECTURE) OtlpEndpoint=http://127.0.0.1:9 >/dev/null; done
	UV_PYTHON="$(LAMBDA_PYTHON)" $(UV) pip install --quiet --require-hashes --only-binary :all: --target "$(BUILT)/image" \
		--requirement functions/requirements.txt
	cp -r layers/braid/braid "$(BUILT)/image"
	mkdir "$(BUILT)/opt" && cp -r shared/models shared/index "$(BUILT)/opt"
	for pair in $(IMAGE_FUNCTIONS); do \
		folder="$(BUILT)/$${pair%%:*}/$${pair%%:*}"; mkdir -p "$$folder"; cp "functions/$${pair#*:}/app.py" "$$folder"; done
	for pair in AnswerFunction:graph_expand SmallFunction:small; do \
		UV_PYTHON="$(LAMBDA_PYTHON)" $(UV) pip install --quiet --require-hashes --only-binary :all: \
			--target "$(BUILT)/$${pair%%:*}/$${pair%%:*}" --requirement "functions/$${pair#*:}/requirements.txt"; done
	"$(LAMBDA_PYTHON)" make/check_build.py "$(LAMBDA_PYTHON)" $(BUILT)
	$(MAKE) sbom
	"$(LAMBDA_PYTHON)" make/provenance.py $(BUILT) dist/provenance.json

# CycloneDX, from the lock: what the layer and the images carry, and what runs on a laptop.
.PHONY: sbom
sbom: $(UV) ## list what is deployed and what runs on a laptop, as CycloneDX, in dist/sbom
	@mkdir -p dist/sbom
	$(SBOM) --only-group layer --output-file dist/sbom/layer.cdx.json >/dev/null
	$(SBOM) --only-group image --output-file dist/sbom/image.cdx.json >/dev/null
	$(SBOM) --only-group graph --output-file dist/sbom/graph-expand.cdx.json >/dev/null
	$(SBOM) --only-group small --output-file dist/sbom/small.cdx.json >/dev/null
	$(SBOM) --extra aws --extra documents --extra mcp --extra workflow --group clone --output-file dist/sbom/laptop.cdx.json >/dev/null

.PHONY: image-digests
image-digests: ## look up the digests of the images in the Dockerfile and compose.yaml, and write them there (Docker)
	python3 make/image_digests.py
