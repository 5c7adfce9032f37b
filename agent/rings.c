/* SPDX-License-Identifier: MIT */
#include "agent/rings.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MIN_RING (64U << 10)
#define MAX_RING (64U << 20)

bool rings_is_size(uint64_t ring_size)
{
	return ring_size >= MIN_RING && ring_size <= MAX_RING && !(ring_size & (ring_size - 1));
}

static bool share_memory(struct rings *rings, const char *name, unsigned n, uint64_t ring_size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t header = sizeof(*rings->shared) + n * sizeof(rings->shared->ring[0]);
	header = (header + page - 1) / page * page;
	rings->size = header + n * ring_size;
	rings->memfd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (rings->memfd < 0 || ftruncate(rings->memfd, (off_t)rings->size) < 0 ||
	    fcntl(rings->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return false;
	void *memory = mmap(NULL, rings->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			    rings->memfd, 0);
	if (memory == MAP_FAILED)
		return false;
	rings->shared = memory;
	rings->offset = header;
	rings->ring_size = ring_size;
	rings->shared->rings_offset = header;
	rings->shared->ring_size = ring_size;
	rings->shared->n_rings = n;
	return true;
}

bool rings_make(struct rings *rings, const char *name, unsigned n, uint64_t ring_size)
{
	int wake[2];
	*rings = RINGS_NONE;
	if (!share_memory(rings, name, n, ring_size) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wake) < 0)
		return false;
	rings->wake = wake[0];
	rings->woken = wake[1];
	return true;
}

bool rings_reserve(const struct rings *rings, unsigned vcpu)
{
	errno = posix_fallocate(rings->memfd, (off_t)(rings->offset + vcpu * rings->ring_size),
				(off_t)rings->ring_size);
	return errno == 0;
}

void *rings_data(const struct rings *rings, unsigned vcpu)
{
	return (unsigned char *)rings->shared + rings->offset + vcpu * rings->ring_size;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void rings_free(struct rings *rings)
{
	if (rings->shared)
		munmap(rings->shared, rings->size);
	close_fd(rings->memfd);
	close_fd(rings->wake);
	close_fd(rings->woken);
}
