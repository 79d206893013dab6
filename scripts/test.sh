#!/bin/sh
# Everything that can be tested on this machine, tier by tier. What is left out is said, with the
# reason, and counted as skipped. Ends with the sum of all tiers; exit code 0 only when none failed.
#
#   sh scripts/test.sh          every tier
#   sh scripts/test.sh check    linters and types only
#   sh scripts/test.sh unit     without practice nodes
#   sh scripts/test.sh lab      practice nodes only
#   sh scripts/test.sh long     practice nodes, what takes minutes each
#   sh scripts/test.sh vm       virtual machines only; with HFPROV_TEST_VM=1 they are a tier as well
set -u
cd "$(dirname "$0")/.." || exit 2

only=${1:-all}
bin=$PWD/.venv/bin
results=.cache/test-results
passed=0 failed=0 skipped=0
summary=''

note() {
    summary="$summary
$(printf '%-22s %s' "$1" "$2")"
}

title() { printf '\n======== %s ========\n' "$1"; }

# A linter or a Molecule scenario counts as one test.
check() {
    name=$1
    shift
    title "$name"
    if "$@"; then
        passed=$((passed + 1))
        note "$name" "passed"
    else
        failed=$((failed + 1))
        note "$name" "FAILED: $*"
    fi
}

leave_out() {
    title "$1"
    printf 'LEFT OUT: %s\n' "$2"
    skipped=$((skipped + 1))
    note "$1" "LEFT OUT: $2"
}

# One pytest run; its own counts come from the JUnit file. A run without a result is a failure, and
# so is one without tests.
tier() {
    name=$1
    shift
    title "$name"
    report=$results/$name.xml
    rm -f "$report"
    code=0
    "$@" "--junit-xml=$report" || code=$?
    counts=$("$bin/python" scripts/junit_counts.py "$report" "$code") || counts='0 1 0'
    # shellcheck disable=SC2086 # three numbers
    set -- $counts
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    note "$name" "$1 passed, $2 failed, $3 skipped"
}

wants() { [ "$only" = all ] || [ "$only" = "$1" ]; }

has_tests() { [ -n "$(find "$1" -name 'test_*.py' 2>/dev/null | head -n 1)" ]; }

[ "$only" != vm ] || HFPROV_TEST_VM=1
HFPROV_TEST_VM=${HFPROV_TEST_VM:-0}
SETUP_LAB=$(case $only-$HFPROV_TEST_VM in
    check-* | unit-*) echo 0 ;;
    all-1 | vm-*) echo "${SETUP_LAB:-2}" ;;
    *) echo "${SETUP_LAB:-1}" ;;
esac)
export SETUP_LAB
sh scripts/setup.sh || exit $?
PATH=$bin:$PATH
export PATH
mkdir -p "$results"
started=$(date +%s)

if wants check; then
    check ruff ruff check .
    check format ruff format --check .
    check mypy mypy
    check docs python scripts/docs.py --check
    if [ -n "$(find roles playbooks -name '*.yml' 2>/dev/null | head -n 1)" ]; then
        check ansible-lint ansible-lint --offline
    else
        leave_out ansible-lint "there are no roles and no playbooks"
    fi
fi

if wants unit; then
    for folder in unit contracts data; do
        if has_tests "tests/$folder"; then
            tier "$folder" pytest -q -n auto --dist loadfile -m "not lab and not vm" "tests/$folder"
        else
            leave_out "$folder" "there are no tests in tests/$folder"
        fi
    done
fi

if [ "$(id -u)" = 0 ]; then
    as_root=
else
    as_root="sudo -n --preserve-env=PATH,HFPROV_LAB_DIR,HFPROV_LAB_ACCEL"
fi

if wants lab; then
    # shellcheck disable=SC2086 # words of a command
    if reason=$($as_root "$bin/python" -m hfprov.lab check 2>&1); then
        tier lab $as_root "$bin/pytest" -q -m "lab and not long" tests/lab tests/contracts tests/unit
        for scenario in molecule/*/converge.yml; do
            [ -e "$scenario" ] || { leave_out molecule "there are no scenarios"; continue; }
            name=$(basename "$(dirname "$scenario")")
            check "molecule-$name" $as_root "$bin/molecule" test --scenario-name "$name"
        done
    else
        leave_out lab "$(echo "$reason" | head -n 2 | tr '\n' ' ')"
        leave_out molecule "needs practice nodes, as above"
    fi
fi

if wants long; then
    # shellcheck disable=SC2086 # words of a command
    if [ "$only" = all ] && [ "${HFPROV_TEST_LONG:-0}" != 1 ]; then
        leave_out long "takes half an hour: 'make test-long', or HFPROV_TEST_LONG=1"
    elif reason=$($as_root "$bin/python" -m hfprov.lab check 2>&1); then
        tier long $as_root "$bin/pytest" -q -m "lab and long" tests/lab
    else
        leave_out long "$(echo "$reason" | head -n 2 | tr '\n' ' ')"
    fi
fi

if wants vm; then
    # shellcheck disable=SC2086 # words of a command
    if [ "$HFPROV_TEST_VM" != 1 ]; then
        leave_out vm "takes minutes, and many of them without KVM: HFPROV_TEST_VM=1"
    elif reason=$($as_root "$bin/python" -m hfprov.lab check --engine vm 2>&1); then
        # Virtual machines take all processors there are: one test at a time, nothing beside them.
        tier vm $as_root "$bin/pytest" -v -n 0 -m vm --durations=15 tests/vm
    else
        leave_out vm "$(echo "$reason" | head -n 2 | tr '\n' ' ')"
    fi
fi

printf '\n======== summary (%s s) ========%s\n' "$(($(date +%s) - started))" "$summary"
printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
