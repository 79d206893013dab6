#!/bin/sh
# Have the node take back what comes now, unless it is confirmed: $1 is after how many seconds, $2
# the file of sshd, $3 its service. What is kept lies in /run, so that a reboot ends all of it; what
# is made to outlive a reboot is written only after it was confirmed.
set -eu
directory=/run/hfprov-guard
rm -rf "$directory"
mkdir -m 0700 "$directory"
[ ! -e "$2" ] || cp -p "$2" "$directory/sshd.conf"
{
    # Replaces the table by the one that was there before, or by none.
    echo 'table inet hfprov_management'
    echo 'delete table inet hfprov_management'
    nft --stateless list table inet hfprov_management 2>/dev/null || true
} > "$directory/table.nft"
cat > "$directory/back.sh" <<END
if [ -e $directory/sshd.conf ]; then cp -p $directory/sshd.conf $2; else rm -f $2; fi
systemctl reload $3
command -v nft >/dev/null && nft -f $directory/table.nft
END
systemctl reset-failed hfprov-guard.service 2>/dev/null || true
systemd-run --quiet --unit=hfprov-guard --on-active="$1" --timer-property=AccuracySec=1s \
    --description='Take back an unconfirmed change of hfprov' /bin/sh "$directory/back.sh"
