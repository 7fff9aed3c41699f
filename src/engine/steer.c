/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steering program. It sees the UDP payload from offset 0; the word at 4 is a reserved byte and
 * the QP number.
 */
#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "device/limits.h"
#include "engine/steer.h"

bool steer_is_wanted(void)
{
	const char *setting = getenv("VERBATIM_STEERING");

	return !setting || strcmp(setting, "hash") != 0;
}

int steer_attach(int fd, uint32_t lanes)
{
	uint32_t shift = (uint32_t)__builtin_ctz(lanes);
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
	    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
	    BPF_STMT(BPF_ST, 0),
	    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, QPN_GSI, 1, 0),
	    BPF_STMT(BPF_RET | BPF_K, 0),
	    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, lanes - 1),
	    BPF_STMT(BPF_MISC | BPF_TAX, 0),
	    BPF_STMT(BPF_LD | BPF_MEM, 0),
	    BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, QPN_SLOT_SHIFT),
	    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, QPN_SLOTS - 1),
	    BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, shift),
	    BPF_STMT(BPF_ALU | BPF_OR | BPF_X, 0),
	    BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1),
	    BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program;

	if (!steer_is_wanted())
		return 0;
	memset(&program, 0, sizeof(program)); /* its padding goes to the kernel, too */
	program.len = sizeof(code) / sizeof(code[0]);
	program.filter = code;
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) < 0
		   ? -errno
		   : 0;
}
