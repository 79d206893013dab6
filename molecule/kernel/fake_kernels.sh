#!/bin/sh
# Packages of kernels without a kernel, a few hundred bytes each, and a boot menu without a boot
# loader: what a practice node, which is a container, needs to try the role 'kernel' out. They have
# the names, versions and dependencies of Debian's, and the menu has the form that Debian's GRUB
# 2.06 writes. Run on the node as root; run again, it does nothing.
set -eu
repository=/srv/hfprov-kernels
[ ! -e $repository/Packages ] || exit 0
arch=$(dpkg --print-architecture)
work=$(mktemp -d)
mkdir -p $repository

# package NAME VERSION DEPENDS: builds what is in $work/root
package() {
    mkdir -p "$work/root/DEBIAN"
    {
        echo "Package: $1"
        echo "Version: $2"
        echo "Architecture: $arch"
        echo "Maintainer: hfprov tests <root@localhost>"
        [ -z "$3" ] || echo "Depends: $3"
        echo "Description: stands for the real package in tests"
    } >"$work/root/DEBIAN/control"
    dpkg-deb --root-owner-group -Zgzip --build "$work/root" "$repository/$1_$2_$arch.deb" >/dev/null
    rm -rf "$work/root"
    mkdir "$work/root"
}

# kernel RELEASE VERSION: image, headers, and the packages that need the newest of each
kernel() {
    mkdir -p "$work/root/boot" "$work/root/usr/lib/modules/$1/kernel" "$work/root/DEBIAN"
    echo "no kernel $1" >"$work/root/boot/vmlinuz-$1"
    echo "kernel/net/none.ko:" >"$work/root/usr/lib/modules/$1/modules.dep"
    cat >"$work/root/DEBIAN/postinst" <<END
#!/bin/sh
set -e
[ "\$1" = configure ] || exit 0
[ -e /boot/initrd.img-$1 ] || update-initramfs -c -k $1
update-grub
END
    cat >"$work/root/DEBIAN/postrm" <<END
#!/bin/sh
set -e
[ "\$1" = remove ] || exit 0
rm -f /boot/initrd.img-$1
update-grub
END
    chmod 0755 "$work/root/DEBIAN/postinst" "$work/root/DEBIAN/postrm"
    package "linux-image-$1" "$2" hfprov-test-boot
    mkdir -p "$work/root/usr/src/linux-headers-$1"
    echo "# $1" >"$work/root/usr/src/linux-headers-$1/Makefile"
    package "linux-headers-$1" "$2" ""
    package "linux-image-$arch" "$2" "linux-image-$1 (= $2)"
    package "linux-headers-$arch" "$2" "linux-headers-$1 (= $2)"
}

mkdir -p "$work/root/usr/sbin" "$work/root/etc/default/grub.d" "$work/root/boot/grub"
cat >"$work/root/etc/default/grub" <<'END'
GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="console=ttyS0,115200"
END
cat >"$work/root/usr/sbin/update-initramfs" <<'END'
#!/bin/sh
# update-initramfs -c|-u -k RELEASE
set -e
[ "$2" = -k ]
[ "$1" = -c ] || [ -e "/boot/initrd.img-$3" ]
[ -e "/boot/vmlinuz-$3" ]
head -c 4096 /dev/zero >"/boot/initrd.img-$3"
END
cat >"$work/root/usr/sbin/update-grub" <<'END'
#!/bin/sh
# Writes the menu as grub-mkconfig does.
set -e
. /etc/default/grub
for file in /etc/default/grub.d/*.cfg; do [ ! -e "$file" ] || . "$file"; done
uuid=11111111-2222-3333-4444-555555555555
entry() { # indent title class id release arguments
    printf "%smenuentry '%s' --class debian --class gnu-linux %s '%s' {\n" "$1" "$2" '$menuentry_id_option' "$3"
    printf "%s\tinsmod gzio\n%s\tif [ x\$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi\n" "$1" "$1"
    printf "%s\techo\t'Loading Linux %s ...'\n" "$1" "$4"
    printf "%s\tlinux\t/boot/vmlinuz-%s root=UUID=%s ro %s\n" "$1" "$4" "$uuid" "$5"
    [ ! -e "/boot/initrd.img-$4" ] || printf "%s\tinitrd\t/boot/initrd.img-%s\n" "$1" "$4"
    printf "%s}\n" "$1"
}
both="$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"
releases=$(cd /boot && ls vmlinuz-* 2>/dev/null | sed s/vmlinuz-// | sort -rV)
{
    cat <<HEAD
### BEGIN /etc/grub.d/00_header ###
if [ -s \$prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "\${next_entry}" ] ; then
   set default="\${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="$GRUB_DEFAULT"
fi
function savedefault {
  if [ -z "\${boot_once}" ]; then
    saved_entry="\${chosen}"
    save_env saved_entry
  fi
}
### END /etc/grub.d/00_header ###
### BEGIN /etc/grub.d/10_linux ###
HEAD
    set -- $releases
    [ $# -eq 0 ] || entry "" "Debian GNU/Linux" "gnulinux-simple-$uuid" "$1" "$both"
    printf "submenu 'Advanced options for Debian GNU/Linux' %s 'gnulinux-advanced-%s' {\n" '$menuentry_id_option' $uuid
    for release in $releases; do
        entry "	" "Debian GNU/Linux, with Linux $release" "gnulinux-$release-advanced-$uuid" "$release" "$both"
        entry "	" "Debian GNU/Linux, with Linux $release (recovery mode)" "gnulinux-$release-recovery-$uuid" "$release" "single $GRUB_CMDLINE_LINUX"
    done
    echo "}"
    echo "### END /etc/grub.d/10_linux ###"
} >/boot/grub/grub.cfg.new
chmod 0444 /boot/grub/grub.cfg.new
mv /boot/grub/grub.cfg.new /boot/grub/grub.cfg
END
cat >"$work/root/usr/sbin/dkms" <<'END'
#!/bin/sh
# dkms status | dkms autoinstall -k RELEASE; modules are /var/lib/hfprov-dkms/NAME, with a version
set -e
for module in /var/lib/hfprov-dkms/*; do
    [ -e "$module" ] || continue
    name=${module##*/} version=$(cat "$module")
    if [ "$1" = autoinstall ]; then
        mkdir -p "/lib/modules/$3/updates/dkms"
        echo module >"/lib/modules/$3/updates/dkms/$name.ko"
        echo "updates/dkms/$name.ko:" >>"/lib/modules/$3/modules.dep"
        continue
    fi
    built=
    for file in /lib/modules/*/updates/dkms/"$name".ko; do
        [ -e "$file" ] || continue
        release=${file#/lib/modules/}
        built=yes
        echo "$name/$version, ${release%%/*}, x86_64: installed"
    done
    [ -n "$built" ] || echo "$name/$version: added"
done
END
chmod 0755 "$work"/root/usr/sbin/*
package hfprov-test-boot 1 ""

kernel 6.1.0-38-amd64 6.1.147-1
kernel 6.1.0-40-amd64 6.1.153-1
kernel 6.1.0-42-amd64 6.1.159-1
kernel 6.12.57+deb12-amd64 '6.12.57-1~bpo12+1'

cd $repository
for deb in ./*.deb; do
    dpkg-deb --field "$deb"
    echo "Filename: $deb"
    echo "Size: $(stat -c %s "$deb")"
    echo "SHA256: $(sha256sum "$deb" | cut -d ' ' -f 1)"
    echo
done >Packages.new
mv Packages.new Packages
echo "deb [trusted=yes] file:$repository ./" >/etc/apt/sources.list.d/hfprov-kernels.list
apt-get -q update
# What a node has from its installation: the boot loader, and a kernel of some time ago.
apt-get -q -y install hfprov-test-boot "linux-image-$arch=6.1.147-1" "linux-image-6.1.0-38-$arch"
rm -rf "$work"
