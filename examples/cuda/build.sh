#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# build.sh OUT [NAME...]: builds the outdated CUDA examples in the folder OUT.
# NVCC and CUDA_ARCH (default: native code for sm_80 and sm_90, and PTX) may be given. Without a
# CUDA compiler it says what is missing and exits with status 1.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: build.sh OUT [NAME...]}
shift
[ $# -gt 0 ] || set -- expert_mlp decode_graph

find_nvcc() {
	for found in "${NVCC:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" \
		$(python3 -c 'import glob, site
for folder in site.getsitepackages() + [site.getusersitepackages()]:
    print(*glob.glob(folder + "/nvidia/*/bin/nvcc"))' 2>/dev/null); do
		if [ -n "$found" ] && [ -x "$found" ]; then
			echo "$found"
			return
		fi
	done
}

stale() {
	[ ! -x "$out/$1" ] || [ "$here/$1.cu" -nt "$out/$1" ] || [ "$here/common.cuh" -nt "$out/$1" ]
}

mkdir -p "$out"
wanted=
for name in "$@"; do
	if [ ! -e "$here/$name.cu" ]; then
		echo "build.sh: there is no $here/$name.cu" >&2
		exit 2
	fi
	! stale "$name" || wanted="$wanted $name"
done
[ -n "$wanted" ] || exit 0

nvcc=$(find_nvcc)
if [ -z "$nvcc" ]; then
	echo "examples: not built, there is no CUDA compiler: nvcc is not on the PATH, not in" \
		"${CUDA_HOME:-/usr/local/cuda}/bin and not in Python's packages." >&2
	echo "examples: install the CUDA toolkit, or name the compiler: NVCC=/path/to/nvcc make examples" >&2
	exit 1
fi

# A compiler from a Python package has its libraries in lib, and NVTX may be in the fetched headers.
# It finds its own parts next to itself, so do not call it through a link.
nvcc=$(readlink -f "$nvcc")
top=$(cd "$(dirname "$nvcc")/.." && pwd)
flags="-O3 -std=c++17 -cudart static -Xcompiler -pthread"
[ ! -e "$top/lib/libcudart_static.a" ] || flags="$flags -L$top/lib"
headers=$("$here/../../tools/cuda_headers.sh" --find)
[ -e "$top/include/nvtx3/nvToolsExt.h" ] || [ -z "$headers" ] || flags="$flags -isystem $headers"
arch=${CUDA_ARCH:-"-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
	-gencode arch=compute_90,code=compute_90"}
for name in $wanted; do
	echo "nvcc $name"
	# shellcheck disable=SC2086 # lists of words
	"$nvcc" $flags $arch -o "$out/$name.new" "$here/$name.cu" -ldl
	mv "$out/$name.new" "$out/$name"
done
