#!/usr/bin/env bash
# Does scripts/setup.sh bring all that is needed? Sets up and runs the unit tests in a minimal system made on the
# spot: no compiler, no venv module, no make, no git, no sudo. As root, on Debian or Ubuntu.
#
#   scripts/clean-root-test.sh                     Debian 12
#   scripts/clean-root-test.sh jammy noble         Ubuntu 22.04 and 24.04, one after the other
#
# The revision that is checked out is tested, not changes that are not committed. Needs about 2 GB in
# ${TMPDIR:-/var/tmp}; only distribution packages (debootstrap) stay. ECHELON_LOCK=FILE: every stage holds this lock.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/fresh-root.sh
. scripts/fresh-root.sh

case "${1:-}" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
[ $# -gt 0 ] || set -- bookworm
[ "$(id -u)" -eq 0 ] || fail "needs root: it makes root file systems and enters them"
timed "packages" install_missing debootstrap git util-linux
work=$(mktemp -d "${TMPDIR:-/var/tmp}/echelon-root.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' INT TERM

# in_root ROOT COMMAND...: run COMMAND in the clone within ROOT, in namespaces that take its mounts and processes
# with them, and with nothing of this machine's environment.
in_root() {
    local root=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --pid --fork --kill-child sh -ec '
        root=$1; shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        exec chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            sh -ec "cd /root/echelon; exec \"\$@\"" sh "$@"
    ' sh "$root" "$@"
}

make_root() {
    local root=$work/$1
    fresh_root "$root" "$1" ""
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    git clone --quiet --no-hardlinks . "$root/root/echelon"
}

for suite in "$@"; do
    timed "$suite: minimal root" make_root "$suite"
    timed "$suite: scripts/setup.sh" in_root "$work/$suite" scripts/setup.sh
    timed "$suite: scripts/setup.sh again" in_root "$work/$suite" scripts/setup.sh
    timed "$suite: scripts/setup.sh --dev" in_root "$work/$suite" scripts/setup.sh --dev
    timed "$suite: ./test.sh tests/unit" in_root "$work/$suite" ./test.sh tests/unit -q
    timed "$suite: echelon, simulated" in_root "$work/$suite" \
        .venv/bin/echelon run --backend fluid experiments/smoke.yaml
    rm -rf --one-file-system "${work:?}/$suite"
done
print_stages
