#!/bin/sh
# Build STREAM for this very processor: $1 is the number of elements of each array. Writes the
# program in one move, and then the stamp that says of what it was made.
set -eu
source=/usr/local/src/hfprov/stream.c
program=/usr/local/bin/stream
model=
# Arrays beyond 2 GiB need another code model; only x86-64 has this one.
[ "$(uname -m)" = x86_64 ] && model="-mcmodel=medium -no-pie"
# shellcheck disable=SC2086 # the model is two words
gcc -O3 -march=native -fopenmp $model -DNTIMES=20 -DSTREAM_ARRAY_SIZE="$1" \
    "$source" -o "$program.new"
chmod 0755 "$program.new"
mv -f "$program.new" "$program"
{
    echo "$1"
    sha256sum "$source" | cut -d' ' -f1
    sha256sum "$program" | cut -d' ' -f1
} > "${source%.c}.stamp"
