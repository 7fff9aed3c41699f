#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# explain.sh BUILD: `verbatim explain` knows every reason of the list, by number, in hexadecimal and by name, and says
# clearly when there is none. And what else the command says of itself.
set -eu
build=$1 verbatim=$1/bin/verbatim
list=$(dirname "$0")/../../src/explain/reasons.def
fail() { echo "FAILED: $*" >&2; exit 1; }

count=0
sed -n 's/^REASON(\([0-9]*\), *\([A-Z0-9_]*\),.*/\1 \2/p' "$list" >"${TMPDIR:-/tmp}/reasons.$$"
trap 'rm -f "${TMPDIR:-/tmp}/reasons.$$"' EXIT
while read -r number name; do
	text=$("$verbatim" explain "$number") || fail "explain $number"
	[ "$(printf '%s\n' "$text" | head -n 1)" = "$number $name" ] || fail "$number is not $name: $text"
	[ "$("$verbatim" explain "$(printf '0x%x' "$number")")" = "$text" ] || fail "hexadecimal $number"
	[ "$("$verbatim" explain "$name")" = "$text" ] || fail "explain $name"
	"$verbatim" explain | grep -q "^$number  $name  " || fail "$number is missing in the list of all"
	count=$((count + 1))
done <"${TMPDIR:-/tmp}/reasons.$$"
[ "$count" -gt 0 ] || fail "no reasons were found in $list"
[ "$("$verbatim" explain | wc -l)" = "$count" ] || fail "the list of all has other entries than $list"

for wrong in 0 1 99999 99999999999999999999 0x nonesuch '' 12x; do
	status=0
	text=$("$verbatim" explain "$wrong" 2>&1 >/dev/null) || status=$?
	[ "$status" = 1 ] || fail "explain '$wrong' ended with $status"
	case $text in *"no reason '$wrong'"*) ;; *) fail "explain '$wrong' said: $text" ;; esac
done

case $("$verbatim" --version) in "verbatim "[0-9]*.[0-9]*.[0-9]*) ;; *) fail "--version" ;; esac
"$verbatim" help | grep -q 'verbatim run' || fail "help"
status=0; "$verbatim" nonesuch 2>/dev/null || status=$?
[ "$status" = 125 ] || fail "an unknown command ended with $status"
if command -v man >/dev/null && command -v groff >/dev/null; then
	page=$(dirname "$0")/../../docs/man/verbatim.1
	warnings=$(MAN_DISABLE_SECCOMP=1 man --warnings=w -l "$page" 2>&1 >/dev/null | grep -v 'getting terminal' || :)
	[ -z "$warnings" ] || fail "the man page: $warnings"
fi
echo "$count reasons explained"
