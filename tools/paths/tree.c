/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory tree that stands for /sys/class/infiniband and its like: one a process, made at the
 * first look, in a directory <base>/verbatim-UID-XXXXXX that nobody else writes.
 *
 *   lock   held (flock) while the process lives; what nobody holds is swept by the next who comes
 *   1, 2.. one complete view each: when the devices changed, a new one is made, the one before the
 *          last is removed
 *
 * A forked child makes a tree of its own, since its parent's goes with the parent.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "paths.h"

enum {
	BASE_SIZE = 256,
	FRESH_MS = 100, /* how long a look at the devices serves */
	SWEEP_AGE = 60, /* seconds in which a tree has got its lock for sure */
	LOCK_FD = 200,	/* away from the low descriptors that programs count on */
};

static struct {
	pthread_mutex_t lock; /* guards all below */
	pid_t owner;	      /* 0: no tree yet */
	char base[BASE_SIZE];
	int lock_fd;
	unsigned int generation;
	struct timespec looked; /* when the devices were last asked */
	struct view_device *devices;
	int count;
} tree = {.lock = PTHREAD_MUTEX_INITIALIZER, .lock_fd = -1};

static __typeof__(&verbatim_view_devices) view_devices;
static __typeof__(&verbatim_view_counters) view_counters;

/* Our libibverbs.so.1 lies beside this library. */
static int find_library(void)
{
	Dl_info self;
	char path[PATH_MAX];
	void *library;
	char *slash;

	if (view_devices)
		return 0;
	if (!dladdr((void *)find_library, &self) || strlen(self.dli_fname) >= sizeof(path) - 32)
		return -ENOENT;
	strcpy(path, self.dli_fname);
	slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, "libibverbs.so.1");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return -ENOENT;
	view_counters = (__typeof__(view_counters))dlsym(library, "verbatim_view_counters");
	view_devices = (__typeof__(view_devices))dlsym(library, "verbatim_view_devices");
	/* cppcheck-suppress resourceLeak ; stays loaded for good */
	return view_devices ? 0 : -ENOSYS;
}

static int remove_tree(int parent, const char *name)
{
	int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *entry;
	DIR *list;

	if (dir < 0)
		return unlinkat(parent, name, 0) ? -errno : 0;
	list = fdopendir(dir);
	if (!list) {
		close(dir);
		return -ENOMEM;
	}
	while ((entry = readdir(list)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			remove_tree(dir, entry->d_name);
	closedir(list);
	return unlinkat(parent, name, AT_REMOVEDIR) ? -errno : 0;
}

/*
 * Removes a tree of ours whose process is gone: its lock can be had. One that is just being made
 * has no lock yet, so only an old one without is taken for dead.
 */
static void sweep_one(int parent, const char *name)
{
	int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), lock;
	struct stat st;
	bool is_dead = false;

	if (dir < 0)
		return;
	if (!fstat(dir, &st) && st.st_uid == geteuid()) {
		lock = openat(dir, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (lock >= 0)
			is_dead = !flock(lock, LOCK_EX | LOCK_NB);
		else
			is_dead = errno == ENOENT && time(NULL) - st.st_ctime >= SWEEP_AGE;
		if (is_dead)
			remove_tree(parent, name);
		if (lock >= 0)
			close(lock);
	}
	close(dir);
}

static void sweep(const char *where, const char *prefix)
{
	DIR *list = opendir(where);
	struct dirent *entry;

	if (!list)
		return;
	while ((entry = readdir(list)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)))
			sweep_one(dirfd(list), entry->d_name);
	closedir(list);
}

/* The file gets its name when it is locked already, so whoever finds it free knows its owner dead.
 */
static int take_lock(const char *base)
{
	char made[BASE_SIZE + 16], path[BASE_SIZE + 16];
	int fd, high;

	snprintf(made, sizeof(made), "%s/lock.new", base);
	snprintf(path, sizeof(path), "%s/lock", base);
	fd = open(made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	high = fcntl(fd, F_DUPFD_CLOEXEC, LOCK_FD);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) || rename(made, path)) {
		close(fd);
		return -EBUSY;
	}
	return fd;
}

static int make_base(void)
{
	const char *places[] = {getenv("XDG_RUNTIME_DIR"), "/dev/shm", getenv("TMPDIR"), "/tmp",
				"/var/tmp"};
	char prefix[32];
	int rc = -ENOENT;

	snprintf(prefix, sizeof(prefix), "verbatim-%u-", (unsigned int)geteuid());
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!places[i] || places[i][0] != '/' ||
		    snprintf(tree.base, sizeof(tree.base), "%s/%sXXXXXX", places[i], prefix) >=
			(int)sizeof(tree.base))
			continue;
		if (!mkdtemp(tree.base)) {
			rc = -errno;
			continue;
		}
		/* Open to others, so that a process that lays down its root rights can go on
		 * looking. */
		chmod(tree.base, 0755);
		rc = take_lock(tree.base);
		if (rc >= 0) {
			tree.lock_fd = rc;
			sweep(places[i], prefix);
			return 0;
		}
		remove_tree(AT_FDCWD, tree.base);
	}
	tree.base[0] = '\0';
	return rc;
}

static void generation_path(char *path, size_t size, unsigned int generation)
{
	snprintf(path, size, "%s/%u", tree.base, generation);
}

static int add_generation(void)
{
	char path[BASE_SIZE + 16];
	int rc;

	generation_path(path, sizeof(path), tree.generation + 1);
	rc = content_write(path, tree.devices, tree.count);
	if (rc) {
		remove_tree(AT_FDCWD, path);
		return rc;
	}
	tree.generation++;
	if (tree.generation > 2) {
		generation_path(path, sizeof(path), tree.generation - 2);
		remove_tree(AT_FDCWD, path);
	}
	return 0;
}

static bool is_fresh(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if ((now.tv_sec - tree.looked.tv_sec) * 1000 +
		(now.tv_nsec - tree.looked.tv_nsec) / 1000000 <
	    FRESH_MS)
		return true;
	tree.looked = now;
	return false;
}

/* Asks the library again; a new generation if something differs from what the last one shows. */
static int look_at_devices(void)
{
	struct view_device *devices = NULL;
	int count, rc = find_library();

	if (rc)
		return rc;
	count = view_devices(VIEW_VERSION, &devices);
	if (count < 0)
		return count;
	if (tree.generation && count == tree.count &&
	    (!count || !memcmp(devices, tree.devices, (size_t)count * sizeof(*devices)))) {
		free(devices);
		return 0;
	}
	free(tree.devices);
	tree.devices = devices;
	tree.count = count;
	return add_generation();
}

static void forget(void)
{
	if (tree.lock_fd >= 0)
		close(tree.lock_fd);
	free(tree.devices);
	tree.devices = NULL;
	tree.count = 0;
	tree.lock_fd = -1;
	tree.generation = 0;
	tree.owner = 0;
	tree.looked = (struct timespec){0};
}

/* Someone may have cleaned up the directory for temporary files under us. */
static bool is_gone(void)
{
	char path[BASE_SIZE + 16];

	generation_path(path, sizeof(path), tree.generation);
	return access(path, F_OK) != 0;
}

static int update(void)
{
	int rc;

	if (tree.owner && is_gone())
		forget();
	if (!tree.owner) {
		rc = make_base();
		if (rc)
			return rc;
		tree.owner = getpid();
		is_fresh();
		rc = look_at_devices();
		if (rc) {
			remove_tree(AT_FDCWD, tree.base);
			forget();
		}
		return rc;
	}
	return is_fresh() ? 0 : look_at_devices();
}

static void update_counters(const char *root)
{
	struct view_counter counters[64];
	int count;

	for (int i = 0; view_counters && i < tree.count; i++) {
		count = view_counters(VIEW_VERSION, tree.devices[i].name, counters, 64);
		if (count > 64)
			count = 64;
		if (count > 0)
			content_write_counters(root, tree.devices[i].name, counters, count);
	}
}

int tree_root(char *root, size_t size, bool counters)
{
	int rc;

	pthread_mutex_lock(&tree.lock);
	rc = update();
	if (!rc) {
		generation_path(root, size, tree.generation);
		if (counters)
			update_counters(root);
	}
	pthread_mutex_unlock(&tree.lock);
	return rc;
}

void tree_refresh_counters(void)
{
	char root[BASE_SIZE + 16];
	int error = errno, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&tree.lock);
	if (tree.owner) {
		generation_path(root, sizeof(root), tree.generation);
		update_counters(root);
	}
	pthread_mutex_unlock(&tree.lock);
	pthread_setcancelstate(cancel, NULL);
	errno = error;
}

size_t tree_prefix(const char *path)
{
	size_t length = 0, base;

	pthread_mutex_lock(&tree.lock);
	base = strlen(tree.base);
	if (base && !strncmp(path, tree.base, base) && path[base] == '/') {
		length = base + 1 + strspn(path + base + 1, "0123456789");
		if (path[length] != '/')
			length = 0;
	}
	pthread_mutex_unlock(&tree.lock);
	return length;
}

static void before_fork(void)
{
	pthread_mutex_lock(&tree.lock);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&tree.lock);
}

static void after_fork_child(void)
{
	pthread_mutex_init(&tree.lock, NULL);
	if (tree.owner)
		forget();
}

static __attribute__((constructor)) void begin(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static __attribute__((destructor)) void end(void)
{
	if (tree.owner && tree.owner == getpid())
		remove_tree(AT_FDCWD, tree.base);
}
