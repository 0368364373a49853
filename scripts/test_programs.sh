#!/usr/bin/env bash
# Sees to the programs that single tests want beside the engine. Installs them only where that was agreed to (YES=1, as
# continuous integration says) and root may; without one its tests are skipped and say why.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
registry=.venv/bin/docker-registry

say() { printf 'test programs: %s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null; }

missing=()
# (The client's plugin, or the program of its own: either will do.)
docker compose version >/dev/null 2>&1 || docker-compose version >/dev/null 2>&1 || missing+=(docker-compose)
has chromium || has chromium-browser || has google-chrome || missing+=(chromium)
has sudo || missing+=(sudo)
has rootlesskit || missing+=(rootlesskit)
has slirp4netns || missing+=(slirp4netns)
has newuidmap || missing+=(uidmap)
has docker-registry || [ -x $registry ] || missing+=(docker-registry)
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "${YES:-}" != 1 ] || ! has apt-get || [ "$(id -u)" != 0 ]; then
    say "not here: ${missing[*]}. Some tests will be skipped (YES=1 as root installs them)"
    exit 0
fi

# Only unpacked: installed, it would serve as a registry on this machine from then on.
unpack_registry() {
    local folder
    folder=$(mktemp -d)
    (cd "$folder" && apt-get -q download docker-registry && dpkg -x docker-registry_*.deb .) >/dev/null 2>&1 &&
        install -m 755 "$folder/usr/bin/docker-registry" $registry
    local status=$?
    rm -rf "$folder"
    return $status
}

install_package() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 \
        install -y --no-install-recommends "$1" </dev/null >/dev/null 2>&1
}

say "installing from the distribution: ${missing[*]}"
apt-get -q -o DPkg::Lock::Timeout=120 update </dev/null >&2 || true
# One at a time: what this distribution does not have must not keep the others away.
for package in "${missing[@]}"; do
    if [ "$package" = docker-registry ]; then
        unpack_registry || say "$package could not be had: its tests will be skipped"
    else
        install_package "$package" || say "$package could not be installed: its tests will be skipped"
    fi
done
