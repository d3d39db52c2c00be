#!/usr/bin/env bash
# Installs everything the testbed needs, idempotently: distribution packages (as root or by sudo)
# and a virtual environment in .venv. Nothing goes into the system's Python.
#
#   scripts/setup.sh              all that run.sh needs
#   scripts/setup.sh --fluid      only what simulation needs: no root, no distribution packages, any system
#   scripts/setup.sh --dev        also what test.sh needs: pytest, ruff, mypy, numba, scikit-learn, ...
#   scripts/setup.sh --profile    also PyTorch and transformers, for `echelon profile`
#   scripts/setup.sh --tune       also scikit-learn and optuna, for `echelon tune`
#   scripts/setup.sh --sweep      also pyarrow and dask.distributed, for the Parquet tables of `echelon sweep` and its --cluster
#   scripts/setup.sh --live       also PyTorch's CPU build, for `echelon live`, where one is at hand
#   scripts/setup.sh --no-system  skip distribution packages (where you install them by your own means)
#
# Python packages are the releases in scripts/lock/, and files of other contents are refused (scripts/lock.sh).
# PYTHON=/path/to/python3 chooses the interpreter (3.10 or later).
set -euo pipefail
cd "$(dirname "$0")/.."

# Words in strings, and no mapfile: macOS has bash 3.2, where empty arrays are unset and there is no mapfile.
emulation="emulation os-ken" more="" with_system=yes with_live=no
for argument in "$@"; do
    case "$argument" in
        --fluid) emulation="" with_system=no ;;
        --dev) more="$more dev fast tune sweep" ;;
        --profile) more="$more profile" ;;
        --tune) more="$more tune" ;;
        --sweep) more="$more sweep" ;;
        --live) with_live=yes ;;
        --no-system) with_system=no ;;
        -h | --help) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "setup.sh: unknown option '$argument'; see --help" >&2; exit 2 ;;
    esac
done
extras="$emulation $more"

# What reports are tested in; where the distribution has none, those tests are skipped.
BROWSER_PACKAGES=(chromium fonts-dejavu-core poppler-utils)
SYSTEM_PACKAGES=(ca-certificates ethtool git iperf3 iproute2 mininet openvswitch-switch python3 python3-venv tcpdump util-linux)
say() { printf 'setup: %s\n' "$*"; }

install_system_packages() {
    command -v apt-get >/dev/null || {
        say "no apt-get here; install by your own means: ${SYSTEM_PACKAGES[*]} (and pass --no-system)" >&2
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

# A browser for tests of reports. None is no failure: its tests say that they are skipped.
install_browser() {
    local program as_root=()
    for program in chromium chromium-browser google-chrome; do
        if command -v "$program" >/dev/null; then return; fi
    done
    command -v apt-get >/dev/null || return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { say "no root (or sudo) to install a browser; its tests are skipped"; return; }
        as_root=(sudo)
    fi
    say "installing ${BROWSER_PACKAGES[*]}"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${BROWSER_PACKAGES[@]}" >/dev/null || say "there is no browser here; its tests are skipped"
}

# True where every one of the wanted extras was installed from these very requirements.
all_installed() {
    local extra
    [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$fingerprint" ] || return
    for extra in $extras; do
        grep -qx "$extra" "$stamp" || return
    done
}

# Prints the first interpreter that is new enough and can make virtual environments.
find_python() {
    local candidate
    for candidate in ${PYTHON:-/usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.10}; do
        if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    say "no Python 3.10 or later with venv found; install one, and name it: PYTHON=/path/to/python3 $0" >&2
    return 1
}

# Makes .venv, with a pip that knows --build-constraint (25.3 is the first) and uv. The pip that Python brings along does
# so from its wheel: installing that one first, only to replace it, takes twice as long.
make_environment() {
    local python wheel
    python=$(find_python)
    say "creating .venv with $("$python" --version)"
    "$python" -m venv --without-pip .venv
    wheel=$(bundled_pip)
    [ -n "$wheel" ] || .venv/bin/python -m ensurepip >/dev/null
    env PYTHONPATH="$wheel" .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --require-hashes -r scripts/lock/tools.txt
}

# Prints where the wheel of pip is that ensurepip would install; nothing if that cannot be told.
bundled_pip() {
    .venv/bin/python - <<'PYTHON'
import ensurepip, pathlib, sysconfig
bundled = pathlib.Path(ensurepip.__file__).with_name("_bundled")
for folder in (sysconfig.get_config_var("WHEEL_PKG_DIR") or bundled, bundled, "/usr/share/python-wheels"):
    for wheel in pathlib.Path(folder).glob("pip-*.whl"):
        raise SystemExit(print(wheel))
PYTHON
}

# with_uv ARGUMENT...: installs as pip would, from where pip is told to, in a third of the time; compiles as pip does.
with_uv() {
    [ -x .venv/bin/uv ] || .venv/bin/pip install --quiet --require-hashes -r scripts/lock/tools.txt || return
    local settings
    settings=$(.venv/bin/pip config list)
    UV_DEFAULT_INDEX=$(pip_setting index-url) UV_INDEX=$(pip_setting extra-index-url) \
        UV_FIND_LINKS=$(pip_setting find-links) UV_INDEX_STRATEGY=unsafe-best-match UV_NATIVE_TLS=1 \
        UV_COMPILE_BYTECODE=1 \
        .venv/bin/uv pip install --python .venv/bin/python "$@"
}

# pip_setting KEY: what pip's configuration and environment say of it; the environment comes last, and wins.
pip_setting() {
    printf '%s\n' "$settings" | sed -n "s/^[a-z:]*\.$1='\(.*\)'\$/\1/p" | tail -n 1
}

install_python_packages() {
    local stamp=.venv/.installed fingerprint extra
    fingerprint=$(cat setup.py scripts/lock/*.txt | cksum)
    if all_installed; then return; fi
    # What was installed before stays, and is brought up to date with the rest.
    [ ! -f "$stamp" ] || extras="$extras $(sed 1d "$stamp" | tr '\n' ' ')"
    # shellcheck disable=SC2086 # words, on purpose
    extras=$(printf '%s\n' $extras | sort -u)
    [ -x .venv/bin/pip ] || make_environment
    say "installing Python packages ($(printf '%s' "${extras:-for simulation}" | tr '\n' ' '))"
    set -- --require-hashes -r scripts/lock/base.txt
    for extra in $extras; do set -- "$@" -r "scripts/lock/$extra.txt"; done
    install_from_lock "$@"
    # The project itself, of which nothing is packed; all that it needs is there.
    install_from_lock --no-deps -e .
    printf '%s\n' "$fingerprint" "$extras" >"$stamp"
}

# install_from_lock ARGUMENT...: by uv, or where that cannot by pip. What has no wheel is built with what
# scripts/lock/build.txt names: ryu 4.34 does not build with newer releases.
install_from_lock() {
    set -- --quiet --build-constraint scripts/lock/build.txt "$@"
    if ! with_uv "$@"; then
        say "uv could not; installing with pip"
        .venv/bin/pip install "$@"
    fi
}

# PyTorch for training programs. What a plain torch is depends on where pip is told to look: often a build for GPUs, of several GB, of
# which emulated hosts have no use. So it is not locked by hashes, and only a build for CPUs is installed unasked.
install_live() {
    local release=2.13.0 found
    if .venv/bin/python -c 'import sys, torch; sys.exit(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6))' 2>/dev/null; then
        return
    fi
    found=$(.venv/bin/pip install --quiet --dry-run --ignore-installed --no-deps --report - "torch==$release" 2>/dev/null |
        .venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)["install"][0]["metadata"]["version"])' 2>/dev/null || true)
    case "$found" in
        *+cpu) say "installing PyTorch $found"; .venv/bin/pip install --quiet "torch==$release" ;;
        *)
            say "pip finds no CPU build of PyTorch $release here (it finds: ${found:-none}); install torch 2.6 or later yourself," \
                "by: .venv/bin/pip install torch" >&2
            exit 1
            ;;
    esac
}

# Whoever may not write beside the sources, or is told not to (PYTHONDONTWRITEBYTECODE), would otherwise translate
# them again at every start, which doubles it. Where even this may not be written, that is how it stays.
compile_the_tree() {
    .venv/bin/python -m compileall -q -x results/runs \
        echelonflow simulator controller traffic testbed results echelon >/dev/null 2>&1 || true
}

if [ "$with_system" = yes ]; then
    install_system_packages
    case "$more" in *dev*) install_browser ;; esac
fi
install_python_packages
[ "$with_live" = no ] || install_live
compile_the_tree
say "ready: $(.venv/bin/python --version), .venv/bin/echelon"
