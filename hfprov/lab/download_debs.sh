#!/bin/sh
# Customize hook of mmdebstrap: $1 is the new root. Downloads each wanted package with what it needs
# on top of that root, one by one because some of them exclude each other (time daemons).
set -eu
root=$1
for package in $HFPROV_PACKAGES; do
    APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -q -y --no-install-recommends --download-only \
        install "$package"
    find "$root/var/cache/apt/archives" -name '*.deb' -exec mv -f {} "$HFPROV_DEBS/" \;
done
