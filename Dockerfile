# Container image of the service; see docs/operations.md.
#   docker build --tag cbir .
#   docker build --tag cbir --build-arg EXTRAS=pacs .                                        # Linux on arm64
#   docker build --tag cbir-gpu --build-arg EXTRAS=pacs,evaluate,gpu .                       # NVIDIA GPUs
# The digest is that of an index of platforms, from the records of Docker's official images of 2026-09-19. A newer one:
#   docker buildx imagetools inspect python:3.11-slim-bookworm
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${BASE} AS build
WORKDIR /src
COPY requirements-build.lock ./
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock \
    && python -m venv --without-pip /opt/cbir
# Dependencies in a layer of their own, which a change of the source leaves as it is: wheels of the lock file only, by hash
# EXTRAS come beside serve, which every image has
ARG EXTRAS=pacs,evaluate
COPY requirements.lock requirements-gpu.lock pyproject.toml ./
RUN IFS=,; for extra in serve $EXTRAS; do set -- "$@" --extra "$extra"; done; \
    /opt/build/bin/uv pip install --no-cache --compile-bytecode --python /opt/cbir/bin/python --require-hashes \
        --only-binary :all: --constraints requirements.lock --requirements pyproject.toml "$@"
# With the extra gpu: faiss-gpu in place of faiss-cpu
RUN case ",$EXTRAS," in *,gpu,*) \
        /opt/build/bin/uv pip uninstall --python /opt/cbir/bin/python faiss-cpu \
        && /opt/build/bin/uv pip install --no-cache --compile-bytecode --python /opt/cbir/bin/python --require-hashes \
            --only-binary :all: --requirements requirements-gpu.lock ;; esac
# npm, by which hatch_build.py bundles the scripts of pages
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends npm && rm -rf /var/lib/apt/lists/*
COPY README.md LICENSE hatch_build.py ./
COPY cbir cbir
COPY indexer indexer
COPY service service
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/build/bin/uv pip install --no-cache --compile-bytecode --python /opt/cbir/bin/python --no-deps --offline /wheels/*.whl

FROM ${BASE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="cbir" \
      org.opencontainers.image.description="Content-based retrieval of medical images" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/cbir-contributors/cbir" \
      org.opencontainers.image.documentation="https://github.com/cbir-contributors/cbir/tree/main/docs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin cbir \
    && install --directory --owner=cbir --group=cbir --mode=0700 /data \
    && install --directory --owner=cbir --group=cbir --mode=0755 /run/secrets
COPY --from=build /opt/cbir /opt/cbir
COPY deploy/healthcheck.py deploy/prepare.sh LICENSE THIRD_PARTY.md /opt/cbir/
# Few malloc arenas: one per thread would hold on to memory.
ENV PATH=/opt/cbir/bin:$PATH MALLOC_ARENA_MAX=2 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 CBIR_STATE_FOLDER=/data/state
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "/opt/cbir/healthcheck.py"]
# Like Ctrl-C: the service shuts down cleanly.
STOPSIGNAL SIGINT
ENTRYPOINT ["cbir"]
CMD ["serve", "--collection", "/data/collection"]
