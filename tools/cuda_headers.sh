#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cuda_headers.sh --find   prints the folder with the CUDA headers, or nothing
# cuda_headers.sh --fetch  fetches them from PyPI into a cache folder if no toolkit is installed, and the libcupti
#                          beside them, with which tests ask what chips can count: that needs no GPU
set -eu
cache=${MOESCOPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/moescope}/cuda-13.0
packages="nvidia-cuda-cupti==13.0.85 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88
	nvidia-nvml-dev==13.0.87 nvidia-nvtx==13.0.85"

find_headers() {
	for folder in "${CUDA_HOME:-/usr/local/cuda}/include" "$cache/nvidia/cu13/include"; do
		if [ -e "$folder/cupti.h" ] && [ -e "$folder/nvml.h" ] &&
			[ -e "$folder/nvtx3/nvToolsExt.h" ] && [ -e "$folder/cuda.h" ]; then
			echo "$folder"
			return
		fi
	done
}

case ${1:-} in
--find) find_headers ;;
--fetch)
	case $(find_headers) in
	"") ;;
	"$cache"/*) [ ! -e "$cache/nvidia/cu13/lib" ] || exit 0 ;;
	*) exit 0 ;;
	esac
	mkdir -p "$cache/wheels"
	# shellcheck disable=SC2086 # a list of words
	if ! python3 -m pip download -q --no-deps --disable-pip-version-check -d "$cache/wheels" $packages; then
		rm -rf "$cache/wheels"
		[ -z "$(find_headers)" ] || exit 0 # without the library, then
		echo "cuda_headers.sh: the CUDA headers could not be fetched; GPU collection is left out of the build" >&2
		rm -rf "$cache"
		exit 0
	fi
	python3 - "$cache" <<'PYTHON'
import glob, re, sys, zipfile
for wheel in glob.glob(sys.argv[1] + "/wheels/*.whl"):
    with zipfile.ZipFile(wheel) as z:
        z.extractall(sys.argv[1], [n for n in z.namelist() if "/include/" in n
                                      or re.search("/lib(cupti|nvperf_host|nvperf_target)[.]so", n)])
PYTHON
	rm -rf "$cache/wheels"
	;;
*) echo "usage: cuda_headers.sh --find | --fetch" >&2; exit 2 ;;
esac
