#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the fuzz targets with clang into the directory given: build.sh DIRECTORY
# Not part of the ordinary build: libFuzzer wants every object instrumented.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
clang=${CLANG:-clang}
command -v "$clang" >/dev/null || { echo "$0: no clang; install it or set CLANG" >&2; exit 1; }
# Meson takes ccache by itself only for the compiler that it chooses.
command -v ccache >/dev/null && clang="ccache $clang"
if [ ! -e "$1/build.ninja" ]; then
	CC=$clang meson setup "$1" "$here/../.." -Dfuzz=enabled -Dtests=disabled -Doptimization=1 \
		-Dc_args='-g1 -fno-omit-frame-pointer -fno-sanitize-recover=undefined' \
		-Db_sanitize=address,undefined -Db_lundef=false
fi
# shellcheck disable=SC2046 # a list of words
ninja -C "$1" $(sed 's|^|tests/fuzz/fuzz_|' "$here/targets")
