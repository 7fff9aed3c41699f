/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_rc_pingpong: bounce messages over a reliable connection. */
#include "pingpong.h"

int main(int argc, char **argv)
{
	static const struct pp_kind kind = {
	    .type = IBV_QPT_RC,
	    .has_srq = false,
	    .letters = "pdismrnlegoOPtcjN",
	    .default_size = 4096,
	};

	return pp_main(&kind, argc, argv);
}
