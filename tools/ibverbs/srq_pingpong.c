/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_srq_pingpong: bounce messages over reliable connections that share one receive queue. */
#include "pingpong.h"

int main(int argc, char **argv)
{
	static const struct pp_kind kind = {
	    .type = IBV_QPT_RC,
	    .has_srq = true,
	    .letters = "pdismqrnlegoc",
	    .default_size = 4096,
	};

	return pp_main(&kind, argc, argv);
}
