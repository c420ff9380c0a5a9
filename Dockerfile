# Container image of the service; see docs/operations.md.
#   docker build --tag cbir .        # with FAISS for NVIDIA GPUs: --build-arg FAISS=faiss-gpu-cu12
ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS build
# faiss-cpu, or a FAISS package for GPUs to install instead
ARG FAISS=faiss-cpu
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY cbir cbir
COPY indexer indexer
COPY service service
RUN python -m venv /opt/cbir \
    && /opt/cbir/bin/pip install --no-cache-dir . \
    && if [ "$FAISS" != faiss-cpu ]; then \
        /opt/cbir/bin/pip uninstall --yes faiss-cpu && /opt/cbir/bin/pip install --no-cache-dir "$FAISS"; fi

FROM python:${PYTHON}-slim-bookworm
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
