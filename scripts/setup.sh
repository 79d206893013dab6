#!/bin/sh
# Makes a fresh Debian 12 or 13 ready: system packages, then .venv from the lock file. Run it again
# at any time: when nothing has changed it does nothing.
#
#   SETUP_LAB=0   leave out what only practice racks need
#   SETUP_LAB=2   racks of virtual machines as well (QEMU)
#   CI=true       never ask for a password
set -eu
cd "$(dirname "$0")/.."

UV_VERSION=0.13.9
SETUP_LAB=${SETUP_LAB:-1}
CI=${CI:-}

# The system's Python is what users get and what is tested; a downloaded one would be a third thing.
UV_PYTHON_DOWNLOADS=never
UV_NO_PROGRESS=1
export UV_PYTHON_DOWNLOADS UV_NO_PROGRESS

say() { printf 'setup: %s\n' "$*" >&2; }

# A setup with what practice racks need is good for a run that needs less, not the other way round.
stamp=.venv/.hfprov-setup-$SETUP_LAB

stamps_that_will_do() {
    for level in 0 1 2; do
        [ "$level" -lt "$SETUP_LAB" ] || echo ".venv/.hfprov-setup-$level"
    done
}

inputs() { cat uv.lock pyproject.toml scripts/setup.sh | sha256sum; }

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

wanted_packages() {
    echo openssh-client ca-certificates
    find_python > /dev/null || echo python3
    if ! command -v uv > /dev/null; then
        python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    fi
    [ "$SETUP_LAB" = 0 ] || echo systemd-container mmdebstrap iproute2
    [ "$SETUP_LAB" != 2 ] || echo qemu-system-x86 qemu-utils fdisk e2fsprogs
}

missing_packages() {
    for package in $(wanted_packages); do
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
            *' installed') ;;
            *) printf '%s ' "$package" ;;
        esac
    done
}

install_packages() {
    if ! command -v dpkg-query > /dev/null; then
        say "not a Debian: install these by your own means, then run this again if something fails:"
        say "  $(wanted_packages | tr '\n' ' ')"
        return
    fi
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo > /dev/null && sudo -n true 2>/dev/null; then
        as_root='sudo -n'
    elif command -v sudo > /dev/null && [ -z "$CI" ] && [ -t 0 ]; then
        as_root=sudo
    else
        say "these packages are missing and neither root nor sudo is at hand. Have root run:"
        echo "apt-get install --no-install-recommends $missing" | sed 's/ *$//'
        exit 2
    fi
    say "installing ${missing}..."
    $as_root apt-get -q update
    # shellcheck disable=SC2086 # both are lists of words
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $missing
}

find_uv() {
    if command -v uv; then
        return
    fi
    # A directory of its own: .venv is to hold what the lock file says and nothing else.
    tools=.cache/uv-venv-$UV_VERSION
    if [ ! -x "$tools/bin/uv" ]; then
        say "installing uv $UV_VERSION into $tools ..."
        rm -rf "$tools"
        "$1" -m venv "$tools" >&2
        "$tools/bin/pip" install --quiet --disable-pip-version-check "uv==$UV_VERSION" >&2
    fi
    echo "$tools/bin/uv"
}

if [ -x .venv/bin/hfprov ]; then
    now=$(inputs)
    for done_by in $(stamps_that_will_do); do
        if [ -f "$done_by" ] && [ "$now" = "$(cat "$done_by")" ]; then
            exit 0
        fi
    done
fi

install_packages
# A .venv that is there is somebody's: keep its Python, and (--inexact) what else is installed in it.
if [ -x .venv/bin/python ]; then
    python=$(PATH=$PWD/.venv/bin find_python) || {
        say ".venv has a Python older than 3.11. Move it away and run this again."
        exit 2
    }
elif ! python=$(find_python); then
    say "no Python of 3.11 or newer was found. Debian 12 and later have one: apt-get install python3"
    exit 2
fi
uv=$(find_uv "$python")
say "filling .venv from uv.lock with $python ..."
"$uv" sync --quiet --frozen --inexact --python "$python"
inputs > "$stamp"
say "ready: .venv/bin/hfprov --help"
