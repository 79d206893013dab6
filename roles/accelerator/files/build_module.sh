#!/bin/sh
# Builds a driver for one kernel: build_module.sh KERNEL NAME VERSION. NAME and VERSION are those of
# its sources in DKMS; without them all sources are built. Changes only what belongs to KERNEL.
set -eu
kernel=$1 name=${2:-} version=${3:-}
if [ -z "$name" ]; then
    dkms autoinstall -k "$kernel"
else
    # A build that was cut short, or whose file was lost, counts as done for DKMS.
    if dkms status -m "$name" -v "$version" -k "$kernel" | grep -q "$kernel"; then
        dkms remove -m "$name" -v "$version" -k "$kernel"
    fi
    # The last kernel's removal may take the sources off the list.
    dkms add -m "$name" -v "$version" || true
    dkms install -m "$name" -v "$version" -k "$kernel"
fi
depmod "$kernel"
