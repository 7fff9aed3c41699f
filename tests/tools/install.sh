#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# install.sh BUILD: what `make install` puts somewhere works from there: the command finds its libraries, the tools
# theirs, the man pages are there, and programs are built against it by pkg-config and run.
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
bare "$prefix/bin/verbatim" bench --quick --only process --output "$work/bench" >/dev/null 2>"$work/log" || fail "$(cat "$work/log")"
for page in man1/verbatim.1 man3/ibv_reg_mr.3 man3/ibv_wc_read_opcode.3 man3/rdma_connect.3 man3/riomap.3 man3/verbatim_set_pkeys.3 man7/rdma_cm.7; do
	[ -s "$prefix/share/man/$page" ] || fail "no man page $page"
done

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

cat >"$work/cm.c" <<'EOF'
#include <stdio.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
int main(void)
{
	struct rdma_cm_id *id;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return 1;
	puts(rdma_event_str(RDMA_CM_EVENT_ESTABLISHED));
	return rdma_destroy_id(id);
}
EOF
PKG_CONFIG_PATH=$libdir/pkgconfig
flags=$(pkg-config --cflags --libs librdmacm)
# shellcheck disable=SC2086
cc -Wall -Werror -o "$work/cm" "$work/cm.c" $flags || fail "no program by pkg-config librdmacm"
[ "$(bare "$prefix/bin/verbatim" run "$work/cm")" = RDMA_CM_EVENT_ESTABLISHED ] || fail "the program makes no id"
pkg-config --atleast-version=1.3 librdmacm || fail "the version that configure scripts ask for"
echo "installed and usable"
