#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deps.sh GROUP…: lists and installs the missing Debian or Ubuntu packages of the groups. If none is
# missing it does nothing and needs no network.
set -eu

packages=
for group in "$@"; do
	case $group in
	build) packages="$packages gcc libc6-dev make meson ninja-build pkg-config python3 python3-pip libzstd-dev libiberty-dev libopenblas-dev libcairo2-dev zlib1g-dev libisal-dev libsqlite3-dev libyaml-dev libmicrohttpd-dev libncurses-dev fonts-dejavu-core lowdown" ;;
	unit) packages="$packages libcmocka-dev" ;;
	test) packages="$packages libcmocka-dev clang clang-format clang-tidy python3-venv protobuf-compiler nodejs node-typescript tmux" ;;
	bench) packages="$packages g++ libsimdjson-dev python3-venv gzip isal" ;;
	lab) packages="$packages munge slurm-client slurmctld slurmd openmpi-bin" ;;
	*) echo "deps.sh: unknown group '$group'; use build, unit, test, lab or bench" >&2; exit 2 ;;
	esac
done

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
	echo "deps.sh: no apt on this system; these Debian packages are expected:$packages" >&2
	exit 0
fi

# A package may be installed for another architecture, too or only.
missing() {
	native=$(dpkg --print-architecture)
	for package in "$@"; do
		dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$package" 2>/dev/null |
			grep -qxE "(all|$native) installed" || printf ' %s' "$package"
	done
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo -n "$@" 2>/dev/null || sudo "$@"
	else
		echo "deps.sh: cannot install without root: run 'apt-get install$packages' as root" >&2
		exit 1
	fi
}

install() {
	[ $# -gt 0 ] || return 0
	echo "Installing with apt: $*"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
	# Build directories that were configured without these packages: Ninja configures them again.
	touch "$(dirname "$0")/../meson.build"
}

# shellcheck disable=SC2046,SC2086 # lists of words
install $(missing $packages)
# Where apt has them: `serve` is built without its page on older releases, which lack esbuild; tests of
# the page skip without chromium, which Ubuntu has as a snap alone.
optional() {
	for package in "$@"; do
		if [ -n "$(missing "$package")" ] && apt-cache show "$package" >/dev/null 2>&1; then
			install "$package"
		fi
	done
}
case " $* " in
*" build "*) optional esbuild ;;
esac
case " $* " in
*" test "*) optional chromium ;;
esac
# The package of the sanitizer and fuzzer run time has clang's version in its name.
case " $* " in
*" test "*)
	version=$(clang --version | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -n 1)
	# shellcheck disable=SC2046
	install $(missing "libclang-rt-$version-dev")
	;;
esac
case " $* " in
*" build "*) "$(dirname "$0")/cuda_headers.sh" --fetch ;;
esac
