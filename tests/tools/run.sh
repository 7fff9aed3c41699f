#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh BUILD: `verbatim run` is transparent. Status, signals, arguments and process are the program's own, our libraries
# come first and once, also when nested, in scripts, beside other preloads, and for an ordinary user.
# shellcheck disable=SC2016
set -eu
build=$(realpath "$1") verbatim=$(realpath "$1")/bin/verbatim
work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
status_of() { status=0; "$@" >"$work/out" 2>"$work/err" || status=$?; echo "$status"; }
run() { "$verbatim" run "$@"; }
# Which libibverbs.so.1 a program of the system's gets.
loaded() { "$@" sh -c 'exec ldd "$(command -v ibv_devinfo)"' | sed -n 's/.*libibverbs.so.1 => \(.*\) (.*/\1/p'; }
ours=$(realpath "$build/lib")/libibverbs.so.1

# The program's own end.
[ "$(status_of run true)" = 0 ] || fail "true"
[ "$(status_of run -- sh -c 'exit 42')" = 42 ] || fail "exit 42"
[ "$(status_of run sh -c 'kill -TERM $$')" = 143 ] || fail "death by SIGTERM"
[ "$(run printf '%s|' a 'b c' --devices -h '')" = "a|b c|--devices|-h||" ] || fail "arguments"
[ "$(echo in | run cat)" = in ] || fail "standard input"
"$verbatim" run sh -c 'echo $$; exec sleep 60' >"$work/pid" &
pid=$!
while ! [ -s "$work/pid" ]; do sleep 0.05; done
[ "$(cat "$work/pid")" = "$pid" ] || fail "the program is not this very process"
kill -TERM "$pid"
status=0; wait "$pid" 2>/dev/null || status=$?
[ "$status" = 143 ] || fail "the signal did not arrive"

# What cannot be run.
[ "$(status_of run nonesuch-program)" = 127 ] || fail "status of a program that is not there"
grep -q 'nonesuch-program: not found in PATH' "$work/err" || fail "text: $(cat "$work/err")"
[ "$(status_of run ./nonesuch/program)" = 127 ] || fail "status of a path that is not there"
[ "$(status_of run /etc/passwd)" = 126 ] || fail "status of a file that is no program"
grep -q '/etc/passwd: cannot be executed: Permission denied' "$work/err" || fail "text: $(cat "$work/err")"
[ "$(status_of run "$work")" = 126 ] || fail "status of a directory"
printf '#!/nonesuch/interpreter\n' >"$work/script"; chmod 755 "$work/script"
[ "$(status_of run "$work/script")" = 126 ] || fail "status of a script without its interpreter"
grep -q 'interpreter' "$work/err" || fail "text: $(cat "$work/err")"
[ "$(status_of run)" = 125 ] || fail "status without a program"
[ "$(status_of run --nonesuch true)" = 125 ] || fail "status of a wrong option"
for list in '' lo =lo a= a=lo, ,a=lo a=b=,; do
	[ "$(status_of run --devices "$list" true)" = 125 ] || [ "$list" = 'a=b=,' ] || fail "--devices '$list' was taken"
done
[ "$(status_of run --prefix a/b true)" = 125 ] || fail "--prefix a/b was taken"
[ "$(status_of run --help)" = 0 ] || fail "--help"

# Ours first, and once, however it is nested.
[ "$(loaded run)" = "$ours" ] || fail "the library is $(loaded run), not $ours"
[ "$(loaded env LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu "$verbatim" run)" = "$ours" ] || fail "with LD_LIBRARY_PATH set"
# Compared with what is set around it: an outer environment of this test is not its business.
set -- env -u LD_PRELOAD -u LD_LIBRARY_PATH
[ "$("$@" "$verbatim" run -- "$verbatim" run -- "$verbatim" run env | grep -E '^LD_' | sort)" = \
	"$("$@" "$verbatim" run env | grep -E '^LD_' | sort)" ] || fail "nested runs add to the environment"
[ "$("$@" LD_LIBRARY_PATH=/a:/b "$verbatim" run sh -c 'echo $LD_LIBRARY_PATH')" = "$(dirname "$ours"):/a:/b" ] ||
	fail "LD_LIBRARY_PATH is not kept"
libc=$(ldd /bin/sh | sed -n 's/.*libc.so.6 => \(.*\) (.*/\1/p')
case $("$@" LD_PRELOAD="$libc $libc" "$verbatim" run sh -c 'echo $LD_PRELOAD') in
*/libverbatim-paths.so:"$libc":"$libc") ;; *) fail "LD_PRELOAD is not kept" ;;
esac
printf '#!/bin/sh\nsh -c "ibv_devinfo -l"\n' >"$work/script"
run "$work/script" >"$work/in-script"
run ibv_devinfo -l >"$work/direct"
cmp "$work/in-script" "$work/direct" || fail "a script's programs see other devices"

# What the options say.
[ "$(run --explain --prefix soft --devices a=lo -- sh -c 'echo $VERBATIM_EXPLAIN $VERBATIM_PREFIX $VERBATIM_DEVICES')" = \
	"1 soft a=lo" ] || fail "options do not reach the program"
[ "$(run --devices mine=lo ibv_devinfo -l | sed -n 2p | tr -d '\t ')" = mine ] || fail "--devices mine=lo"
[ "$(run --devices mine=lo ls /sys/class/infiniband)" = mine ] || fail "--devices mine=lo in the view"
run --prefix soft ibv_devinfo -l | grep -qx '	soft0' || fail "--prefix soft"
[ "$(run ls /sys/class/infiniband | sort)" = "$(run ibv_devinfo -l | sed 1d | tr -d '\t' | sed '/^$/d' | sort)" ] ||
	fail "the view has other devices than the library"

# As an ordinary user.
if [ "$(id -u)" = 0 ]; then
	[ "$(status_of setpriv --reuid 65534 --regid 65534 --clear-groups "$verbatim" run ibv_devinfo -l)" = 0 ] ||
		fail "as nobody (is the build tree readable by others?): $(cat "$work/err")"
	cmp "$work/out" "$work/direct" || fail "nobody sees other devices"
fi

# Programs that it cannot reach are named, and run all the same.
printf 'int main(void) { return 3; }' >"$work/three.c"
cc -static -o "$work/static" "$work/three.c"
[ "$(status_of run "$work/static")" = 3 ] || fail "a static program"
grep -q 'note: .* is statically linked' "$work/err" || fail "no note on a static program: $(cat "$work/err")"
if [ "$(id -u)" = 0 ]; then
	cc -o "$work/setuid" "$work/three.c"
	chmod 4755 "$work/setuid"
	[ "$(status_of setpriv --reuid 65534 --regid 65534 --clear-groups "$verbatim" run "$work/setuid")" = 3 ] || fail "a setuid program"
	grep -q 'note: .* gets more rights' "$work/err" || fail "no note on a setuid program: $(cat "$work/err")"
fi
run true 2>"$work/err" && [ ! -s "$work/err" ] || fail "a note without need: $(cat "$work/err")"

# Elsewhere: the build tree copied, and a place that ld.so cannot take.
mkdir -p "$work/copy/bin" "$work/copy/lib" "$work/a place"
cp -a "$verbatim" "$work/copy/bin"
cp -a "$build"/lib/libibverbs.so* "$build/lib/libverbatim-paths.so" "$work/copy/lib"
[ "$(loaded "$work/copy/bin/verbatim" run)" = "$work/copy/lib/libibverbs.so.1" ] || fail "a copied build tree"
mv "$work/copy" "$work/a place/copy"
[ "$(status_of "$work/a place/copy/bin/verbatim" run true)" = 125 ] || fail "a path with a space"
grep -q 'cannot take a path' "$work/err" || fail "text: $(cat "$work/err")"
echo "run is transparent"
