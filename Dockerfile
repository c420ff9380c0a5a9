# Container image of the service; see docs/operations.md.
#   docker build --tag cbir .        # with FAISS for NVIDIA GPUs: --build-arg FAISS=faiss-gpu-cu12
# Packages are those of the lock files, by hash; a FAISS for GPUs is not, it is the newest. A tag can move: for a build that
# can be repeated, give the base image by digest, --build-arg BASE=python:3.11-slim-bookworm@sha256:... (`docker buildx imagetools inspect` prints it).
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
# faiss-cpu, or a FAISS package for GPUs to install instead
ARG FAISS=faiss-cpu
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/cbir \
    && /opt/cbir/bin/pip install --no-cache-dir --require-hashes -r requirements.lock \
    && python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY cbir cbir
COPY indexer indexer
COPY service service
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/cbir/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
    && if [ "$FAISS" != faiss-cpu ]; then \
        /opt/cbir/bin/pip uninstall --yes faiss-cpu && /opt/cbir/bin/pip install --no-cache-dir "$FAISS"; fi

FROM ${BASE}
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin cbir \
    && install --directory --owner=cbir --group=cbir --mode=0700 /data
COPY --from=build /opt/cbir /opt/cbir
COPY deploy/healthcheck.py /opt/cbir/healthcheck.py
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
