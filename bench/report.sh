#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# report.sh BUILD WORK LARGEST: how long views of runs take, by run size. An event is a kernel, a
# call or a range: LARGEST kernels have about as many calls and a tenth as many ranges.
set -eu
build=$1
work=$2
largest=$3
here=$(cd "$(dirname "$0")" && pwd)

row() {
	python3 "$here/best_of.py" "$@"
}

printf '%-14s %12s %12s %10s %10s %14s %10s\n' view kernels events wall_s cpu_s events/s peak_MiB
kernels=100000
while [ "$kernels" -le "$largest" ]; do
	run="$work/report-$kernels.mscope"
	"$build/bench/bench-make-run" "$here/data" "$run" "$kernels"
	row report "$kernels" "$run" "$build/moescope" report "$run"
	row report--json "$kernels" "$run" "$build/moescope" report --json "$run"
	row kernels "$kernels" "$run" "$build/moescope" kernels "$run"
	row ops "$kernels" "$run" "$build/moescope" ops "$run"
	rm -rf "$run"
	kernels=$((kernels * 10))
done
# What torch.profiler calls key_averages: operations, kernels and calls, a quarter of a million.
run="$work/ops-80000.mscope"
"$build/bench/bench-make-run" "$here/data" "$run" 80000 1
row ops-250k 80000 "$run" "$build/moescope" ops "$run"
rm -rf "$run"
