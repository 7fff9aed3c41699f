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

/* An entry of the table on the port, bound to the address or to all. */
static bool find_socket(const char *path, const union ibv_gid *gid, bool as_ipv4,
			struct holder *holder)
{
	char line[512], wanted[33], local[33];
	unsigned int port, uid;
	unsigned long inode;
	bool is_found = false;
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	proc_address(gid, as_ipv4, wanted);
	while (!is_found && fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %*d: %32[0-9A-F]:%x %*s %*s %*s %*s %*s %u %*s %lu", local,
			   &port, &uid, &inode) != 4 ||
		    port != ROCE_PORT)
			continue;
		if (strcmp(local, wanted) != 0 && strspn(local, "0") != strlen(local))
			continue;
		holder->uid = uid;
		holder->inode = inode;
		is_found = true;
	}
	fclose(file);
	return is_found;
}

static bool process_has(const char *pid, const char *link)
{
	char path[300], target[64];
	struct dirent *entry;
	bool has = false;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	fds = opendir(path);
	while (fds && !has && (entry = readdir(fds))) {
		ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1);

		if (length > 0) {
			target[length] = '\0';
			has = strcmp(target, link) == 0;
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

static void find_process(struct holder *holder)
{
	char link[64];
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	snprintf(link, sizeof(link), "socket:[%lu]", holder->inode);
	while (proc && !holder->pid && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]) && process_has(entry->d_name, link))
			holder->pid = atol(entry->d_name);
	if (proc)
		closedir(proc);
	if (holder->pid)
		read_command(holder);
}

bool holder_find(const union ibv_gid *gid, struct holder *holder)
{
	memset(holder, 0, sizeof(*holder));
	if (!(gid_is_ipv4(gid) && find_socket("/proc/net/udp", gid, true, holder)) &&
	    !find_socket("/proc/net/udp6", gid, false, holder))
		return false;
	find_process(holder);
	return true;
}

/* Stopped by a signal or a debugger. The state is the letter after the name, which may have
 * anything in it. */
static bool is_stopped(const char *pid)
{
	char path[300], text[256] = "";
	const char *name_end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return true;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	name_end = strrchr(text, ')');
	return !name_end || !strchr("DIRSW", name_end[2]);
}

bool holder_goes_on(const union ibv_gid *gid)
{
	struct holder holder;
	struct dirent *entry;
	char link[64];
	bool goes_on = false;
	DIR *proc;

	if (!holder_find(gid, &holder) || !holder.pid)
		return false;
	proc = opendir("/proc");
	snprintf(link, sizeof(link), "socket:[%lu]", holder.inode);
	while (proc && !goes_on && (entry = readdir(proc)))
		goes_on = isdigit((unsigned char)entry->d_name[0]) && !is_stopped(entry->d_name) &&
			  process_has(entry->d_name, link);
	if (proc)
		closedir(proc);
	return goes_on;
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
	char line[512], pid[24], link[64];
	unsigned long inode;
	bool is_found = false;
	FILE *file = fopen("/proc/net/unix", "re");

	snprintf(pid, sizeof(pid), "%ld", holder->pid);
	while (file && !is_found && fgets(line, sizeof(line), file)) {
		if (!strstr(line, " @verbatim/") ||
		    sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &inode) != 1)
			continue;
		snprintf(link, sizeof(link), "socket:[%lu]", inode);
		is_found = process_has(pid, link);
	}
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
