#!/bin/sh
# The role 'accelerator' with Debian's real packages of NVIDIA's driver on a practice node: about ten
# minutes of CPU and 400 MB of downloads. Not part of 'make test'. Needs root and a mirror of Debian;
# HFPROV_LAB_MIRROR names another than Debian's own.
set -eu
cd "$(dirname "$0")/.."
HFPROV_TEST_DRIVER=1
export HFPROV_TEST_DRIVER
exec nice -n 10 .venv/bin/pytest -v -n 0 -p no:cacheprovider --timeout=7200 tests/driver "$@"
