#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the fuzz targets with clang into the directory given: build.sh DIRECTORY
# Not part of the ordinary build: libFuzzer wants every object instrumented.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
clang=${CLANG:-clang}
command -v "$clang" >/dev/null || { echo "$0: no clang; install it or set CLANG" >&2; exit 1; }
mkdir -p "$1/objects"
flags="-std=gnu11 -D_GNU_SOURCE -DHAVE_ISAL -DHAVE_YAML -O1 -g -fno-omit-frame-pointer -I$root/src -I$root/include -I$here
	-Wall -Wextra -Wshadow -Wno-missing-field-initializers
	-fsanitize=address,undefined -fno-sanitize-recover=undefined"
# The probe as it is built: with GPU collection where the CUDA headers are.
headers=$("$root/tools/cuda_headers.sh" --find)
without='probe/(gpu_off|recorder_off)|base/gpu_devices_off'
text=
if [ -n "$headers" ]; then
	flags="$flags -isystem $headers"
	text=$1/recorder_text.c
	"$root/tools/embed_kernel.py" "$text" "$root/src/probe/recorder_layout.h" \
		"$root/src/probe/recorder.cu"
else
	without='probe/(cuda_order|cupti|gpu|inject|launches|nvml|nvml_gpm|nvml_processes|nvtx'
	without="$without|recorder|recorder_(cuda|drain|kernel|rows))|base/(gpu_devices|nvml_api)"
fi
# Importers with the libraries that they can do without.
without="$without|ingest/(gunzip|nsight)_off"
objects=
for source in "$root"/src/base/*.c "$root"/src/trace/*.c "$root"/src/tables/*.c \
	"$root"/src/probe/*.c "$root"/src/ingest/*.c \
	"$root"/src/lab/experiment*.c "$root"/src/lab/estimate.c \
	"$root"/src/lab/requests*.c "$root"/src/lab/serving*.c "$root"/src/analyze/stats.c \
	"$root"/src/lab/completion.c "$root"/src/lab/http_stream.c \
	"$here/load_all.c" ${text:+"$text"}; do
	if echo "$source" | grep -qE "/($without)\.c$"; then
		continue
	fi
	object=$1/objects/$(echo "${source#"$root"/}" | tr / _).o
	if [ ! -e "$object" ] || [ -n "$(find "$root/src" "$root/include" "$here" -name '*.[ch]' \
		-newer "$object" -print -quit)" ]; then
		# shellcheck disable=SC2086
		"$clang" $flags -fsanitize=fuzzer-no-link -c "$source" -o "$object"
	fi
	objects="$objects $object"
done
# An archive: a target may bring its own in place of an object.
rm -f "$1/objects.a"
# shellcheck disable=SC2086
ar rcs "$1/objects.a" $objects
while read -r target; do
	# shellcheck disable=SC2086
	"$clang" $flags -fsanitize=fuzzer "$here/fuzz_$target.c" "$1/objects.a" \
		-o "$1/fuzz_$target" -lzstd -lz -lisal -lsqlite3 -lyaml -lpthread -lm
done < "$here/targets"
