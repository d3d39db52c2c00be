# shellcheck shell=bash
# Fresh Debian and Ubuntu root folders for the tests that start from nothing. To be sourced; needs root and debootstrap.
#
# Only the tests' roots get this machine's ways to reach package mirrors (proxy, certificates, pip's settings).

# fail MESSAGE...: end the script, as bad input does.
fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 2
}

# install_missing PACKAGE...: distribution packages that the test itself needs.
install_missing() {
    command -v apt-get >/dev/null || fail "needs Debian or Ubuntu (there is no apt-get); install by your own means: $*"
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    echo "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# fresh_root DIR SUITE PACKAGES: bootstrap SUITE with its essential packages and PACKAGES (comma-separated, may be
# empty) into DIR, from $MIRROR or the suite's own mirror.
fresh_root() {
    local root=$1 suite=$2 packages=$3 mirror components=main options=()
    case "$suite" in
        bookworm) mirror=http://deb.debian.org/debian ;;
        # Mininet, Open vSwitch and others of ours are in universe.
        jammy | noble) mirror=http://archive.ubuntu.com/ubuntu components=main,universe ;;
        *) fail "unknown suite '$suite'; there is: bookworm, jammy, noble" ;;
    esac
    # debootstrap fetches a release's key only where it has the distribution's key ring: a Debian has none of Ubuntu.
    if [ "$suite" != bookworm ] && [ ! -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]; then
        echo "no Ubuntu key ring here: signatures of $suite are not checked (this root is thrown away)"
        options+=(--no-check-gpg)
    fi
    # One script serves all releases of a distribution; an older debootstrap only does not know the newer names.
    local script=/usr/share/debootstrap/scripts/$suite
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/gutsy
    debootstrap "${options[@]}" --variant=minbase --components="$components" ${packages:+"--include=$packages"} \
        "$suite" "$root" "${MIRROR:-$mirror}" "$script" >"$root.log" 2>&1 || {
        tail -n 20 "$root.log" >&2
        fail "debootstrap of $suite failed; see above"
    }
    lend_network_settings "$root"
}

# lend_network_settings ROOT: proxy, own certificate authorities and pip's settings of this machine, for ROOT.
lend_network_settings() {
    local root=$1 certificate variable
    apt-config dump | grep -E '^Acquire::(https?::|ftp::)?(Proxy|Proxy-Auto-Detect|Verify-Peer)' \
        >"$root/etc/apt/apt.conf.d/90lent" || true
    for certificate in /usr/local/share/ca-certificates/*.crt; do
        [ -e "$certificate" ] || continue
        install -D -m 644 -t "$root/usr/local/share/ca-certificates" "$certificate"
    done
    [ ! -x "$root/usr/sbin/update-ca-certificates" ] || chroot "$root" update-ca-certificates >/dev/null 2>&1
    {
        echo '[global]'
        # pip brings its own certificates, in which a proxy that re-signs is unknown.
        echo 'cert = /etc/ssl/certs/ca-certificates.crt'
        for variable in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT; do
            [ -z "${!variable:-}" ] || printf '%s = %s\n' \
                "$(printf '%s' "${variable#PIP_}" | tr 'A-Z_' 'a-z-')" "${!variable}"
        done
    } >"$root/etc/pip.conf"
}

# timed NAME COMMAND...: run a stage, say how long it took, and with $ECHELON_LOCK set hold that lock meanwhile
# (a machine on which others measure).
STAGES=()
timed() {
    local name=$1 begin=$SECONDS code lock
    shift
    printf '\n== %s\n' "$name"
    if [ -n "${ECHELON_LOCK:-}" ]; then
        exec {lock}>"$ECHELON_LOCK"
        flock "$lock"
        begin=$SECONDS
    fi
    # A subshell, so that a stage ends at its first error (which "|| code=$?" would prevent) and daemons that it
    # starts do not inherit the lock.
    set +e
    (
        [ -z "${lock:-}" ] || exec {lock}>&-
        set -e
        "$@"
    )
    code=$?
    set -e
    [ -z "${lock:-}" ] || { exec {lock}>&-; sleep 1; } # others that wait come first
    STAGES+=("$(printf '%5d s  %s' $((SECONDS - begin)) "$name")")
    return "$code"
}

# print_stages: how long every stage took.
print_stages() {
    printf '\n== time\n'
    printf '%s\n' "${STAGES[@]}"
    printf '%5d s  in all\n' "$SECONDS"
}
