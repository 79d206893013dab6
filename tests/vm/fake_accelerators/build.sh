#!/bin/sh
# Builds fake_accelerators.ko for a kernel release of Debian: sh build.sh 6.1.0-50-amd64 OUTDIR
# Needs root (a mount namespace of its own, so that no header package is installed), apt, make, gcc.
set -eu
release=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

common=${release%-*}-common                       # 6.1.0-50-common, 6.12.95+deb12-common
series=$(echo "$release" | cut -d. -f1-2)
case $release in
    *+deb*) kbuild=linux-kbuild-${release%-*} ;;  # one per release since 6.12
    *) kbuild=linux-kbuild-$series ;;
esac
(cd "$work" && apt-get -q download "linux-headers-$release" "linux-headers-$common" "$kbuild" >&2)
for deb in "$work"/*.deb; do dpkg-deb --extract "$deb" "$work/root"; done
mkdir -p "$work/module"
cp "$here/Kbuild" "$here/fake_accelerators.c" "$work/module"
# The headers' makefiles name each other by absolute paths below /usr.
unshare --mount sh -eu -c '
    work=$1 release=$2
    mount -t overlay -o "lowerdir=$work/root/usr:/usr" overlay /usr
    # No type information: that would take pahole.
    make -s -C "/usr/src/linux-headers-$release" M="$work/module" CONFIG_DEBUG_INFO_BTF_MODULES= \
        modules >&2
' sh "$work" "$release"
mkdir -p "$out"
strip --strip-debug -o "$out/fake_accelerators.ko" "$work/module/fake_accelerators.ko"
