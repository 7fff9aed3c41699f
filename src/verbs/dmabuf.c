/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions on dma-bufs: the memory behind a descriptor, mapped here. The processor is who accesses
 * it, so the exporter is told when that begins and ends; a memfd, which needs no such thing, does
 * as well.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/memory.h"

enum {
	ACCESS_ALLOWED = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_OPTIONAL_RANGE,
};

/* ENOTTY: there is none. */
static void tell_exporter(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = {.flags = flags | DMA_BUF_SYNC_RW};
	int saved = errno;

	ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
	errno = saved;
}

static int check(int fd, uint64_t offset, size_t length, unsigned int access)
{
	off_t end = lseek(fd, 0, SEEK_END);

	if (end < 0 && errno == EBADF)
		return refuse(REASON_DMABUF_FD, "fd is %d", fd);
	if (end < 0)
		return refuse(REASON_DMABUF_NOT_MAPPED, "fd is %d", fd);
	if (access & ~(unsigned int)ACCESS_ALLOWED)
		return refuse(REASON_DMABUF_ACCESS, "access is %#x", access);
	if (!length || offset > (uint64_t)end || length > (uint64_t)end - offset)
		return refuse(REASON_DMABUF_RANGE, "%zu bytes at %llu of %lld", length,
			      (unsigned long long)offset, (long long)end);
	return 0;
}

int dmabuf_map(int fd, uint64_t offset, size_t length, unsigned int access,
	       struct mr_memory *memory, void **place)
{
	int protection = PROT_READ | (access & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
	size_t into = offset & ((size_t)sysconf(_SC_PAGESIZE) - 1);
	int ret = check(fd, offset, length, access);
	void *mapping;

	if (ret)
		return ret;
	memory->dmabuf = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (memory->dmabuf < 0)
		return refuse(REASON_NO_EVENT_FD, "for a dma-buf");
	mapping = mmap(NULL, into + length, protection, MAP_SHARED, fd, (off_t)(offset - into));
	if (mapping == MAP_FAILED) {
		ret = refuse(REASON_DMABUF_NOT_MAPPED, "fd is %d, access %#x, errno %d", fd, access,
			     errno);
		close(memory->dmabuf);
		return ret;
	}
	tell_exporter(fd, DMA_BUF_SYNC_START);
	memory->mapping = mapping;
	memory->mapped = into + length;
	memory->offset = offset;
	*place = (char *)mapping + into;
	return 0;
}

void dmabuf_unmap(struct mr_memory *memory)
{
	tell_exporter(memory->dmabuf, DMA_BUF_SYNC_END);
	munmap(memory->mapping, memory->mapped);
	close(memory->dmabuf);
	memory->mapping = NULL;
}
