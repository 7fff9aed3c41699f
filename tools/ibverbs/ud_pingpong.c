/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_ud_pingpong: bounce datagrams. */
#include "pingpong.h"

int main(int argc, char **argv)
{
	static const struct pp_kind kind = {
	    .type = IBV_QPT_UD,
	    .has_srq = false,
	    .letters = "pdisrnlegc",
	    .default_size = 1024,
	};

	return pp_main(&kind, argc, argv);
}
