#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD LARGEST: every benchmark of docs/benchmarks.md, with the machine it ran on.
set -eu
build=$(cd "$1" && pwd)
largest=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/moescope-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, $(uname -sr)"
echo "load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
echo
echo "== cost of a call =="
"$build/bench/bench-hot-path" "$work/hot.mscope"
echo
echo "== the run on disk =="
"$build/bench/bench-codec" "$here/data" "$work" "$largest"
echo
echo "== views of a run, the best of three =="
"$here/report.sh" "$build" "$work" "$largest"
echo
echo "== the timeline of serve =="
python3 "$here/timeline.py" "$build" "$work" "$largest" || echo "some of it failed; see above"
echo
echo "== traces of other profilers, compared with other programs (bench/ingest.sh alone takes sizes) =="
"$here/ingest.sh" "$build" 1000000000 || echo "some of it failed; see above"
echo
echo "== the load client, against a server with its own clock =="
python3 "$here/load.py" "$build"
echo
echo "== training under the profiler, recorded and unrecorded steps in turn =="
cd "$work"
start=$(date +%s)
"$build/moescope" run -q -o train.mscope --overhead-check 128 -- "$build/tinymoe" --quiet
end=$(date +%s)
"$build/moescope" report --json train.mscope | python3 "$here/training.py" "$((end - start))"
