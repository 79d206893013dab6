#!/bin/sh
# Take our table, unit and rules away: $1 is the unit, $2 its file, $3 the rules. Removing rules can
# lock nobody out, so that no guard is needed. Parts that are not there are no error.
set -eu
if [ -e "$2" ]; then
    systemctl disable --quiet --now "$1"
fi
rm -f "$2" "$3" "/etc/systemd/system/sysinit.target.wants/$1"
systemctl daemon-reload
if nft list table inet hfprov_management >/dev/null 2>&1; then
    nft delete table inet hfprov_management
fi
