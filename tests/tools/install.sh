#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# install.sh BUILD: what `make install` puts somewhere works from there: the command finds its libraries, the tools
# theirs, the man page is found, and a program is built against it by pkg-config and runs.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
prefix=$work/pre/fix
cmake --install "$1" --prefix "$prefix" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
libdir=$(dirname "$(find "$prefix" -name libverbatim-paths.so)")
[ "$(basename "$libdir")" = verbatim ] || fail "the libraries are in $libdir"

bare() { env -u LD_LIBRARY_PATH -u LD_PRELOAD "$@"; }
[ "$(bare "$prefix/bin/verbatim" run sh -c 'ldd "$(command -v ibv_devinfo)"' |
	sed -n 's/.*libibverbs.so.1 => \(.*\) (.*/\1/p')" = "$libdir/libibverbs.so.1" ] || fail "the command does not find its library"
bare "$prefix/bin/verbatim" run ls /sys/class/infiniband >"$work/view"
bare "$prefix/bin/ibv_devinfo" -l | sed '1d; s/[[:space:]]//g; /^$/d' | sort >"$work/listed"
[ -s "$work/view" ] && sort "$work/view" | cmp - "$work/listed" || fail "the installed tools see other devices"
[ -f "$prefix/share/man/man1/verbatim.1" ] || fail "no man page"

cat >"$work/program.c" <<'EOF'
#include <stdio.h>
#include <infiniband/verbs.h>
int main(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	printf("%d\n", list ? count : -1);
	return !list;
}
EOF
for pc in "$libdir/pkgconfig libibverbs" "$(dirname "$libdir")/pkgconfig verbatim"; do
	PKG_CONFIG_PATH=${pc% *}
	export PKG_CONFIG_PATH
	flags=$(pkg-config --cflags --libs "${pc#* }")
	case $flags in *"verbatim"*) ;; *) fail "pkg-config ${pc#* } says $flags" ;; esac
	# shellcheck disable=SC2086
	cc -Wall -Werror -o "$work/program" "$work/program.c" $flags || fail "no program by pkg-config ${pc#* }"
	[ "$(bare "$prefix/bin/verbatim" run "$work/program")" = "$(wc -l <"$work/view" | tr -d ' ')" ] || fail "the program finds no device"
done
pkg-config --atleast-version=1.14 libibverbs || fail "the version that configure scripts ask for"
printf '#include <librpma.h>\n#include <stdio.h>\nint main(void) { puts(rpma_err_2str(RPMA_E_NOMEM)); return 0; }' >"$work/rpma.c"
PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046
cc -Wall -Werror -o "$work/rpma" "$work/rpma.c" $(pkg-config --cflags --libs librpma) || fail "no program by pkg-config librpma"
[ "$(bare "$prefix/bin/verbatim" run "$work/rpma")" = "Out of memory" ] || fail "a program of librpma's does not run"
bare "$prefix/bin/verbatim" run ldd "$work/rpma" | grep -q "librpma.so.0 => $libdir/" || fail "it runs on another librpma"
echo "installed and usable"
