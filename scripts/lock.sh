#!/usr/bin/env bash
# Writes scripts/lock/: which releases of all Python packages scripts/setup.sh installs, with the hashes of their files.
# Releases stay what they are as far as setup.py lets them. Run it after every change of setup.py. Needs a network.
#
#   scripts/lock.sh                           what setup.py newly asks for
#   scripts/lock.sh --upgrade                 every package to its latest release
#   scripts/lock.sh --upgrade-package NAME    one package, such as one that scripts/audit.sh warns of
#
# base.txt is what simulation needs, and there is a file for what each extra of setup.py needs besides. They agree where
# they name the same package. Each holds for every system and every Python from 3.10 on. tools.txt has pip and uv themselves, build.txt
# what packages without a wheel are built with.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    "" | --upgrade-package | --upgrade) ;;
    *) echo "lock.sh: unknown option '$1'; see --help" >&2; exit 2 ;;
esac
[ -x .venv/bin/uv ] || { echo "lock.sh: there is no .venv/bin/uv; run scripts/setup.sh first" >&2; exit 2; }

# locked OUTPUT ARGUMENT...: lock what the arguments name. Settings of this machine stay out: releases and hashes are
# those that everybody sees.
locked() {
    local output=$1
    shift
    env -u UV_DEFAULT_INDEX -u UV_INDEX -u UV_FIND_LINKS -u UV_CONSTRAINT UV_NATIVE_TLS=1 \
        .venv/bin/uv pip compile --quiet --no-config --universal --python-version 3.10 --generate-hashes \
        --no-emit-index-url --no-header --no-annotate --build-constraint scripts/build-constraints.txt \
        --output-file "$output" "$@" >/dev/null
}

# Prints the names of setup.py's extras.
extras() {
    .venv/bin/python - <<'PYTHON'
import ast, pathlib
for statement in ast.parse(pathlib.Path("setup.py").read_text()).body:
    if isinstance(statement, ast.Assign) and statement.targets[0].id == "EXTRAS":
        print(*(key.value for key in statement.value.keys))
PYTHON
}

# without_base FILE EXTRA: what is locked in FILE, less what base.txt has already.
without_base() {
    .venv/bin/python - "$@" <<'PYTHON'
import pathlib, re, sys

def entries(path):
    return re.findall(r"^\S[^\n]*\n(?:[ \t][^\n]*\n)*", pathlib.Path(path).read_text(), re.MULTILINE)

known = set() if sys.argv[2] == "base" else set(entries("scripts/lock/base.txt"))
sys.stdout.write("".join(entry for entry in entries(sys.argv[1]) if entry not in known))
PYTHON
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p scripts/lock
# All together first, so that the files agree: beginning with what is locked now.
for extra in base $(extras); do
    [ ! -f "scripts/lock/$extra.txt" ] || sed -n 's/^\([^ ].*\) \\$/\1/p' "scripts/lock/$extra.txt"
done | sort -u >"$work/all.txt"
locked "$work/all.txt" setup.py --all-extras "$@"
sed -n 's/^\([^ ].*\) \\$/\1/p' "$work/all.txt" >"$work/agreed.txt"
for extra in base $(extras); do
    rm -f "$work/one.txt"
    if [ "$extra" = base ]; then set --; else set -- --extra "$extra"; fi
    locked "$work/one.txt" setup.py "$@" --constraint "$work/agreed.txt"
    without_base "$work/one.txt" "$extra" >"scripts/lock/$extra.txt"
done
for name in tools build; do
    rm -f "$work/one.txt"
    locked "$work/one.txt" "scripts/$name-constraints.txt"
    cp "$work/one.txt" "scripts/lock/$name.txt"
done
echo "written: scripts/lock/"
