#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# portable.sh OUT: what the checks in tests/gpu run, in a folder of a few megabytes beside the sources, for machines with
# a GPU on which nothing can be installed. Optional libraries are left out; the others but the C library are in OUT/libs.
# There: python3 tests/gpu/soak.py OUT.
set -eu
[ $# = 1 ] || { echo "usage: portable.sh OUT" >&2; exit 2; }
mkdir -p "$1/libs" "$1/tests"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
build=build-portable

left_out=
for option in plots serve terminal isal yaml man blas; do
	left_out="$left_out -D$option=disabled"
done
# shellcheck disable=SC2086 # a list of options
[ -f $build/build.ninja ] || meson setup $build $left_out '-Dc_link_args=-Wl,-rpath,$ORIGIN/libs' >/dev/null
ninja --quiet -C $build

for file in $build/moescope $build/moescope-* $build/libmoescope*.so; do
	if [ -f "$file" ]; then cp "$file" "$out/"; fi
done
for file in count-steps libheap_report.so libwatch_frees.so; do
	cp "$build/tests/$file" "$out/tests/"
done
ldd $build/moescope | awk '$2 == "=>" && $1 !~ /^lib(c|m|dl|rt|pthread)\./ { print $3 }' |
	while read -r library; do cp -L "$library" "$out/libs/"; done
strip -g "$out"/moescope "$out"/moescope-* "$out"/*.so "$out"/tests/* "$out"/libs/*
du -sh "$out"
