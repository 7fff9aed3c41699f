/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table behind a context's cmd_fd. Its maker has it mapped and writes it, all others may only
 * read; what they read is somebody else's word, so it is copied first and then believed in nothing
 * that the kernel can be asked. A process's own objects are found in memory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <urcu/list.h>

#include "explain/reason.h"
#include "verbs/memfd.h"
#include "verbs/share.h"

#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { PLACES = 1 << 14, VERSION = 2 }; /* what finds no place can't be imported */

static const char magic[8] = "vrbtmsh";

struct page {
	char magic[8];
	uint32_t version;
	int32_t pid; /* of its maker, and the number of the descriptor there */
	int32_t cmd_fd;
	uint32_t high;	  /* places from it on were never taken */
	uint32_t ifindex; /* the device's interface: names change when others come and go */
	char device[IBV_SYSFS_NAME_MAX];
	struct share_entry entries[PLACES]; /* place 0 is nobody's */
};

struct share {
	struct cds_list_head node;
	unsigned int users;
	struct stat file;
	struct page *page;
	bool is_ours;
	uint32_t high; /* places from it on were never taken */
	uint32_t free; /* head of those that were let go, 0: none */
	struct place {
		void *object;
		uint32_t next; /* of the free ones */
		enum share_kind kind;
		uint32_t handle;
	} * places;
	uint32_t room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all shares */
static CDS_LIST_HEAD(shares);

void share_hold(void)
{
	pthread_mutex_lock(&lock);
}

void share_release(void)
{
	pthread_mutex_unlock(&lock);
}

/* In the child nothing is ours to write any more. */
void share_forked(void)
{
	struct share *share;

	cds_list_for_each_entry (share, &shares, node)
		share->is_ours = false;
	pthread_mutex_unlock(&lock);
}

/* ---- life ---- */

static struct share *enlist(int fd, struct page *page, bool is_ours)
{
	struct share *share = calloc(1, sizeof(*share));

	if (!share || fstat(fd, &share->file)) {
		free(share);
		return NULL;
	}
	share->users = 1;
	share->page = page;
	share->is_ours = is_ours;
	share->high = 1;
	cds_list_add(&share->node, &shares);
	return share;
}

/* A file that only this mapping can change. */
static struct page *make_page(int fd, const char *device, uint32_t ifindex)
{
	struct page *page;

	if (ftruncate(fd, sizeof(*page)))
		return NULL;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (page == MAP_FAILED)
		return NULL;
	memcpy(page->magic, magic, sizeof(magic));
	page->version = VERSION;
	page->pid = getpid();
	page->cmd_fd = fd;
	page->ifindex = ifindex;
	snprintf(page->device, sizeof(page->device), "%s", device);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
	return page;
}

struct share *share_create(const char *device, uint32_t ifindex, int *cmd_fd)
{
	int fd = memfd_create("verbatim-context", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct page *page = fd < 0 ? NULL : make_page(fd, device, ifindex);
	struct share *share = NULL;

	if (page) {
		pthread_mutex_lock(&lock);
		share = enlist(fd, page, true);
		pthread_mutex_unlock(&lock);
	}
	*cmd_fd = fd;
	if (share)
		return share;
	if (page)
		munmap(page, sizeof(*page));
	if (fd >= 0)
		close(fd);
	/* a descriptor that takes the flags which programs set, and refuses every command */
	*cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return NULL;
}

static struct share *find_locked(const struct stat *file)
{
	struct share *share;

	cds_list_for_each_entry (share, &shares, node)
		if (share->file.st_dev == file->st_dev && share->file.st_ino == file->st_ino) {
			share->users++;
			return share;
		}
	return NULL;
}

/* The maker's descriptor must be this very file: then its process is who made it, and still there.
 */
static bool is_makers(const struct page *page, const struct stat *file)
{
	struct stat theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", page->pid, page->cmd_fd);
	return !stat(path, &theirs) && theirs.st_dev == file->st_dev &&
	       theirs.st_ino == file->st_ino;
}

/* Nobody can shorten it: looking at it never faults. */
static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK;
}

static struct share *open_locked(int fd, const struct stat *file, int *error)
{
	struct share *share = find_locked(file);
	struct page *page;

	if (share)
		return share;
	page = file->st_size == (off_t)sizeof(*page) && is_sealed(fd)
		   ? mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, fd, 0)
		   : MAP_FAILED;
	if (page == MAP_FAILED) {
		*error = refuse(REASON_IMPORT_FD, "cmd_fd is %d", fd);
		return NULL;
	}
	if (memcmp(page->magic, magic, sizeof(magic)) || page->version != VERSION ||
	    memchr(page->device, 0, sizeof(page->device)) == NULL)
		*error = refuse(REASON_IMPORT_FD, "cmd_fd is %d", fd);
	else if (!is_makers(page, file))
		*error = refuse(REASON_IMPORT_MAKER, "cmd_fd %d is of process %d", fd, page->pid);
	else
		share = enlist(fd, page, false);
	if (!share)
		munmap(page, sizeof(*page));
	return share;
}

struct share *share_open(int cmd_fd, int *error)
{
	struct share *share;
	struct stat file;

	if (fstat(cmd_fd, &file)) {
		*error = refuse(REASON_IMPORT_FD, "cmd_fd is %d", cmd_fd);
		return NULL;
	}
	*error = ENOMEM;
	pthread_mutex_lock(&lock);
	share = open_locked(cmd_fd, &file, error);
	pthread_mutex_unlock(&lock);
	return share;
}

void share_put(struct share *share)
{
	bool is_last;

	if (!share)
		return;
	pthread_mutex_lock(&lock);
	is_last = --share->users == 0;
	if (is_last)
		cds_list_del(&share->node);
	pthread_mutex_unlock(&lock);
	if (!is_last)
		return;
	munmap(share->page, sizeof(*share->page));
	free(share->places);
	free(share);
}

uint32_t share_ifindex(const struct share *share)
{
	return share->page->ifindex;
}

const char *share_device(const struct share *share)
{
	return share->page->device;
}

bool share_is_ours(const struct share *share)
{
	return share->is_ours;
}

/* ---- objects of this process ---- */

static bool grow(struct share *share)
{
	uint32_t room = share->room ? 2 * share->room : 64;
	struct place *places = realloc(share->places, room * sizeof(*places));

	if (!places)
		return false;
	share->places = places;
	share->room = room;
	return true;
}

static uint32_t take_place(struct share *share)
{
	uint32_t place = share->free;

	if (place) {
		share->free = share->places[place].next;
		return place;
	}
	if (share->high == PLACES || (share->high >= share->room && !grow(share)))
		return 0;
	if (share->is_ours)
		__atomic_store_n(&share->page->high, share->high + 1, __ATOMIC_RELEASE);
	return share->high++;
}

/* Readers in other processes look at `kind` first. */
static void publish(struct share *share, uint32_t place, const struct share_entry *entry)
{
	struct share_entry *to = &share->page->entries[place];

	if (!share->is_ours)
		return;
	__atomic_store_n(&to->kind, SHARE_NONE, __ATOMIC_SEQ_CST);
	to->handle = entry->handle;
	to->pd_handle = entry->pd_handle;
	to->access = entry->access;
	to->lkey = entry->lkey;
	to->rkey = entry->rkey;
	to->iova = entry->iova;
	to->length = entry->length;
	to->addr = entry->addr;
	to->fd = entry->fd;
	to->inode = entry->inode;
	to->offset = entry->offset;
	__atomic_store_n(&to->kind, entry->kind, __ATOMIC_SEQ_CST);
}

uint32_t share_add(struct share *share, const struct share_entry *entry, void *object)
{
	uint32_t place;

	if (!share)
		return 0;
	pthread_mutex_lock(&lock);
	place = take_place(share);
	if (place) {
		share->places[place] =
		    (struct place){.object = object, .kind = entry->kind, .handle = entry->handle};
		publish(share, place, entry);
	}
	pthread_mutex_unlock(&lock);
	return place;
}

void share_update(struct share *share, uint32_t place, const struct share_entry *entry)
{
	if (!place)
		return;
	pthread_mutex_lock(&lock);
	publish(share, place, entry);
	pthread_mutex_unlock(&lock);
}

void share_remove(struct share *share, uint32_t place)
{
	if (!place)
		return;
	pthread_mutex_lock(&lock);
	if (share->is_ours)
		__atomic_store_n(&share->page->entries[place].kind, SHARE_NONE, __ATOMIC_SEQ_CST);
	share->places[place] = (struct place){.next = share->free};
	share->free = place;
	pthread_mutex_unlock(&lock);
}

bool share_find(struct share *share, enum share_kind kind, uint32_t handle,
		void (*take)(void *object, void *data), void *data)
{
	bool is_found = false;

	if (!share)
		return false;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 1; i < share->high && !is_found; i++) {
		is_found = share->places[i].object && share->places[i].kind == kind &&
			   share->places[i].handle == handle;
		if (is_found)
			take(share->places[i].object, data);
	}
	pthread_mutex_unlock(&lock);
	return is_found;
}

/* ---- objects of another process ---- */

bool share_read(const struct share *share, enum share_kind kind, uint32_t handle,
		struct share_entry *entry)
{
	uint32_t high = share ? __atomic_load_n(&share->page->high, __ATOMIC_ACQUIRE) : 0;

	for (uint32_t i = 1; i < high && i < PLACES; i++) {
		const struct share_entry *from = &share->page->entries[i];

		if (__atomic_load_n(&from->kind, __ATOMIC_SEQ_CST) != (uint32_t)kind ||
		    from->handle != handle)
			continue;
		*entry = *from;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (__atomic_load_n(&from->kind, __ATOMIC_SEQ_CST) == (uint32_t)kind &&
		    entry->handle == handle)
			return true;
	}
	return false;
}

int share_open_memory(const struct share *share, const struct share_entry *entry, uint64_t *offset)
{
	return shared_memory_open(share->page->pid, entry, offset);
}
