#!/bin/sh
# From nothing to a certified practice rack, then a broken node found, repaired and certified again.
#
#   DEMO_DOWN=1    take the rack down at the end
#   DEMO_NODES=3   how many nodes
# shellcheck disable=SC2086 # $as_root is a list of words
set -eu
cd "$(dirname "$0")/.."

hfprov=$PWD/.venv/bin/hfprov
rack=${HFPROV_LAB_DIR:-/var/cache/hfprov/lab}/rack
inventory=$rack/inventory
output=$PWD/demo-output
record=$output/record.db
nodes=${DEMO_NODES:-3}
victim=node02
started=$(date +%s)

# step EXIT_CODE WHAT COMMAND...: say it, run it, and stop unless it ends with just that code.
step() {
    wanted=$1 what=$2
    shift 2
    printf '\n\033[1m== %s\033[0m\n$ %s\n' "$what" "$*"
    code=0
    "$@" || code=$?
    if [ "$code" != "$wanted" ]; then
        printf '\ndemo: FAILED: this step ended with exit code %s, not %s.\n' "$code" "$wanted" >&2
        exit 1
    fi
}

# Only the rack needs root; it hands inventory and keys to the user who asked.
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo > /dev/null; then
    as_root='sudo --preserve-env=HFPROV_LAB_DIR'
else
    echo "demo: a practice rack needs root or sudo." >&2
    exit 2
fi

sh scripts/setup.sh
mkdir -p "$output"
# The record of the last demo would mix with this one's.
rm -f "$record" "$record-wal" "$record-shm"

step 0 "Bring up a rack of $nodes nodes" $as_root "$hfprov" lab up --nodes "$nodes"
step 0 "Bring every node to the declared baseline" \
    "$hfprov" provision -i "$inventory" --db "$record"
step 0 "Certify the rack" "$hfprov" certify -i "$inventory" --db "$record"
step 0 "Write the report" "$hfprov" report --db "$record" -o "$output/report-before.html"

step 0 "Break $victim: somebody set its data NIC back to an MTU of 1500" \
    $as_root "$hfprov" lab break "$victim" mtu-runtime
step 0 "Break $victim once more: somebody lowered its pinned memory limit" \
    $as_root "$hfprov" lab break "$victim" limits-value
step 1 "Look for drift: exit code 1 says that there is some" \
    "$hfprov" drift -i "$inventory" --db "$record"
step 0 "Repair what has drifted, and only that" \
    "$hfprov" drift --repair -i "$inventory" --db "$record"
step 0 "Certify again" "$hfprov" certify -i "$inventory" --db "$record"
step 0 "Write the final report" "$hfprov" report --db "$record" -o "$output/report.html"

printf '\nThe demo took %s s. All of it is in the report: %s\n' \
    "$(($(date +%s) - started))" "$output/report.html"
if [ "${DEMO_DOWN:-0}" = 1 ]; then
    step 0 "Take the rack down" $as_root "$hfprov" lab down
else
    printf 'The rack is still up:   ssh -F %s node01\n' "$rack/ssh/config"
    printf 'Break more of it:       hfprov lab break --list\n'
    printf 'Take it down:           hfprov lab down%s\n' "$([ "$(id -u)" = 0 ] || echo '   (with sudo)')"
fi
