# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# For tests that are shell scripts: results in TAP, a temporary directory. Source it first.
# It changes to the top of the source tree, creates the directory $work and, at the end,
# removes it and prints the plan.

set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
root=$PWD
export LC_ALL=C
work=$(mktemp -d "${TMPDIR:-/tmp}/rdma-verbs-test.XXXXXX")
tap_count=0
tap_failed=0

tap_end() {
	local status=$?
	rm -rf "$work" || true
	if [[ $status -ne 0 ]]; then
		echo "Bail out! ${0##*/} ended with status $status"
		exit "$status"
	fi
	echo "1..$tap_count"
	exit "$((tap_failed > 0))"
}
trap tap_end EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# check NAME COMMAND...: passes if the command, and each one in it, succeeds
check() {
	local name=$1 status
	shift
	tap_count=$((tap_count + 1))
	# Not in an "if": there, bash would ignore set -e in the functions that it calls.
	set +e
	(set -e && "$@") >"$work/output" 2>&1 </dev/null
	status=$?
	set -e
	if [[ $status -eq 0 ]]; then
		echo "ok $tap_count - $name"
	else
		tap_failed=$((tap_failed + 1))
		echo "not ok $tap_count - $name"
		echo "# status $status of: $*"
		sed 's/^/# /' "$work/output"
	fi
}

# skip NAME REASON
skip() {
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}

# has COMMAND...
has() {
	command -v "$@" >/dev/null
}

# check_with TOOL NAME COMMAND...: like check, but skipped if the tool is missing
check_with() {
	if has "$1"; then
		check "${@:2}"
	else
		skip "$2" "no $1"
	fi
}

# make_copies TARGET VARIABLE=VALUE...: make install and uninstall, which need no compiler,
# without the settings of a make that runs this test
make_copies() {
	env -u MAKEFLAGS -u MAKEOVERRIDES -u PREFIX -u LIBDIR -u INCLUDEDIR -u MANDIR -u BINDIR \
		-u DESTDIR make --no-print-directory --silent CARGO=false CC=false "$@"
}

# fails COMMAND...: succeeds if the command does not
fails() {
	! "$@"
}

# same EXPECTED ACTUAL: compares two texts, line by line
same() {
	diff -u --label expected <(echo "$1") --label actual <(echo "$2")
}

# exports_of NODE: the names that the library exports in a version, sorted
exports_of() {
	sed -n "/^$1 {\$/,/^}/s/^    \(rdmax\?_[a-z_]*\);\$/\1/p" "$root/src/rdma_verbs.map" | sort
}

# All names that the library exports, sorted.
exports() {
	exports_of '.*'
}

# The version of the workspace, from Cargo.toml.
version() {
	sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml"
}

# Of the layout program's output, the types that grow with releases of rdma-core, at their
# start or end. The helpers do not use them.
# shellcheck disable=SC2034 # those who source this use it
readonly GROWN='^(verbs_context[. ]|ibv_(qp_ex|port_attr) size )'
