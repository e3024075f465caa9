#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# ingest.sh BUILD [SIZE] [OPTION…]: how fast foreign traces are read and runs exported, compared with
# programs that do the same (bench/ingest.py has the options). SIZE in bytes, by default 10^9. Needs
# three times SIZE on disk under TMPDIR, ten with --large; nothing stays there.
set -eu
build=$(cd "$1" && pwd)
shift
size=1000000000
case ${1:-} in
[0-9]*)
	size=$1
	shift
	;;
esac
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/moescope-ingest.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
hta=$("$here/peers/env.sh") || hta=
python3 "$here/ingest.py" --hta "$hta" "$@" "$build" "$work" "$size"
