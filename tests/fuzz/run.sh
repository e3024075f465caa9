#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes the targets named, or every one, for a while: run.sh SECONDS [TARGET...]. They lie in
# $MOESCOPE_FUZZ_BUILD (build.sh makes them). New inputs and findings stay there; a finding's file name is printed.
set -u
seconds=${1:-}
case $seconds in
'' | *[!0-9]*)
	echo "usage: MOESCOPE_FUZZ_BUILD=DIRECTORY $0 SECONDS [TARGET...]" >&2
	exit 2
	;;
esac
shift
build=${MOESCOPE_FUZZ_BUILD:?set it to the directory given to build.sh}
here=$(cd "$(dirname "$0")" && pwd)
# Little memory kept back after a free: most of the time would go into fresh pages otherwise.
export ASAN_OPTIONS="${ASAN_OPTIONS:-quarantine_size_mb=8}"
passed=0
failed=0
# shellcheck disable=SC2046 # a list of words
[ $# -gt 0 ] || set -- $(cat "$here/targets")
for target in "$@"; do
	grep -qx "$target" "$here/targets" || { echo "$0: no target '$target'" >&2; exit 2; }
done
for target in "$@"; do
	work=$build/work/$target
	mkdir -p "$work/corpus" "$work/findings" "$here/corpus/$target" "$here/regress/$target"
	max_len=8192
	[ "$target" = schedule ] && max_len=128
	[ "$target" = nsight ] && max_len=16384
	if "$build/tests/fuzz/fuzz_$target" -rss_limit_mb=2048 -timeout=10 -max_len=$max_len \
		-max_total_time="$seconds" -artifact_prefix="$work/findings/" -print_final_stats=1 \
		"$work/corpus" "$here/corpus/$target" "$here/regress/$target" \
		>"$work/log" 2>&1 </dev/null; then
		passed=$((passed + 1))
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
		echo "ok fuzz_$target: $runs inputs in $seconds s"
	else
		failed=$((failed + 1))
		echo "FAIL fuzz_$target: see $work/log"
		ls "$work/findings"
	fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
