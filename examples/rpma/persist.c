/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record in another host's persistent memory: written, flushed, then committed by an atomic
 * write, and read back.
 *
 *   persist server ADDRESS PORT FILE      persist client ADDRESS PORT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"

enum { SIZE = 1 << 20, RECORD_AT = 4096, RECORD_SIZE = 100000, COMMIT_AT = 0 };

static const char commit[8] = "COMMIT!";

static void server(const char *address, const char *port, const char *path)
{
	struct rpma_peer *peer = common_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	char *memory = common_map(path, SIZE);
	struct common_offer offer;
	struct rpma_conn_private_data said = {&offer, sizeof(offer)};
	struct rpma_mr_local *mr;
	struct rpma_ep *ep;

	OK(rpma_mr_reg(peer, memory, SIZE,
		       RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST |
			   RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT |
			   RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
		       &mr));
	common_offer(mr, true, &offer);
	OK(rpma_ep_listen(peer, address, port, &ep));
	common_wait_closed(common_accept(ep, NULL, NULL, 0, 0, &said));
	/* nobody told us; it is simply there */
	common_must(!memcmp(memory + COMMIT_AT, commit, sizeof(commit)), "nothing was committed");
	for (int i = 0; i < RECORD_SIZE; i++)
		common_must(memory[RECORD_AT + i] == (char)(i * 7), "another record");
	puts("the record is there");
	OK(rpma_ep_shutdown(&ep));
	OK(rpma_mr_dereg(&mr));
	OK(rpma_peer_delete(&peer));
	munmap(memory, SIZE);
}

static void client(const char *address, const char *port)
{
	struct rpma_peer *peer = common_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	struct rpma_conn *conn = common_connect(peer, address, port, NULL);
	struct rpma_mr_remote *remote = common_take_offer(conn);
	char *memory = malloc(2 * RECORD_SIZE);
	struct rpma_mr_local *mr;

	for (int i = 0; i < RECORD_SIZE; i++)
		memory[i] = (char)(i * 7);
	memset(memory + RECORD_SIZE, 0, RECORD_SIZE);
	OK(rpma_mr_reg(peer, memory, 2 * RECORD_SIZE,
		       RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &mr));
	/* all four are posted at once: the commit is behind the flush, so the last end is all ends
	 */
	OK(rpma_write(conn, remote, RECORD_AT, mr, 0, RECORD_SIZE, RPMA_F_COMPLETION_ON_ERROR,
		      NULL));
	OK(rpma_flush(conn, remote, RECORD_AT, RECORD_SIZE, RPMA_FLUSH_TYPE_PERSISTENT,
		      RPMA_F_COMPLETION_ON_ERROR, NULL));
	OK(rpma_atomic_write(conn, remote, COMMIT_AT, commit, RPMA_F_COMPLETION_ON_ERROR, NULL));
	OK(rpma_flush(conn, remote, COMMIT_AT, sizeof(commit), RPMA_FLUSH_TYPE_PERSISTENT,
		      RPMA_F_COMPLETION_ALWAYS, (void *)1));
	common_must(common_completion(conn, NULL).wr_id == 1, "another completion");

	OK(rpma_read(conn, mr, RECORD_SIZE, remote, RECORD_AT, RECORD_SIZE,
		     RPMA_F_COMPLETION_ALWAYS, (void *)2));
	common_must(common_completion(conn, NULL).wr_id == 2, "another completion");
	common_must(!memcmp(memory, memory + RECORD_SIZE, RECORD_SIZE), "another record");
	OK(rpma_write(conn, remote, RECORD_AT, mr, 0, 8, RPMA_F_COMPLETION_ON_ERROR, NULL));
	OK(rpma_flush(conn, remote, RECORD_AT, 8, RPMA_FLUSH_TYPE_VISIBILITY,
		      RPMA_F_COMPLETION_ALWAYS, (void *)3));
	common_must(common_completion(conn, NULL).wr_id == 3, "another completion");
	puts("written, durable, committed, read");
	common_disconnect(conn);
	OK(rpma_mr_remote_delete(&remote));
	OK(rpma_mr_dereg(&mr));
	OK(rpma_peer_delete(&peer));
	free(memory);
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "server"))
		server(argv[2], argv[3], argv[4]);
	else if (argc == 4 && !strcmp(argv[1], "client"))
		client(argv[2], argv[3]);
	else
		common_must(false,
			    "persist server ADDRESS PORT FILE | persist client ADDRESS PORT");
	return 0;
}
