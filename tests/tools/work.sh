# SPDX-License-Identifier: BSD-2-Clause
# Sourced: $work, a folder for what programs print, gone with the test as is $server, if it is set; and fail, which shows it all.
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
fail() {
	echo "FAILED: $*" >&2
	tail -n +1 "$work"/* >&2
	exit 1
}
