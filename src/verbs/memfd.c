/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memfds: made, mapped, exported. The kernel makes a dma-buf of a memfd where there is
 * /dev/udmabuf; elsewhere the memfd itself goes out, which ibv_reg_dmabuf_mr() takes as well.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "explain/reason.h"
#include "verbs/memfd.h"

static size_t round_up(size_t size, size_t unit)
{
	return (size + unit - 1) & ~(unit - 1);
}

uint32_t memfd_number(void)
{
	static atomic_uint last;
	uint32_t number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;

	return number ? number : memfd_number();
}

static uint64_t inode_of(int fd)
{
	struct stat file;

	return fstat(fd, &file) ? 0 : file.st_ino;
}

static int make(const char *name, size_t length)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)length) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

/* Maps it at a multiple of `alignment`: room is taken for that, and what is too much given back. */
static char *map(int fd, size_t length, size_t alignment)
{
	size_t room = length + alignment;
	char *place = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *start, *end;

	if (place == MAP_FAILED)
		return NULL;
	end = place + room;
	start = (char *)round_up((uintptr_t)place, alignment);
	if (mmap(start, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		munmap(place, room);
		return NULL;
	}
	if (start > place)
		munmap(place, (size_t)(start - place));
	if (end > start + length)
		munmap(start + length, (size_t)(end - start) - length);
	return start;
}

int memfd_create_mapped(struct memfd *memfd, const char *name, size_t size, size_t alignment)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t length = round_up(size, page);

	if (alignment < page)
		alignment = page;
	if (length < size || length + alignment < length)
		return -ENOMEM;
	memfd->length = length;
	memfd->fd = make(name, length);
	if (memfd->fd < 0)
		return memfd->fd;
	memfd->place = map(memfd->fd, length, alignment);
	if (!memfd->place) {
		close(memfd->fd);
		return -ENOMEM;
	}
	memfd->inode = inode_of(memfd->fd);
	memfd->number = memfd_number();
	atomic_init(&memfd->is_given, false);
	return 0;
}

int memfd_map(struct memfd *memfd, int fd, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct stat file;

	memfd->length = round_up(size, page);
	if (fstat(fd, &file) || file.st_size < (off_t)memfd->length || memfd->length < size ||
	    !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
		return -EINVAL;
	memfd->place = map(fd, memfd->length, page);
	if (!memfd->place)
		return -ENOMEM;
	memfd->fd = fd;
	memfd->inode = file.st_ino;
	memfd->number = memfd_number();
	return 0;
}

void memfd_unmap(struct memfd *memfd)
{
	munmap(memfd->place, memfd->length);
	close(memfd->fd);
}

void memfd_end(struct memfd *memfd)
{
	int saved = errno;

	if (!atomic_load(&memfd->is_given))
		fallocate(memfd->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			  (off_t)memfd->length);
	errno = saved;
	memfd_unmap(memfd);
}

static int make_dmabuf(const struct memfd *memfd)
{
	struct udmabuf_create create = {
	    .memfd = (__u32)memfd->fd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = memfd->length};
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;

	if (device < 0)
		return -1;
	fd = ioctl(device, UDMABUF_CREATE, &create);
	close(device);
	return fd;
}

int memfd_export(struct memfd *memfd)
{
	int saved = errno, fd = make_dmabuf(memfd);

	if (fd < 0)
		fd = fcntl(memfd->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0) {
		errno = refuse(REASON_DMABUF_EXPORT, "%zu bytes, errno %d", memfd->length, errno);
		return -1;
	}
	atomic_store(&memfd->is_given, true);
	errno = saved;
	return fd;
}
