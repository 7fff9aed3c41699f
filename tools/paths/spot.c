/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which paths are ours, and where in the tree they lead.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"

/* Whole directories that the tree replaces: what a real adapter has there is not to be seen. */
static const char *const replaced[] = {
    "/sys/class/infiniband",
    "/sys/class/infiniband_verbs",
    "/sys/devices/virtual/infiniband",
    "/sys/devices/virtual/infiniband_verbs",
    "/dev/infiniband",
};

static const char net[] = "/sys/class/net", net_device[] = "/device/infiniband";

void *next_function(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	if (!function) {
		fprintf(stderr, "verbatim: the C library has no %s\n", name);
		abort();
	}
	return function;
}

/*
 * What follows `prefix` in `path` ("" or "/..."), NULL if it does not begin so. Several slashes
 * count as one.
 */
static const char *after(const char *path, const char *prefix)
{
	while (*prefix) {
		if (*path != *prefix)
			return NULL;
		if (*path == '/')
			while (path[1] == '/')
				path++;
		path++;
		prefix++;
	}
	return *path && *path != '/' ? NULL : path;
}

/* Is `path` in one of the replaced directories? Then its spelling in the tree, without the root. */
static bool translate(const char *path, char *inside, size_t size)
{
	const char *rest, *name;
	int length = 0;

	for (size_t i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++) {
		rest = after(path, replaced[i]);
		if (rest)
			return snprintf(inside, size, "%s%s", replaced[i], rest) < (int)size;
	}
	rest = after(path, net);
	if (!rest)
		return false;
	name = rest + strspn(rest, "/");
	length = (int)strcspn(name, "/");
	rest = after(name + length, net_device);
	return rest && length &&
	       snprintf(inside, size, "%s/%.*s%s%s", net, length, name, net_device, rest) <
		   (int)size;
}

/* /dev/infiniband/uverbsN, or whatever else lies there: the node's minor number. */
static bool is_node(const char *inside, unsigned int *minor)
{
	const char *name = after(inside, "/dev/infiniband");

	if (!name || !name[strspn(name, "/")])
		return false;
	name += strspn(name, "/");
	if (strchr(name, '/'))
		return false;
	*minor = 0;
	if (!strncmp(name, "uverbs", 6) && isdigit((unsigned char)name[6]))
		*minor = NODE_UVERBS_0 + (unsigned int)atoi(name + 6);
	return true;
}

const char *spot_find_closer(const char *path, struct spot *spot)
{
	static _Thread_local bool inside; /* the tree is made with calls that come by here too */
	char translated[SPOT_SIZE / 2], root[SPOT_SIZE / 2];
	int error = errno, cancel;

	if (inside || !translate(path, translated, sizeof(translated)))
		return path;
	inside = true;
	/* The tree's lock must not die with the thread. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	spot->is_counter = strstr(translated, "counters/") != NULL;
	if (!tree_root(root, sizeof(root), spot->is_counter)) {
		snprintf(spot->path, sizeof(spot->path), "%s%s", root, translated);
		spot->is_ours = true;
		spot->is_node = is_node(translated, &spot->minor);
		path = spot->path;
	}
	pthread_setcancelstate(cancel, NULL);
	inside = false;
	errno = error;
	return path;
}

void spot_unmap(char *path)
{
	size_t prefix = tree_prefix(path);

	if (prefix)
		memmove(path, path + prefix, strlen(path + prefix) + 1);
}
