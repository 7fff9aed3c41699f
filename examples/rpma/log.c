/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A replicated log. Each replica maps a file and lets the writer at it; it has nothing else to do.
 * The writer appends a line to all replicas at once: record, flush, the log's new end by an atomic
 * write, flush. A line is committed when it is durable on more than half of them; replicas may die
 * on the way.
 *
 *   log replica ADDRESS PORT FILE      log append ADDRESS:PORT... (lines from stdin)      log show
 * FILE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"

/* The file: the end of the log in bytes from DATA_AT, then lines, each with its newline. */
enum { SIZE = 1 << 20, DATA_AT = 64, LINE = 256, REPLICAS = 8 };

struct replica {
	struct rpma_conn *conn; /* NULL: dead */
	struct rpma_mr_remote *remote;
};

static void serve(const char *address, const char *port, const char *path)
{
	struct rpma_peer *peer = common_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	char *memory = common_map(path, SIZE);
	struct common_offer offer;
	struct rpma_conn_private_data said = {&offer, sizeof(offer)};
	struct rpma_mr_local *mr;
	struct rpma_ep *ep;

	OK(rpma_mr_reg(peer, memory, SIZE,
		       RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST |
			   RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
		       &mr));
	common_offer(mr, true, &offer);
	OK(rpma_ep_listen(peer, address, port, &ep));
	common_wait_closed(common_accept(ep, NULL, NULL, 0, 0, &said));
	OK(rpma_ep_shutdown(&ep));
	OK(rpma_mr_dereg(&mr));
	OK(rpma_peer_delete(&peer));
	munmap(memory, SIZE);
}

/* Only the last of the four tells when it is done; each waits for those before it. 0 unless it is
 * dead. */
static int post_append(struct replica *replica, struct rpma_mr_local *mr, uint64_t end,
		       size_t length)
{
	const int silent = RPMA_F_COMPLETION_ON_ERROR;
	uint64_t new_end = end + length;
	char word[8];

	memcpy(word, &new_end, sizeof(word));
	return rpma_write(replica->conn, replica->remote, DATA_AT + end, mr, 0, length, silent,
			  NULL) ||
	       rpma_flush(replica->conn, replica->remote, DATA_AT + end, length,
			  RPMA_FLUSH_TYPE_PERSISTENT, silent, NULL) ||
	       rpma_atomic_write(replica->conn, replica->remote, 0, word, silent, NULL) ||
	       rpma_flush(replica->conn, replica->remote, 0, sizeof(word),
			  RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, NULL);
}

static bool is_durable(struct replica *replica)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	int code;

	OK(rpma_conn_get_cq(replica->conn, &cq));
	while ((code = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		OK(rpma_cq_wait(cq));
	return code == 0 && wc.status == IBV_WC_SUCCESS;
}

static void bury(struct replica *replica, int number)
{
	fprintf(stderr, "replica %d is dead\n", number);
	rpma_conn_delete(&replica->conn);
}

/* How many replicas have it. */
static int append(struct replica *replicas, int count, struct rpma_mr_local *mr, uint64_t end,
		  size_t length)
{
	int durable = 0;

	for (int i = 0; i < count; i++)
		if (replicas[i].conn && post_append(&replicas[i], mr, end, length))
			bury(&replicas[i], i);
	for (int i = 0; i < count; i++) {
		if (!replicas[i].conn)
			continue;
		if (is_durable(&replicas[i]))
			durable++;
		else
			bury(&replicas[i], i);
	}
	return durable;
}

static struct replica connect_replica(struct rpma_peer *peer, char *address)
{
	char *port = strrchr(address, ':');
	struct replica replica;

	common_must(port != NULL, "a replica is ADDRESS:PORT");
	*port++ = '\0';
	replica.conn = common_connect(peer, address, port, NULL);
	replica.remote = common_take_offer(replica.conn);
	return replica;
}

static void append_lines(int count, char **addresses)
{
	static char line[LINE];
	struct replica replicas[REPLICAS] = {0};
	struct rpma_mr_local *mr;
	struct rpma_peer *peer;
	uint64_t end = 0;
	char *first = strdup(addresses[0]);

	common_must(count <= REPLICAS, "too many replicas");
	*strrchr(first, ':') = '\0';
	peer = common_peer(first, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	free(first);
	for (int i = 0; i < count; i++)
		replicas[i] = connect_replica(peer, addresses[i]);
	OK(rpma_mr_reg(peer, line, LINE, RPMA_MR_USAGE_WRITE_SRC, &mr));
	while (fgets(line, LINE, stdin)) {
		size_t length = strlen(line);

		common_must(DATA_AT + end + length <= SIZE, "the log is full");
		common_must(append(replicas, count, mr, end, length) > count / 2,
			    "the majority is dead");
		end += length;
		printf("committed %s", line);
		fflush(stdout);
	}
	for (int i = 0; i < count; i++) {
		if (replicas[i].conn)
			common_disconnect(replicas[i].conn);
		OK(rpma_mr_remote_delete(&replicas[i].remote));
	}
	OK(rpma_mr_dereg(&mr));
	OK(rpma_peer_delete(&peer));
}

static void show(const char *path)
{
	char *memory = common_map(path, SIZE);
	uint64_t end;

	memcpy(&end, memory, sizeof(end));
	common_must(end <= SIZE - DATA_AT, "this is no log");
	fwrite(memory + DATA_AT, 1, end, stdout);
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "replica"))
		serve(argv[2], argv[3], argv[4]);
	else if (argc >= 3 && !strcmp(argv[1], "append"))
		append_lines(argc - 2, argv + 2);
	else if (argc == 3 && !strcmp(argv[1], "show"))
		show(argv[2]);
	else
		common_must(false, "log replica ADDRESS PORT FILE | log append ADDRESS:PORT... | "
				   "log show FILE");
	return 0;
}
