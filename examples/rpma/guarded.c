/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server that looks at who asks: a client says a word in its private data, and is turned away
 * unless it is the right one. The client sees what each of its tries comes to.
 *
 *   guarded server ADDRESS PORT WORD | guarded client ADDRESS PORT WORDS...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static bool is_right(const struct rpma_conn_req *request, const char *word)
{
	struct rpma_conn_private_data said;

	OK(rpma_conn_req_get_private_data(request, &said));
	return said.ptr && said.len >= strlen(word) + 1 &&
	       !memcmp(said.ptr, word, strlen(word) + 1);
}

/* Takes requests until one has the right word. */
static void server(const char *address, const char *port, const char *word)
{
	struct rpma_peer *peer = common_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	struct rpma_conn_private_data welcome = {(void *)"welcome", sizeof("welcome")};
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn_req *request;
	struct rpma_conn *conn;
	struct rpma_ep *ep;
	int turned_away = 0;

	OK(rpma_ep_listen(peer, address, port, &ep));
	for (;;) {
		OK(rpma_ep_next_conn_req(ep, NULL, &request));
		if (is_right(request, word))
			break;
		OK(rpma_conn_req_delete(&request)); /* which tells the client */
		turned_away++;
	}
	OK(rpma_conn_req_connect(&request, &welcome, &conn));
	OK(rpma_conn_next_event(conn, &event));
	common_must(event == RPMA_CONN_ESTABLISHED, rpma_utils_conn_event_2str(event));
	common_wait_closed(conn);
	printf("%d turned away\n", turned_away);
	OK(rpma_ep_shutdown(&ep));
	OK(rpma_peer_delete(&peer));
}

static enum rpma_conn_event try(struct rpma_peer *peer, const char *address, const char *port,
				const char *word)
{
	struct rpma_conn_private_data mine = {(void *)word, (uint8_t)(strlen(word) + 1)}, theirs;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn_req *request;
	struct rpma_conn *conn;

	OK(rpma_conn_req_new(peer, address, port, NULL, &request));
	OK(rpma_conn_req_connect(&request, &mine, &conn));
	OK(rpma_conn_next_event(conn, &event));
	printf("%s: %s\n", word, rpma_utils_conn_event_2str(event));
	if (event != RPMA_CONN_ESTABLISHED) {
		OK(rpma_conn_delete(&conn));
		return event;
	}
	OK(rpma_conn_get_private_data(conn, &theirs));
	common_must(theirs.ptr && !strcmp(theirs.ptr, "welcome"), "no welcome");
	common_disconnect(conn);
	return event;
}

static void client(const char *address, const char *port, char **words)
{
	struct rpma_peer *peer = common_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);

	/* a port where nobody listens is the same answer */
	common_must(try(peer, address, "7999", *words) == RPMA_CONN_REJECTED, "who answers there?");
	while (*words && try(peer, address, port, *words) == RPMA_CONN_REJECTED)
		words++;
	common_must(*words != NULL, "none of the words is the right one");
	OK(rpma_peer_delete(&peer));
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "server"))
		server(argv[2], argv[3], argv[4]);
	else if (argc > 4 && !strcmp(argv[1], "client"))
		client(argv[2], argv[3], argv + 4);
	else
		common_must(false, "guarded server ADDRESS PORT WORD | guarded client ADDRESS PORT "
				   "WORDS...");
	return 0;
}
