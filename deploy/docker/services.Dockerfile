# EdgeLoop: every service of the platform; the command says which process (API, worker, beat, exporter, migration).
# Context is the root of the repository: podman build -f deploy/docker/services.Dockerfile -t edgeloop/services .
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
RUN /opt/edgeloop/bin/python -m pip install --no-cache-dir --disable-pip-version-check ${PIP_ARGS} --find-links /wheels -c constraints.txt "setuptools>=77" wheel \
 && /opt/edgeloop/bin/python -m pip install --no-cache-dir --disable-pip-version-check --no-build-isolation ${PIP_ARGS} --find-links /wheels -c constraints.txt ".[services,edge${EXTRAS}]" \
 && /opt/edgeloop/bin/python -m pip uninstall --yes --disable-pip-version-check pip \
 && cd /opt/edgeloop/lib/python3.*/site-packages && rm -rf flows embedded demo

FROM ${BASE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="edgeloop-services" org.opencontainers.image.version="${VERSION}" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/edgeloop /opt/edgeloop
ENV PATH=/opt/edgeloop/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp EDGELOOP_STATE_DIR=/var/lib/edgeloop
RUN mkdir -p /var/lib/edgeloop /enrolment /demo /clock /objects && chown 65532:65532 /var/lib/edgeloop /enrolment /demo /clock /objects
USER 65532:65532
VOLUME ["/tmp", "/var/lib/edgeloop"]
EXPOSE 8080 9464
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
CMD ["python", "-m", "uvicorn", "services.app:create_app", "--factory", "--host", "0.0.0.0", "--port", "8080", "--no-access-log", "--log-level", "warning"]
