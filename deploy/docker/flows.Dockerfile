# EdgeLoop: retraining (torch), the servers of MLflow and Prefect, and the course of events of the demo.
# Context is the root of the repository: podman build -f deploy/docker/flows.Dockerfile -t edgeloop/flows .
# BASE is any image with Python 3.11 to 3.13 as python3 (pin it by digest for production). A folder wheels/ in the
# context is used first; with PIP_ARGS=--no-index nothing else is, for a build without a network.
ARG BASE=docker.io/library/python:3.12-slim-bookworm

FROM ${BASE} AS build
ARG PIP_ARGS=""
# Further extras, with a comma before each: EXTRAS=,tracing exports traces by OTLP.
ARG EXTRAS=""
WORKDIR /source
RUN python3 -m venv /opt/edgeloop
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY constraints.txt wheel[s] /wheels/
COPY contracts contracts
COPY compiler compiler
COPY edge_agent edge_agent
COPY edgeloop edgeloop
COPY services services
COPY flows flows
COPY embedded embedded
COPY demo demo
COPY migrations migrations
COPY seeds seeds
RUN /opt/edgeloop/bin/python -m pip install --no-cache-dir --disable-pip-version-check ${PIP_ARGS} --find-links /wheels -c constraints.txt "setuptools>=77" wheel \
 && /opt/edgeloop/bin/python -m pip install --no-cache-dir --disable-pip-version-check --no-build-isolation ${PIP_ARGS} --find-links /wheels -c constraints.txt ".[flows${EXTRAS}]" "psycopg[binary]" \
 && /opt/edgeloop/bin/python -m pip uninstall --yes --disable-pip-version-check pip \
 && cd /opt/edgeloop/lib/python3.*/site-packages && rm -rf services embedded && cp -r /source/seeds seeds

FROM ${BASE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="edgeloop-flows" org.opencontainers.image.version="${VERSION}" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/edgeloop /opt/edgeloop
ENV PATH=/opt/edgeloop/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp EDGELOOP_STATE_DIR=/var/lib/edgeloop DO_NOT_TRACK=1 MLFLOW_DISABLE_TELEMETRY=true PREFECT_SERVER_ANALYTICS_ENABLED=false EDGELOOP_READY_FILE=/tmp/ready
RUN mkdir -p /var/lib/edgeloop /demo /clock && chown 65532:65532 /var/lib/edgeloop /demo /clock
USER 65532:65532
VOLUME ["/tmp", "/var/lib/edgeloop"]
HEALTHCHECK --interval=30s --timeout=5s --start-period=180s --retries=3 CMD ["test", "-f", "/tmp/ready"]
CMD ["python", "-m", "flows.serve"]
