#!/bin/sh
# Keeps one node running: starts systemd-nspawn, plugs the node's interfaces into the rack's bridges,
# and does both again when the node reboots (nspawn then exits with 133 and takes its cables along).
# Usage: run_node.sh NAMESPACE "PORT=BRIDGE=MTU ..." "OWN_CGROUP ..." "NODE_CGROUP ..." NSPAWN...
set -u
namespace=$1 ports=$2 own_groups=$3 node_groups=$4
shift 4

join() {
    for group in $1; do
        echo "$2" > "$group/cgroup.procs" || exit 1
    done
}

plug_in() {
    for port in $ports; do
        name=${port%%=*} rest=${port#*=}
        bridge=${rest%%=*} mtu=${rest#*=}
        tries=0
        until ip -n "$namespace" link set "$name" master "$bridge" mtu "$mtu" up 2>/dev/null; do
            tries=$((tries + 1))
            [ "$tries" -lt 200 ] || { echo "interface $name did not appear"; return 1; }
            sleep 0.05
        done
    done
}

join "$own_groups" $$
while :; do
    sh -c 'for group in $1; do echo $$ > "$group/cgroup.procs" || exit 1; done; shift; exec "$@"' \
        node "$node_groups" nsenter "--net=/run/netns/$namespace" "$@" &
    plug_in
    wait $!
    code=$?
    [ "$code" = 133 ] || exit "$code"
done
