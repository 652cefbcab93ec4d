# Reprise in a container. CPU:   docker build -t reprise .
#                         CUDA:  docker build -t reprise:cuda --build-arg DEVICE=cuda .
# BASE must be a Debian 12 (bookworm) image with Python 3.11 to 3.14 and its module venv, because the system packages are
# pinned to that release. For reproducible builds, specify it by digest; the Python packages are those of
# requirements-lock.txt.
ARG BASE=docker.io/library/python:3.12-slim-bookworm

FROM ${BASE} AS build
ARG DEVICE=cpu
# Further packages, separated by spaces; all optional ones: EXTRAS="-r /build/requirements-extra.txt".
ARG EXTRAS="psycopg[binary]"
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
COPY requirements.txt requirements-extra.txt requirements-lock.txt /build/
# PyTorch's index has the build without CUDA; that of PyPI contains CUDA's libraries.
RUN python3 -m venv /opt/venv \
    && if [ "$DEVICE" = cpu ]; then \
        /opt/venv/bin/pip install --index-url https://download.pytorch.org/whl/cpu \
            --constraint /build/requirements-lock.txt torch torchaudio; \
    fi \
    && /opt/venv/bin/pip install --constraint /build/requirements-lock.txt -r /build/requirements.txt ${EXTRAS}

FROM ${BASE}
# libgomp is OpenMP, which PyTorch uses on CPUs. At its first start the engine compiles code for the processor or the GPU,
# with gcc and Python's headers, into /models. Group 0 is that of any user whom a platform chooses, as OpenShift does.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1=12.* gcc=4:12.* libc6-dev=2.36-* \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 reprise \
    && useradd --uid 10001 --gid reprise --create-home --shell /usr/sbin/nologin reprise \
    && install -d -o reprise -g root -m 770 /data /models
COPY --from=build /opt/venv /opt/venv
COPY app.py LICENSE /app/
COPY assets/ /app/assets/
COPY engine/ /app/engine/
COPY storage/ /app/storage/
COPY studio/ /app/studio/
COPY web/ /app/web/
COPY api/ /app/api/
COPY cli/ /app/cli/
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/models \
    XDG_CACHE_HOME=/models/cache \
    REPRISE_DATABASE=/data/voices.db \
    REPRISE_HOST=0.0.0.0 \
    REPRISE_PORT=7860
WORKDIR /app
USER 10001:10001
# /data: the library, unless REPRISE_DATABASE names a server. /models: downloaded models and compiled code.
VOLUME ["/data", "/models"]
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=10m --retries=3 \
    CMD ["python3", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['REPRISE_PORT'] + '/health/ready', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["python3", "app.py"]
CMD ["--no-open"]
