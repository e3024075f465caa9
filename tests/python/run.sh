#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a test file under pytest, in the environment that tools/python_env.sh makes:
# run.sh [--transformers4] FILE [OPTION...]; or several side by side: run.sh --together FILE...
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$("$root/tools/python_env.sh" | tail -n 1)
export PYTHONPATH="$root/python"
if [ "${1:-}" = --transformers4 ]; then
	shift
	PYTHONPATH=$folder/transformers4:$PYTHONPATH
fi
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 MPLBACKEND=Agg
cd "$root"
if [ "${1:-}" = --together ]; then
	shift
	exec "$folder/bin/python" tests/python/together.py "$@"
fi
exec "$folder/bin/python" -m pytest -q -p no:cacheprovider --tb=short --lines "$@"
