#!/usr/bin/env bash
# Makes the virtual environment: `setup.sh venv`. `setup.sh ask` says what `make demo` will install, and asks at a
# terminal (YES=1 answers). Nothing is installed again until pyproject.toml or the interpreter changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=.venv
stamp=$venv/.mindx-installed

say() { printf 'setup: %s\n' "$*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -- "$@"
    else
        say "to install packages takes root, and there is no sudo. Run the same command as root."
        exit 4
    fi
}

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }
# Debian and Ubuntu ship Python without what makes a virtual environment.
complete() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

find_python() {
    local name
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3; do
        if command -v "$name" >/dev/null && fits "$name" && complete "$name"; then
            command -v "$name"
            return
        fi
    done
}

need_python() {
    [ -n "$(find_python)" ] || [ -x $venv/bin/python ] || echo python3 python3-venv
}

fingerprint() { { cat pyproject.toml; $venv/bin/python -VV; pwd; } 2>/dev/null | sha256sum | cut -d ' ' -f 1; }

installed() { [ -x $venv/bin/python ] && [ "$(cat $stamp 2>/dev/null)" = "$(fingerprint)" ]; }

install_python() {
    command -v apt-get >/dev/null || {
        say "Python 3.10 or newer, with venv, is needed. Install it the way your system does it, then run this again."
        exit 4
    }
    say "installing python3 and python3-venv from the distribution"
    as_root apt-get -q -o DPkg::Lock::Timeout=120 update </dev/null >&2 || true
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 \
        install -y --no-install-recommends python3 python3-venv </dev/null >&2 || {
        say "apt-get could not install Python: its reason stands above. Mend it, then run this again."
        exit 4
    }
}

make_venv() {
    installed && return
    local python
    if ! { [ -x $venv/bin/python ] && fits $venv/bin/python && $venv/bin/python -m pip --version >/dev/null 2>&1; }; then
        [ -n "$(find_python)" ] || install_python
        python=$(find_python)
        [ -n "$python" ] || {
            say "no Python 3.10 or newer with venv was found. Install one, or name it: make setup PYTHON=/path/to/python3"
            exit 4
        }
        say "making $venv with $python"
        rm -rf $venv
        "$python" -m venv $venv
    fi
    say "installing mindx and what it needs into $venv"
    rm -f $stamp
    $venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' >&2 || {
        say "pip could not install: its reason stands above. Check the network and pip's configuration, then run this again."
        exit 4
    }
    fingerprint >$stamp
}

ask() {
    local python packages="" parts=()
    python=$(find_python)
    [ -n "$python" ] || { [ -x $venv/bin/python ] && python=$venv/bin/python; }
    [ -z "$(need_python)" ] || packages="$(need_python) "
    if [ -n "$python" ]; then
        packages+=$("$python" scripts/engine.py plan)
    else
        packages+="docker.io mmdebstrap gpg ca-certificates"
    fi
    packages=${packages% }
    [ -z "$packages" ] || parts+=("packages of the distribution: $packages")
    installed || parts+=("in $PWD/$venv: mindx and the Python packages that pyproject.toml lists")
    [ ${#parts[@]} -gt 0 ] || return 0
    say "this will install"
    for part in "${parts[@]}"; do say "  - $part"; done
    say "then start the container engine if none answers, and build a base image of about 200 MB in it (once)"
    if [ "${YES:-}" != 1 ] && [ -t 0 ]; then
        local reply=""
        read -r -p "setup: go on? [y/N] " reply || true
        case $reply in
            y | Y | yes) ;;
            *)
                say "stopped, nothing was installed. YES=1 answers the question."
                exit 1
                ;;
        esac
    fi
}

case ${1:-} in
    venv) make_venv ;;
    ask) ask ;;
    *)
        echo "usage: $0 venv|ask" >&2
        exit 2
        ;;
esac
