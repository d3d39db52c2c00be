#!/usr/bin/env bash
# Bundles the parts of Apache ECharts that reports use (results/report/static/echarts/), with the licences of all that is in
# the bundle. Needs npm and a network; nobody who makes or reads a report does.
#
#   scripts/echarts.sh            the releases that are named below
#   scripts/echarts.sh 6.2.0      another release of ECharts; name it below, too
#
# Afterwards run tests/browser, and look at a report.
set -euo pipefail
cd "$(dirname "$0")/../results/report/static/echarts"

ECHARTS=${1:-6.1.0} ESBUILD=0.28.2

case "$ECHARTS" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' ../../../../scripts/echarts.sh; exit 0 ;;
    *[!0-9.]*) echo "echarts.sh: '$ECHARTS' is no release; see --help" >&2; exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp entry.js "$work/"
printf '{"private": true}\n' >"$work/package.json"
# Scripts of packages are not run: esbuild's program is a package of its own.
(cd "$work" && npm install --silent --ignore-scripts --no-audit --no-fund --save-exact "echarts@$ECHARTS" "esbuild@$ESBUILD")
modules=$work/node_modules
cp "$modules/echarts/LICENSE" LICENSE
cp "$modules/echarts/NOTICE" NOTICE
cp "$modules/echarts/licenses/LICENSE-d3" LICENSE-d3
cp "$modules/zrender/LICENSE" LICENSE-zrender
cp "$modules/tslib/CopyrightNotice.txt" LICENSE-tslib
{
    printf '/*!\nApache ECharts %s (https://echarts.apache.org), Apache License 2.0, with parts of zrender, d3 and tslib:\n\n' "$ECHARTS"
    cat NOTICE; printf '\n\nzrender\n'; cat LICENSE-zrender; printf '\nd3\n'; cat LICENSE-d3
    printf '\ntslib\n'; sed 's,/\*,,; s,\*/,,; s,^\**,,' LICENSE-tslib
    printf '*/\n'
} >"$work/head.txt"
"$modules/.bin/esbuild" "$work/entry.js" --bundle --minify --format=iife --global-name=echarts --legal-comments=none \
    --log-level=warning --outfile="$work/bundle.js"
cat "$work/head.txt" "$work/bundle.js" >echarts.min.js
echo "written: results/report/static/echarts/echarts.min.js ($(wc -c <echarts.min.js) bytes)"
