#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# mpi.sh BUILD: Open MPI, unmodified, with four processes: over UCX, which takes RC and UD from the verbs, and over libfabric,
# whose connections all four make to each other at once.
set -uo pipefail
own="$(dirname "$0")"
. "$own/../lib/common.sh"
own_network "$0" "$@"
. "$own/work.sh"
. "$own/ethernet.sh"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR="$work"
common="--oversubscribe -n 4 --mca btl ^openib,ofi,uct"
while read -r transports selected; do
	# shellcheck disable=SC2086
	UCX_TLS=$transports timeout -k 2 60 $WRAP mpirun.openmpi $common $selected /usr/bin/python3 "$own/mpi.py" >"$work/out" 2>&1 &&
		grep -q '^4 processes agree$' "$work/out" || fail "$transports $selected"
done <<'END'
rc_v,self --mca pml ucx --mca osc ucx
ud_v,self --mca pml ucx --mca osc ucx
none --mca pml cm --mca mtl ofi --mca osc ^ucx --mca mtl_ofi_provider_include verbs;ofi_rxm
END
