#!/bin/sh
# Makes, on a node, a flat repository of small packages that have the names, versions and relations
# of NVIDIA's driver in Debian, with a 'dkms' that builds at once, and with two kernels. Nothing in
# them drives anything: they show what a role does to packages, holds and builds.
#
#   fake_driver.sh DIRECTORY      makes DIRECTORY and its index, and names it to apt
#
# A build fails for a kernel while /etc/fake-dkms-fails-for/KERNEL exists.
set -eu
repository=$1
old=535.161.08-1 new=535.183.01-1
kernels='6.1.0-98-amd64 6.12.0-99-amd64'
# A module without code, of 536 bytes: gzip, base64. Its version is that of $old.
module=H4sIAAAAAAACA6t39XFjYmRkgAFGBjsGBA8BZiCxHaAkGwMrQ15ibqptXllmSmYiQ1lqUXFmfp6tqbGpnqGZoZ6BBUNOZnJqXnGqrV+Yp4unIwODXnFGcUlRSWISg15JakUJg15KYkkig15ScTGDXm5+SmZeWj4DVQA32C8MQDeiAgcc6tH9LAgVYyZTvzgQc1CgXwYqxoRDvx4B/djcDgJ5UFqVgH4A40QMFxgCAAA=
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# pack NAME VERSION [FIELD...]: packs $work/NAME, in which files may have been put, and empties it.
pack() {
    name=$1 version=$2 root=$work/$1
    shift 2
    mkdir -p "$root/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: amd64\n' "$name" "$version"
        printf 'Maintainer: hfprov <test@example.com>\n'
        [ $# = 0 ] || printf '%s\n' "$@"
        printf 'Description: stand-in for tests\n'
    } >"$root/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone --build "$root" "$repository/${name}_$version.deb" >/dev/null
    rm -rf "$root"
}

mkdir -p "$repository"

for version in $old $new; do
    upstream=${version%-*}
    lib=usr/lib/x86_64-linux-gnu
    for package in libcuda1 libnvidia-ml1; do
        so=lib${package#lib}
        so=${so%1}.so.$upstream
        mkdir -p "$work/$package/$lib"
        echo stand-in >"$work/$package/$lib/$so"
        pack $package "$version"
    done
    mkdir -p "$work/nvidia-smi/usr/bin"
    cat >"$work/nvidia-smi/usr/bin/nvidia-smi" <<'SCRIPT'
#!/bin/sh
echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver." \
    "Make sure that the latest NVIDIA driver is installed and running."
exit 9
SCRIPT
    chmod 0755 "$work/nvidia-smi/usr/bin/nvidia-smi"
    pack nvidia-smi "$version" "Depends: libnvidia-ml1 (= $version)"
    pack nvidia-kernel-support "$version"
    src=$work/nvidia-kernel-dkms/usr/src/nvidia-current-$upstream
    mkdir -p "$src" "$work/nvidia-kernel-dkms/DEBIAN"
    echo "$module" | base64 -d | gzip -d | sed "s/${old%-*}/$upstream/" >"$src/nvidia-current.ko"
    printf 'PACKAGE_NAME=nvidia-current\nPACKAGE_VERSION=%s\n' "$upstream" >"$src/dkms.conf"
    cat >"$work/nvidia-kernel-dkms/DEBIAN/postinst" <<SCRIPT
#!/bin/sh
set -e
dkms add -m nvidia-current -v $upstream
dkms autoinstall
SCRIPT
    cat >"$work/nvidia-kernel-dkms/DEBIAN/prerm" <<SCRIPT
#!/bin/sh
dkms remove -m nvidia-current -v $upstream --all
SCRIPT
    chmod 0755 "$work/nvidia-kernel-dkms/DEBIAN/postinst" "$work/nvidia-kernel-dkms/DEBIAN/prerm"
    pack nvidia-kernel-dkms "$version" "Depends: dkms, nvidia-kernel-support (= $version)"
    # Not excluded from updates by anybody: shows that the updates did run.
    pack hfprov-witness "$version"
done
for version in 535.161.04-1 535.183.00-1; do
    units=$work/nvidia-persistenced/lib/systemd/system
    mkdir -p "$units"
    printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' \
        >"$units/nvidia-persistenced.service"
    pack nvidia-persistenced $version
done

for kernel in $kernels; do
    root=$work/linux-image-$kernel
    mkdir -p "$root/boot" "$root/lib/modules/$kernel/kernel" "$root/DEBIAN"
    echo stand-in >"$root/boot/vmlinuz-$kernel"
    echo 'CONFIG_RD_GZIP=y' >"$root/boot/config-$kernel"
    touch "$root/lib/modules/$kernel/modules.order" "$root/lib/modules/$kernel/modules.builtin"
    # As linux-image's own: what is kept in step with kernels is told of the new one.
    cat >"$root/DEBIAN/postinst" <<SCRIPT
#!/bin/sh
depmod $kernel
[ ! -d /etc/kernel/postinst.d ] || run-parts --arg=$kernel --arg=/boot/vmlinuz-$kernel \
    /etc/kernel/postinst.d
SCRIPT
    chmod 0755 "$root/DEBIAN/postinst"
    pack "linux-image-$kernel" "${kernel%%-*}-1"
    mkdir -p "$work/linux-headers-$kernel/usr/src/linux-headers-$kernel/include" \
        "$work/linux-headers-$kernel/lib/modules/$kernel"
    ln -s "/usr/src/linux-headers-$kernel" "$work/linux-headers-$kernel/lib/modules/$kernel/build"
    pack "linux-headers-$kernel" "${kernel%%-*}-1"
done

mkdir -p "$work/dkms/usr/sbin" "$work/dkms/etc/kernel/postinst.d"
cat >"$work/dkms/etc/kernel/postinst.d/dkms" <<'SCRIPT'
#!/bin/sh
# The failure of a build does not fail the installation of a kernel, as with the real one.
dkms autoinstall -k "$1" || true
SCRIPT
cat >"$work/dkms/usr/sbin/dkms" <<'SCRIPT'
#!/bin/sh
# dkms add|install|autoinstall|remove|status, as far as packages of drivers use them.
set -eu
tree=/var/lib/dkms
action=${1:---version}
module='' version='' kernel=''
[ $# = 0 ] || shift
while [ $# -gt 0 ]; do
    case $1 in
        -m) module=$2 && shift ;;
        -v) version=$2 && shift ;;
        -k) kernel=$2 && shift ;;
        *) ;;
    esac
    shift
done
with_headers() { for one in /lib/modules/*/build; do [ ! -e "$one" ] || basename "${one%/build}"; done; }
build() { # MODULE VERSION KERNEL
    place=$tree/$1/$2
    [ -e "/lib/modules/$3/build" ] || {
        echo "Error! Your kernel headers for kernel $3 cannot be found." >&2
        exit 21
    }
    mkdir -p "$place/build"
    if [ -e "/etc/fake-dkms-fails-for/$3" ]; then
        {
            echo "DKMS make.log for $1-$2 for kernel $3 (x86_64)"
            echo "nvidia-drm-drv.c:201:6: error: 'struct drm_mode_config' has no member named 'x'"
            echo "make[1]: *** [scripts/Makefile.build:250: nvidia-drm-drv.o] Error 1"
        } >"$place/build/make.log"
        echo "Error! Bad return status for module build on kernel: $3 (x86_64)" >&2
        echo "Consult $place/build/make.log for more information." >&2
        exit 10
    fi
    mkdir -p "$place/$3/x86_64/module" "/lib/modules/$3/updates/dkms"
    echo built >>/var/log/fake-dkms
    cp "/usr/src/$1-$2/$1.ko" "$place/$3/x86_64/module/$1.ko"
    cp "/usr/src/$1-$2/$1.ko" "/lib/modules/$3/updates/dkms/$1.ko"
    depmod "$3"
}
case $action in
    --version) echo dkms-3.0.10 ;;
    add) mkdir -p "$tree/$module/$version" ;;
    install) build "${module%/*}" "${version:-${module#*/}}" "$kernel" ;;
    autoinstall)
        for place in "$tree"/*/*/; do
            [ -d "$place" ] || continue
            place=${place%/}
            for one in ${kernel:-$(with_headers)}; do
                build "$(basename "$(dirname "$place")")" "$(basename "$place")" "$one"
            done
        done
        ;;
    remove)
        for one in "$tree/$module/$version"/*/x86_64; do
            [ -d "$one" ] || continue
            on=$(basename "$(dirname "$one")")
            [ -z "$kernel" ] || [ "$kernel" = "$on" ] || continue
            rm -f "/lib/modules/$on/updates/dkms/$module.ko"
            rm -rf "${tree:?}/$module/$version/$on"
        done
        [ -n "$kernel" ] || rm -rf "${tree:?}/$module/$version"
        ;;
    status)
        for place in "$tree"/*/*/; do
            [ -d "$place" ] || continue
            version=$(basename "$place") module=$(basename "$(dirname "$place")") any=''
            for one in "$place"*/x86_64/module; do
                [ -d "$one" ] || continue
                any=yes
                echo "$module/$version, $(basename "${one%/x86_64/module}"), x86_64: installed"
            done
            [ -n "$any" ] || echo "$module/$version: added"
        done
        ;;
    *)
        echo "Error! Unknown action specified: $action" >&2
        exit 1
        ;;
esac
SCRIPT
chmod 0755 "$work/dkms/etc/kernel/postinst.d/dkms" "$work/dkms/usr/sbin/dkms"
pack dkms 3.0.10-8

cd "$repository"
: >Packages
for deb in *.deb; do
    dpkg-deb --field "$deb" >>Packages
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" \
        "$(sha256sum "$deb" | cut -d ' ' -f 1)" >>Packages
done
# With an origin, by which unattended-upgrade is told to take what is in here.
{
    printf 'Origin: hfprov-test\nLabel: hfprov-test\nSuite: test\nCodename: test\nSHA256:\n'
    printf ' %s %s Packages\n' "$(sha256sum Packages | cut -d ' ' -f 1)" "$(stat -c %s Packages)"
} >Release
echo "deb [trusted=yes] file:$repository ./" >/etc/apt/sources.list.d/hfprov-test.list
apt-get -q update >/dev/null
