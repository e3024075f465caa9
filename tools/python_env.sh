#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# python_env.sh: creates the environment of the Python tests if it does not exist, and prints its
# folder: bin/python has what tests/python/requirements.txt lists, transformers4/ goes before it on
# PYTHONPATH. It is in the user's cache, named after the requirements, so a machine pays for it once.
# Some gigabytes: PyTorch from PyPI includes the CUDA libraries.
#
# python_env.sh lint|viewers|agents|loggers|servers|llama: a folder for PYTHONPATH with other packages.
#   lint     tests/python/lint.txt: mypy, ruff, and schemas of the files in .github
#   viewers  tests/python/viewers.txt: the viewers that exports are tested with; some ten megabytes
#   agents   tests/python/agents.txt: the client of the Model Context Protocol; likewise
#   loggers  tests/python/loggers.txt: TensorBoard, W&B, MLflow and IPython; a hundred megabytes
#   servers  tests/lab/servers.txt: what `transformers serve` needs besides transformers; likewise
#   llama    tests/lab/llama.txt: llama.cpp's server, which is compiled; ten minutes
set -eu
here=$(cd "$(dirname "$0")/../tests/python" && pwd)
python=${PYTHON:-python3}
key=$(cat "$here"/requirements*.txt | { cat; "$python" --version; } | sha256sum | cut -c 1-16)
cache=${MOESCOPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/moescope}
deps=
case ${1:-} in
'') list= ;;
lint) list=$here/lint.txt ;;
viewers | loggers) list=$here/$1.txt deps=--no-deps ;;
agents) list=$here/agents.txt ;;
servers | llama) list=$here/../lab/$1.txt ;;
*) echo "usage: $0 [lint|viewers|agents|loggers|servers|llama]" >&2; exit 2 ;;
esac
if [ -n "$list" ]; then
	folder=$cache/$1-$(sha256sum <"$list" | cut -c 1-16)
else
	folder=$cache/python-$key
fi
# Do not wait for an environment that exists: another one may take ten minutes.
if [ -e "$folder/complete" ]; then
	echo "$folder"
	exit
fi
mkdir -p "$cache"
# Tests run in parallel and ask at the same time: one creates it, the others wait.
exec 9>"$cache/python_env.lock"
if command -v flock >/dev/null; then
	flock 9
fi
if [ -n "$list" ]; then
	if [ ! -e "$folder/complete" ]; then
		rm -rf "$folder"
		# shellcheck disable=SC2086
		"$python" -m pip install -q --disable-pip-version-check --no-cache-dir $deps \
			--target "$folder" -r "$list" >&2
		touch "$folder/complete"
	fi
	echo "$folder"
	exit
fi
if [ ! -e "$folder/complete" ]; then
	echo "python_env.sh: making the Python environment of the tests; some minutes, once" >&2
	rm -rf "$folder"
	"$python" -m venv "$folder" >&2 || {
		echo "python_env.sh: '$python -m venv' failed; install python3-venv" >&2
		exit 1
	}
	"$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir \
		-r "$here/requirements.txt" >&2
	"$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir \
		--target "$folder/transformers4" -r "$here/requirements-transformers4.txt" >&2
	touch "$folder/complete"
fi
echo "$folder"
