#!/usr/bin/env bash
# Installs what is missing, runs the headline experiments, prints their tables, writes their reports.
# Arguments go to `echelon run` in place of the headline experiments:  ./run.sh experiments/pipeline.yaml --repeat 3
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup.sh

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "run.sh: emulation needs root; run as root or install sudo" >&2; exit 2; }
    as_root=(sudo)
fi
[ $# -gt 0 ] || set -- experiments/pipeline.yaml experiments/gpt2-pipeline.yaml
exec "${as_root[@]}" .venv/bin/echelon run "$@"
