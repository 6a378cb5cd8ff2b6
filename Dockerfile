# Braid on one machine: the server with the explorer, the command line, and the tools for agents; docs/docker.md says how
# it is run. The functions' image is another, functions/Dockerfile.

# By digest, so that a build is of the same image until somebody renews it: make image-digests.
FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS built
ENV ORT_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_TELEMETRY=1 DO_NOT_TRACK=1 UV_NO_CACHE=1
WORKDIR /build
COPY make/tools/uv.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement uv.txt
COPY pyproject.toml uv.lock README.md CHANGELOG.md LICENSE ./
COPY layers/braid layers/braid
COPY braid_cli braid_cli
COPY functions functions
COPY shared shared
RUN uv sync --quiet --locked --no-default-groups --group clone
# The default model, so that the first start needs no network; what makes it stays behind in this stage.
RUN .venv/bin/braid models export all-minilm-l6-v2 --out /opt/models/all-minilm-l6-v2
RUN uv build --quiet --wheel --no-build-isolation --python .venv/bin/python --out-dir dist
RUN uv export --quiet --locked --no-default-groups --no-emit-project --format requirements.txt \
      --extra documents --extra mcp --extra otel --output-file requirements.txt \
    && echo "braid-retrieval @ file://$(ls "$PWD"/dist/*.whl) --hash=sha256:$(sha256sum dist/*.whl | cut --delimiter=' ' --fields=1)" \
      >> requirements.txt \
    && uv venv --quiet --relocatable /opt/braid \
    && uv pip install --quiet --python /opt/braid --require-hashes --only-binary :all: --compile-bytecode --requirement requirements.txt

FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
COPY --from=built /opt /opt
RUN mkdir --parents /srv/braid && chown 10001:10001 /srv/braid
ENV PATH=/opt/braid/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 \
    ORT_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_TELEMETRY=1 DO_NOT_TRACK=1 \
    BRAID_HOME=/srv/braid BRAID_MODELS=/opt/models HOME=/tmp
# By its number, as Kubernetes wants it to know that it is not root.
USER 10001:10001
VOLUME /srv/braid
EXPOSE 8700
HEALTHCHECK --interval=30s --timeout=5s --start-period=90s --start-interval=2s \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8700/health', timeout=4)"]
ENTRYPOINT ["braid"]
CMD ["serve", "--host", "0.0.0.0"]
