#!/usr/bin/env bash
# Sees to a compose for the one test that runs a service in a container. Installs it only where that was agreed to
# (YES=1, as continuous integration says); without it the test is skipped and says why.
set -euo pipefail

say() { printf 'compose: %s\n' "$*" >&2; }

# (The client's plugin, or the program of its own: either will do.)
if docker compose version >/dev/null 2>&1 || docker-compose version >/dev/null 2>&1; then
    exit 0
fi
if [ "${YES:-}" != 1 ] || ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    say "there is no compose here: one test will be skipped (YES=1 as root installs docker-compose)"
    exit 0
fi
say "installing docker-compose from the distribution"
apt-get -q -o DPkg::Lock::Timeout=120 update </dev/null >&2 || true
DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 \
    install -y --no-install-recommends docker-compose </dev/null >&2 ||
    say "it could not be installed: one test will be skipped"
