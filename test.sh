#!/usr/bin/env bash
# Installs what is missing, then runs every check and test that this machine can run, and says what it
# skipped and why. Arguments go to pytest:  ./test.sh -k pipeline
#
# ECHELON_REQUIRE_EMULATION=1 makes a skipped emulation test a failure (CI sets it where the machine can emulate).
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup.sh --dev

echo "== style, types, import contracts"
# Loops that simulate are compiled meanwhile, over a minute in a new clone: else each process of tests would do it.
if [ $# -eq 0 ]; then
    .venv/bin/python -c 'from simulator import fluid, trace; fluid.warm_up(); trace.warm_up()' &
    compiling=$!
    trap 'kill "$compiling" 2>/dev/null || true' EXIT
fi
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/lint-imports --no-cache

as_root=()
if [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo "--preserve-env=CI,ECHELON_REQUIRE_EMULATION")
fi
echo "== tests"
pytest() { "${as_root[@]}" .venv/bin/python -m pytest "$@"; }
if [ $# -gt 0 ]; then
    pytest "$@"
    exit
fi
wait "$compiling"
trap - EXIT
# Emulation needs the machine for itself; all else is tested by as many processes as there are cores. They take files in
# order, with the longest among the first. By their numbers of tests it would be among the last, beside idle processes. Pages
# come last: what opens them leaves an event loop behind.
status=0
pytest tests/unit tests/contract tests/browser -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder || status=$?
if .venv/bin/python -c 'import torch' >/dev/null 2>&1; then
    pytest tests/live || status=$?
else
    echo "skipped: tests/live, as there is no PyTorch here; scripts/setup.sh --live installs it"
fi
pytest tests/emulation || status=$?
exit "$status"
