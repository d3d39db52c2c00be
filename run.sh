#!/usr/bin/env bash
# Installs what is missing, runs the headline experiments, prints their tables, writes their reports.
# Arguments go to `echelon run` in place of the headline experiments:  ./run.sh experiments/pipeline.yaml --repeat 3
#
# Where emulation cannot run (no root, no namespaces, a container, macOS) it says why in one line and simulates the
# same experiments instead: no packets are sent then, and every result is marked as simulated.
set -euo pipefail
cd "$(dirname "$0")"
case "${1:-}" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
# The headline experiments wait a little for a quiet spell of the machine, so that all is done within six minutes still.
patience=""
[ $# -gt 0 ] || { patience="--patience=20s"; set -- experiments/pipeline.yaml experiments/gpt2-pipeline.yaml; }

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

# Prints why this machine cannot emulate, as far as that can be told before anything is installed; nothing if it may.
why_not() {
    if [ "$(uname -s)" != Linux ]; then
        echo "emulation needs Linux, and this is $(uname -s)"
    elif [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        echo "emulation needs root, and there is no sudo here"
    elif [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null && ! { [ -t 0 ] && sudo -v; }; then
        echo "emulation needs root, and sudo does not give it"
    elif command -v unshare >/dev/null &&
        ! as_root unshare --net --pid --mount --fork --kill-child --mount-proc true >/dev/null 2>&1; then
        echo "emulation needs network, process and mount namespaces, which are not allowed here (a container must be privileged)"
    fi
}

# Prints what `echelon doctor` finds lacking first; nothing if this machine can emulate.
lacking() {
    local found
    found=$(as_root .venv/bin/echelon doctor --checks-only 2>&1) && return
    found=$(printf '%s\n' "$found" | sed -n 's/^LACK *//p' | sed -n '1s/  */ /gp')
    echo "emulation lacks ${found:-something; see: echelon doctor}"
}

simulate() {
    echo "run.sh: simulating instead of emulating: $1" >&2
    shift
    scripts/setup.sh --fluid
    exec .venv/bin/echelon run --backend fluid "$@"
}

for argument in "$@"; do
    case "$argument" in
        --backend | --backend=*) wanted=yes ;;
    esac
done
if [ -z "${wanted:-}" ]; then
    why=$(why_not)
    [ -z "$why" ] || simulate "$why" "$@"
    scripts/setup.sh || simulate "what emulation needs could not be installed (see above)" "$@"
    why=$(lacking)
    [ -z "$why" ] || simulate "$why" "$@"
else
    case " $* " in
        *" --backend fluid "* | *" --backend=fluid "*) scripts/setup.sh --fluid && exec .venv/bin/echelon run "$@" ;;
    esac
    scripts/setup.sh
fi
# shellcheck disable=SC2086  # no word where it is empty
if [ "$(id -u)" -eq 0 ]; then exec .venv/bin/echelon run $patience "$@"; fi
# shellcheck disable=SC2086
exec sudo .venv/bin/echelon run $patience "$@"
