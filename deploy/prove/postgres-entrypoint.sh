#!/bin/sh
# What the official image's entrypoint does with the variables that docker-compose.yml sets, and no more:
# make the cluster and its database once, with the password of POSTGRES_PASSWORD_FILE, then run the command.
set -eu
[ "$1" = postgres ] || exec "$@"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  rm -rf "$PGDATA.new"
  initdb -D "$PGDATA.new" -U postgres --auth=scram-sha-256 --pwfile="$POSTGRES_PASSWORD_FILE" --encoding=UTF8 --locale=C
  echo "host all all all scram-sha-256" >> "$PGDATA.new/pg_hba.conf"
  pg_ctl -D "$PGDATA.new" -w -o "-c listen_addresses=127.0.0.1 -c unix_socket_directories=" start
  PGPASSWORD=$(cat "$POSTGRES_PASSWORD_FILE") createdb -h 127.0.0.1 -U postgres "$POSTGRES_DB"
  pg_ctl -D "$PGDATA.new" -w stop
  mv "$PGDATA.new" "$PGDATA"
fi
rm -f "$PGDATA/postmaster.pid" # left by a container that was killed; this one is alone on its volume
exec "$@" -c listen_addresses='*' -c unix_socket_directories=/tmp
