#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# env.sh [LIST]: creates the Python environment for peers/LIST.txt (requirements) if it does not exist, and
# prints its interpreter. It is in the user's cache, named after the requirements.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
list=$here/${1:-requirements}.txt
python=${PYTHON:-python3}
key=$({ cat "$list"; "$python" --version; } | sha256sum | cut -c 1-16)
cache=${MOESCOPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/moescope}
folder=$cache/peers-$key
if [ ! -e "$folder/complete" ]; then
	echo "env.sh: making the Python environment of the peers; some minutes, once" >&2
	rm -rf "$folder"
	mkdir -p "$cache"
	"$python" -m venv "$folder" >&2
	"$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir \
		-r "$list" >&2
	touch "$folder/complete"
fi
echo "$folder/bin/python"
