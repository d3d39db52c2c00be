#!/usr/bin/env bash
# Says which of the locked Python packages (scripts/lock/) have known vulnerabilities. Needs a network: it asks the
# registry's advisories about every package that is locked, and nothing is installed but the tool itself.
#
#   scripts/audit.sh
#   scripts/audit.sh --ignore-vuln ID    arguments go to pip-audit: this one was looked at, and does not matter here
#
# A developer runs it now and then, and before a release; CI does not, because what it says changes with the day.
# Exit codes: 0 nothing is known, 1 something is (scripts/lock.sh --upgrade-package NAME), 2 it could not be found out.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
[ -x .venv/bin/pip-audit ] || { echo "audit.sh: there is no .venv/bin/pip-audit; run scripts/setup.sh --dev" >&2; exit 2; }

said=$(mktemp)
trap 'rm -f "$said"' EXIT
found=no
for file in scripts/lock/*.txt; do
    code=0
    .venv/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off -r "$file" "$@" >"$said" 2>&1 || code=$?
    if [ "$code" -ne 0 ] && ! grep -q '^Found [0-9]' "$said"; then
        echo "audit.sh: $file was not audited: $(tail -n 1 "$said")" >&2
        echo "audit.sh: without a network, or where the registry's advisories cannot be asked, nothing can be said" >&2
        exit 2
    fi
    if [ "$code" -ne 0 ]; then found=yes; fi
    printf '%s: ' "$file"
    cat "$said"
done
[ "$found" = no ]
