#!/bin/sh
# Downloads Debian's packages of NVIDIA's driver, with all that they need on top of a node, into a
# flat repository: download.sh DIRECTORY STATUS, where STATUS is a copy of the node's
# /var/lib/dpkg/status. Prints the driver's version and the release of the kernel whose headers came.
# HFPROV_LAB_MIRROR names another mirror than Debian's own.
set -eu
repository=$1 status=$2
mirror=${HFPROV_LAB_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$repository" "$state/lists/partial" "$state/archives/partial" "$state/none"
echo "deb [signed-by=$keyring] $mirror bookworm main contrib non-free non-free-firmware" \
    >"$state/sources.list"

with() {
    tool=$1
    shift
    "$tool" -q -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts="$state/none" \
        -o Dir::Etc::preferencesparts="$state/none" -o Dir::Etc::parts="$state/none" \
        -o Dir::State="$state" -o Dir::State::lists="$state/lists" -o Dir::State::status="$status" \
        -o Dir::Cache="$state" -o Dir::Cache::archives="$state/archives" \
        -o APT::Install-Recommends=false -o APT::Architecture=amd64 -o Acquire::Languages=none "$@"
}

with apt-get update >&2
kernel=$(with apt-cache depends linux-headers-amd64 | sed -n 's/.*Depends: linux-headers-//p' | head -n 1)
with apt-get -y --download-only install "linux-headers-$kernel" nvidia-kernel-dkms nvidia-smi \
    libcuda1 libnvidia-ml1 nvidia-persistenced initramfs-tools unattended-upgrades >&2
mv "$state"/archives/*.deb "$repository/"
version=$(with apt-cache policy nvidia-kernel-dkms | sed -n 's/.*Candidate: \(.*\)-.*/\1/p')

# Newer ones, that an upgrade would take: of the driver, and one that nobody keeps back.
for package in libcuda1 libnvidia-ml1 nvidia-kernel-support nvidia-kernel-dkms hfprov-witness; do
    for one in 0.1 999.0; do
        [ "$one" = 999.0 ] || [ $package = hfprov-witness ] || continue
        root=$state/pack
        mkdir -p "$root/DEBIAN"
        printf 'Package: %s\nVersion: %s-1\nArchitecture: amd64\nMaintainer: t <t@example.com>\n' \
            $package $one >"$root/DEBIAN/control"
        echo 'Description: stand-in for tests' >>"$root/DEBIAN/control"
        dpkg-deb --root-owner-group --build "$root" "$repository/${package}_$one.deb" >/dev/null
        rm -r "$root"
    done
done
cd "$repository"
: >Packages
for deb in *.deb; do
    dpkg-deb --field "$deb" >>Packages
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" \
        "$(sha256sum "$deb" | cut -d ' ' -f 1)" >>Packages
done
{
    printf 'Origin: hfprov-test\nLabel: hfprov-test\nSuite: test\nCodename: test\nSHA256:\n'
    printf ' %s %s Packages\n' "$(sha256sum Packages | cut -d ' ' -f 1)" "$(stat -c %s Packages)"
} >Release
echo "$version $kernel"
