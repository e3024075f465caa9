#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# peer_env.sh vllm|guidellm|aiperf: creates the environment of another benchmark client if it does not
# exist, and prints its folder, whose bin/python has it. It is in the user's cache, named after
# tests/lab/requirements-NAME.txt. PyTorch and transformers come from the environment of the Python
# tests (python_env.sh). vLLM is installed without its dependencies: its
# bench needs a few of them, and the others are gigabytes of CUDA.
set -eu
name=${1:-}
root=$(cd "$(dirname "$0")/.." && pwd)
list=$root/tests/lab/requirements-$name.txt
[ $# -eq 1 ] && [ -e "$list" ] || { echo "usage: $0 vllm|guidellm|aiperf" >&2; exit 2; }
python=${PYTHON:-python3}
cache=${MOESCOPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/moescope}
folder=$cache/peer-$name-$({ cat "$list"; "$python" --version; } | sha256sum | cut -c 1-16)
if [ ! -e "$folder/complete" ]; then
	echo "peer_env.sh: installing $name; some minutes, once" >&2
	rm -rf "$folder"
	mkdir -p "$cache"
	"$python" -m venv "$folder" >&2
	if [ "$name" != aiperf ]; then
		base=$("$root/tools/python_env.sh")
		"$base/bin/python" -c 'import site; print(site.getsitepackages()[0])' \
			>"$("$folder/bin/python" -c 'import site; print(site.getsitepackages()[0])')/base.pth"
	fi
	if [ "$name" = vllm ]; then
		grep '^vllm' "$list" >"$folder/vllm.txt"
		grep -v '^vllm' "$list" >"$folder/rest.txt"
		"$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir \
			-r "$folder/rest.txt" >&2
		"$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir \
			--no-deps -r "$folder/vllm.txt" >&2
	else
		"$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir \
			-r "$list" >&2
	fi
	touch "$folder/complete"
fi
echo "$folder"
