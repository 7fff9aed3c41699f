/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_uc_pingpong: bounce messages over an unreliable connection. */
#include "pingpong.h"

int main(int argc, char **argv)
{
	static const struct pp_kind kind = {
	    .type = IBV_QPT_UC,
	    .has_srq = false,
	    .letters = "pdismrnlegc",
	    .default_size = 4096,
	};

	return pp_main(&kind, argc, argv);
}
