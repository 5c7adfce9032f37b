/* SPDX-License-Identifier: MIT */
#include "machine/qemu/ram.h"

#include <glib.h>
#include <sys/uio.h>

/* The part that holds `pa`, or NULL. */
static const struct vms_ram_part *find(const struct vms_ram *ram, uint64_t pa)
{
	size_t low = 0, high = ram->n_parts;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct vms_ram_part *part = &ram->parts[middle];
		if (pa < part->pa)
			high = middle;
		else if (pa - part->pa >= part->size)
			low = middle + 1;
		else
			return part;
	}
	return NULL;
}

bool vms_ram_read(const struct vms_ram *ram, uint64_t pa, void *buf, size_t size)
{
	while (size) {
		const struct vms_ram_part *part = find(ram, pa);
		if (!part)
			return false;
		uint64_t offset = pa - part->pa;
		size_t n = (size_t)MIN(size, part->size - offset);
		struct iovec local = { .iov_base = buf, .iov_len = n };
		struct iovec remote = { .iov_base = (void *)(uintptr_t)(part->hva + offset),
					.iov_len = n };
		if (process_vm_readv(ram->pid, &local, 1, &remote, 1, 0) != (ssize_t)n)
			return false;
		buf = (uint8_t *)buf + n;
		pa += n;
		size -= n;
	}
	return true;
}
