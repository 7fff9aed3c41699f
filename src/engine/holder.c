/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * /proc/net/udp and udp6 say user and inode of each bound socket; /proc/PID/fd, as far as we may
 * look, which process.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/av.h"
#include "engine/holder.h"
#include "explain/reason.h"
#include "wire/headers.h"

enum { SOCKETS_MAX = 2048 };

const char *gid_text(const union ibv_gid *gid, char *text)
{
	if (gid_is_ipv4(gid))
		return inet_ntop(AF_INET, gid->raw + 12, text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, gid->raw, text, INET6_ADDRSTRLEN);
}

/* The files have addresses as 32-bit words in the machine's order. "" never matches. */
static void proc_address(const union ibv_gid *gid, bool as_ipv4, char text[33])
{
	uint32_t words[4];

	memcpy(words, gid->raw, sizeof(words));
	if (as_ipv4)
		snprintf(text, 33, "%08X", words[3]);
	else
		snprintf(text, 33, "%08X%08X%08X%08X", words[0], words[1], words[2], words[3]);
}

/* Those on the port, bound to the address or to all: a group has many, and most of them may be in
 * flight, where no process is seen to have them. */
struct sockets {
	unsigned int uid; /* of the first */
	unsigned int count;
	unsigned long inodes[SOCKETS_MAX];
};

static void list_sockets(const char *path, const union ibv_gid *gid, bool as_ipv4,
			 struct sockets *sockets)
{
	char line[512], wanted[33], local[33];
	unsigned int port, uid;
	unsigned long inode;
	FILE *file = fopen(path, "re");

	if (!file)
		return;
	proc_address(gid, as_ipv4, wanted);
	while (sockets->count < SOCKETS_MAX && fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %*d: %32[0-9A-F]:%x %*s %*s %*s %*s %*s %u %*s %lu", local,
			   &port, &uid, &inode) != 4 ||
		    port != ROCE_PORT)
			continue;
		if (strcmp(local, wanted) != 0 && strspn(local, "0") != strlen(local))
			continue;
		if (!sockets->count)
			sockets->uid = uid;
		sockets->inodes[sockets->count++] = inode;
	}
	fclose(file);
}

static bool find_sockets(const union ibv_gid *gid, struct sockets *sockets)
{
	sockets->count = 0;
	if (gid_is_ipv4(gid))
		list_sockets("/proc/net/udp", gid, true, sockets);
	if (!sockets->count)
		list_sockets("/proc/net/udp6", gid, false, sockets);
	return sockets->count;
}

static bool is_among(const struct sockets *sockets, unsigned long inode)
{
	for (unsigned int i = 0; i < sockets->count; i++)
		if (sockets->inodes[i] == inode)
			return true;
	return false;
}

static bool process_has(const char *pid, const struct sockets *sockets)
{
	char path[300], target[64];
	struct dirent *entry;
	unsigned long inode;
	bool has = false;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	fds = opendir(path);
	while (fds && !has && (entry = readdir(fds))) {
		ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1);

		if (length > 0) {
			target[length] = '\0';
			has =
			    sscanf(target, "socket:[%lu]", &inode) == 1 && is_among(sockets, inode);
		}
	}
	if (fds)
		closedir(fds);
	return has;
}

static void read_command(struct holder *holder)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/comm", holder->pid);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(holder->command, sizeof(holder->command), file))
		holder->command[strcspn(holder->command, "\n")] = '\0';
	fclose(file);
}

static long find_process(const struct sockets *sockets, bool (*accept)(const char *pid))
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	long pid = 0;

	while (proc && !pid && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]) && accept(entry->d_name) &&
		    process_has(entry->d_name, sockets))
			pid = atol(entry->d_name);
	if (proc)
		closedir(proc);
	return pid;
}

static bool is_any(const char *pid)
{
	return true;
}

bool holder_find(const union ibv_gid *gid, struct holder *holder)
{
	struct sockets sockets;

	memset(holder, 0, sizeof(*holder));
	if (!find_sockets(gid, &sockets))
		return false;
	holder->uid = sockets.uid;
	holder->pid = find_process(&sockets, is_any);
	if (holder->pid)
		read_command(holder);
	return true;
}

/* Not stopped by a signal or a debugger. The state is the letter after the name, which may have
 * anything in it. */
static bool goes_on(const char *pid)
{
	char path[300], text[256] = "";
	const char *name_end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	name_end = strrchr(text, ')');
	return name_end && strchr("DIRSW", name_end[2]);
}

bool holder_goes_on(const union ibv_gid *gid)
{
	struct sockets sockets;

	return find_sockets(gid, &sockets) && find_process(&sockets, goes_on);
}

static bool is_of_kernel(const struct holder *holder)
{
	return !holder->pid && access("/sys/module/rdma_rxe", F_OK) == 0;
}

bool holder_is_unseen(const union ibv_gid *gid)
{
	struct holder holder;

	return holder_find(gid, &holder) && !holder.pid && holder.uid == getuid() &&
	       !is_of_kernel(&holder);
}

/* Whether the process has a slot: one of the sockets with its kind of name is in its table. */
static bool is_member(const struct holder *holder)
{
	struct sockets slot = {.count = 1};
	char line[512], pid[24];
	bool is_found = false;
	FILE *file = fopen("/proc/net/unix", "re");

	snprintf(pid, sizeof(pid), "%ld", holder->pid);
	while (file && !is_found && fgets(line, sizeof(line), file))
		is_found = strstr(line, " @verbatim/") &&
			   sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", slot.inodes) == 1 &&
			   process_has(pid, &slot);
	if (file)
		fclose(file);
	return is_found;
}

int holder_refuse(const union ibv_gid *gid, bool is_silent)
{
	struct holder holder;
	char text[INET6_ADDRSTRLEN];

	gid_text(gid, text);
	if (!holder_find(gid, &holder))
		return refuse(REASON_PORT_HELD, "%s, by something that /proc/net/udp does not show",
			      text);
	if (is_of_kernel(&holder))
		return refuse(REASON_PORT_HELD_BY_KERNEL, "%s", text);
	if (holder.uid != getuid())
		return refuse(REASON_PORT_HELD_BY_USER, "%s, user %u, process %ld %s", text,
			      holder.uid, holder.pid, holder.command);
	return refuse(is_silent && is_member(&holder) ? REASON_MEMBER_SILENT : REASON_PORT_HELD,
		      "%s, process %ld %s", text, holder.pid, holder.command);
}
