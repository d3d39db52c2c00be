#!/usr/bin/env bash
# Installs everything the testbed needs, idempotently: distribution packages (as root or by sudo)
# and a virtual environment in .venv. Nothing goes into the system's Python.
#
#   scripts/setup.sh              all that run.sh needs
#   scripts/setup.sh --dev        also what test.sh needs: pytest, ruff, mypy, ...
#   scripts/setup.sh --profile    also PyTorch and transformers, for `echelon profile`
#   scripts/setup.sh --no-system  skip distribution packages (simulation only, no root needed)
set -euo pipefail
cd "$(dirname "$0")/.."

extras=(emulation os-ken) with_system=yes
for argument in "$@"; do
    case "$argument" in
        --dev) extras+=(dev) ;;
        --profile) extras+=(profile) ;;
        --no-system) with_system=no ;;
        -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "setup.sh: unknown option '$argument'; see --help" >&2; exit 2 ;;
    esac
done

PYTHON=${PYTHON:-/usr/bin/python3}
SYSTEM_PACKAGES=(ca-certificates ethtool git iproute2 mininet openvswitch-switch python3 python3-venv tcpdump util-linux)

say() { printf 'setup: %s\n' "$*"; }

install_system_packages() {
    command -v apt-get >/dev/null || {
        say "no apt-get here; install by your own means: ${SYSTEM_PACKAGES[*]} (or pass --no-system)" >&2
        exit 1
    }
    local missing=() package
    for package in "${SYSTEM_PACKAGES[@]}"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { say "need root (or sudo) to install: ${missing[*]}" >&2; exit 1; }
        as_root=(sudo)
    fi
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get update -qq
    # The testbed starts its own private Open vSwitch; the distribution's service is not needed, so
    # no recommended packages, and services are left as the distribution sets them.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >/dev/null
}

# True where every one of the wanted extras was installed from these very requirements.
all_installed() {
    local extra
    [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$fingerprint" ] || return
    for extra in "${extras[@]}"; do
        grep -qx "$extra" "$stamp" || return
    done
}

install_python_packages() {
    local stamp=.venv/.installed fingerprint wanted
    fingerprint=$(cat setup.py scripts/build-constraints.txt | sha256sum | cut -d' ' -f1)
    if all_installed; then return; fi
    # What was installed before stays, and is brought up to date with the rest.
    [ ! -f "$stamp" ] || mapfile -t extras < <({ printf '%s\n' "${extras[@]}"; sed 1d "$stamp"; } | sort -u)
    wanted=$(IFS=,; echo "${extras[*]}")
    if [ ! -x .venv/bin/python ]; then
        say "creating .venv with $("$PYTHON" --version)"
        "$PYTHON" -m venv .venv
    fi
    say "installing Python packages ($wanted)"
    # --build-constraint (pip >= 25.3) is what keeps ryu 4.34 buildable.
    .venv/bin/pip install --quiet --upgrade 'pip>=25.3'
    .venv/bin/pip install --quiet --build-constraint scripts/build-constraints.txt -e ".[$wanted]"
    printf '%s\n' "$fingerprint" "${extras[@]}" >"$stamp"
}

[ "$with_system" = yes ] && install_system_packages
install_python_packages
say "ready: $(.venv/bin/python --version), .venv/bin/echelon"
