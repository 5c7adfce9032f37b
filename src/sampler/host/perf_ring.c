/* SPDX-License-Identifier: MIT */
#include "sampler/host/perf_ring.h"
#include "sampler/host/perf_event.h"
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* As many pages as an ordinary user may have by default (kernel.perf_event_mlock_kb). */
#define PAGES_MOST  128
#define PAGES_LEAST 8

bool vms_perf_ring_open(struct vms_perf_ring *ring, int cpu, GError **error)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	*ring = (struct vms_perf_ring) { .fd = vms_perf_open_ring(cpu) };
	if (ring->fd < 0)
		return errno == ENODEV || vms_perf_set_error(errno, "ring", error);
	for (uint64_t pages = PAGES_MOST; pages >= PAGES_LEAST; pages /= 2) {
		ring->size = pages * page;
		ring->base = mmap(NULL, ring->size + page, PROT_READ | PROT_WRITE, MAP_SHARED,
				  ring->fd, 0);
		if (ring->base != MAP_FAILED)
			return true;
	}
	ring->base = NULL;
	const int number = errno;
	vms_perf_ring_close(ring);
	return vms_perf_set_error(number, "buffer of a CPU", error);
}

void vms_perf_ring_close(struct vms_perf_ring *ring)
{
	if (ring->base)
		munmap(ring->base, ring->size + (uint64_t)sysconf(_SC_PAGESIZE));
	if (ring->fd >= 0)
		close(ring->fd);
	ring->base = NULL;
	ring->fd = -1;
}

static void copy_from_ring(const struct vms_perf_ring *ring, uint64_t at, void *ret, uint64_t size)
{
	const uint8_t *data = (const uint8_t *)ring->base + sysconf(_SC_PAGESIZE);
	const uint64_t begin = at % ring->size, first = MIN(size, ring->size - begin);
	memcpy(ret, data + begin, first);
	memcpy((uint8_t *)ret + first, data, size - first);
}

void vms_perf_ring_drain(struct vms_perf_ring *ring,
			 void (*take)(const struct vms_perf_record *record, void *data), void *data)
{
	uint8_t bytes[UINT16_MAX + 1] __attribute__((aligned(8)));
	struct perf_event_mmap_page *control = ring->base;
	if (!control)
		return;
	const uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = control->data_tail;
	while (tail < head) {
		struct perf_event_header header;
		copy_from_ring(ring, tail, &header, sizeof(header));
		if (header.size < sizeof(header))
			break;
		copy_from_ring(ring, tail, bytes, header.size);
		const struct vms_perf_record record = { header.type, header.misc,
							header.size - (uint32_t)sizeof(header),
							bytes + sizeof(header) };
		uint64_t lost;
		if (header.type == PERF_RECORD_LOST && record.size >= 16) {
			memcpy(&lost, record.body + 8, sizeof(lost));
			ring->lost += lost;
		}
		take(&record, data);
		tail += header.size;
		__atomic_store_n(&control->data_tail, tail, __ATOMIC_RELEASE);
	}
}
