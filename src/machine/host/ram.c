/* SPDX-License-Identifier: MIT */
#include "machine/host/ram.h"
#include "base/search.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

/* How many bytes to read by /proc/PID/mem at most. The kernel copies those twice. */
#define SMALL_READ 4096
/* How many bytes to read at once. The kernel reads at most 2 GiB. */
#define READ_MAX (UINT64_C(1) << 30)
/* The shortest hole that ends a stretch of data, in bytes. */
#define HOLE_MIN (UINT64_C(64) << 10)

/* Bits of an entry of /proc/PID/pagemap: the page is in memory, or in the swap. */
#define PAGEMAP_PRESENT (UINT64_C(3) << 62)
/* How many entries to read at first, and at most: few if data and holes take turns. */
#define PAGEMAP_FIRST 64
#define PAGEMAP_MOST  4096

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static const struct vms_ram_part *get_part(const struct vms_ram *ram, size_t index)
{
	return &g_array_index(ram->parts, struct vms_ram_part, index);
}

static size_t n_parts(const struct vms_ram *ram)
{
	return ram->parts ? ram->parts->len : 0;
}

/* The index of the first part that does not end before or at `pa`. */
static size_t find_index(const struct vms_ram *ram, uint64_t pa)
{
	return VMS_SEARCH(n_parts(ram), i,
			  pa >= get_part(ram, i)->pa &&
				  pa - get_part(ram, i)->pa >= get_part(ram, i)->size);
}

/* The part that holds `pa`, or NULL. */
static const struct vms_ram_part *find_part(const struct vms_ram *ram, uint64_t pa)
{
	size_t index = find_index(ram, pa);
	return index < n_parts(ram) && pa >= get_part(ram, index)->pa ? get_part(ram, index) : NULL;
}

bool vms_ram_covers(const struct vms_ram *ram, uint64_t pa, size_t size)
{
	const struct vms_ram_part *part = NULL;
	while (size && (part = find_part(ram, pa))) {
		uint64_t n = MIN(size, part->size - (pa - part->pa));
		pa += n;
		size -= n;
	}
	return size == 0;
}

uint64_t vms_ram_address(const struct vms_ram *ram, uint64_t pa, size_t size)
{
	const struct vms_ram_part *part = find_part(ram, pa);
	return part && part->size - (pa - part->pa) >= size ? part->hva + (pa - part->pa) : 0;
}

void vms_ram_locate(const struct vms_ram *ram, uint64_t pa, size_t size, struct vms_ram_source *ret)
{
	const struct vms_ram_part *part = find_part(ram, pa);
	*ret = (struct vms_ram_source) { vms_ram_address(ram, pa, size), -1, 0 };
	if (ret->hva && part->kind == VMS_RAM_FILE) {
		ret->fd = part->file->fd;
		ret->file_offset = part->file_offset + (pa - part->pa);
	} else if (ret->hva && (part->kind == VMS_RAM_COPY || ram->is_fetched)) {
		ret->hva = 0;
	}
}

GArray *vms_ram_files(const struct vms_ram *ram)
{
	GArray *fds = g_array_new(FALSE, FALSE, sizeof(int));
	for (guint i = 0; ram->files && i < ram->files->len; i++) {
		const struct vms_ram_file *file = ram->files->pdata[i];
		if (file->fd >= 0)
			g_array_append_val(fds, file->fd);
	}
	return fds;
}

/* ---- reading ---------------------------------------------------------- */

/* True if the process executes another program: the memory that `mem` leads to has an end then. */
static bool has_other_memory(const struct vms_ram *ram, const struct iovec *remote)
{
	uint8_t byte;
	return ram->mem >= 0 && pread(ram->mem, &byte, 1, (off_t)(uintptr_t)remote->iov_base) == 0;
}

/*
 * Reads from the process. Fails if it has ended, or executes another program: that, or another
 * process with its pid, may have been read.
 */
static ssize_t read_alive(const struct vms_ram *ram, const struct iovec *local,
			  const struct iovec *remote, size_t n)
{
	ssize_t bytes = process_vm_readv(ram->process->pid, local, n, remote, n, 0);
	return vms_host_identity_is_alive(ram->process) && !has_other_memory(ram, remote) ? bytes
											  : -1;
}

static bool read_process(const struct vms_ram *ram, const struct vms_ram_part *part,
			 uint64_t offset, void *buf, size_t size)
{
	if (ram->is_fetched || (ram->mem >= 0 && size <= SMALL_READ))
		return pread(ram->mem, buf, size, (off_t)(part->hva + offset)) == (ssize_t)size;
	struct iovec local = { .iov_base = buf, .iov_len = size };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)(part->hva + offset),
				.iov_len = size };
	return read_alive(ram, &local, &remote, 1) == (ssize_t)size;
}

static bool read_file(const struct vms_ram_part *part, uint64_t offset, void *buf, size_t size)
{
	return pread(part->file->fd, buf, size, (off_t)(part->file_offset + offset)) ==
	       (ssize_t)size;
}

/* Reads the entries of the page that holds `va` and of the pages after it. */
static bool read_pagemap(const struct vms_ram *ram, uint64_t va, uint64_t *entries, size_t n)
{
	size_t size = n * sizeof(*entries);
	off_t offset = (off_t)(va / page_size() * sizeof(*entries));
	return pread(ram->pagemap, entries, size, offset) == (ssize_t)size;
}

/* Reads a private mapping: pages that the process has copied from it, all others from the file. */
static bool read_copy(const struct vms_ram *ram, const struct vms_ram_part *part, uint64_t offset,
		      void *buf, size_t size)
{
	uint64_t page = page_size();
	while (size) {
		uint64_t entries[PAGEMAP_FIRST], in_page = (part->hva + offset) % page;
		size_t n = MIN(PAGEMAP_FIRST, (in_page + size + page - 1) / page), alike = 1;
		if (!read_pagemap(ram, part->hva + offset, entries, n))
			return false;
		bool own = entries[0] & PAGEMAP_PRESENT;
		while (alike < n && own == !!(entries[alike] & PAGEMAP_PRESENT))
			alike++;
		size_t bytes = MIN(size, alike * page - in_page);
		if (!(own ? read_process(ram, part, offset, buf, bytes)
			  : read_file(part, offset, buf, bytes)))
			return false;
		buf = (uint8_t *)buf + bytes;
		offset += bytes;
		size -= bytes;
	}
	return true;
}

static bool read_part(const struct vms_ram *ram, const struct vms_ram_part *part, uint64_t offset,
		      void *buf, size_t size)
{
	if (part->kind == VMS_RAM_FILE)
		return read_file(part, offset, buf, size);
	if (part->kind == VMS_RAM_COPY)
		return read_copy(ram, part, offset, buf, size);
	return read_process(ram, part, offset, buf, size);
}

bool vms_ram_read(const struct vms_ram *ram, uint64_t pa, void *buf, size_t size)
{
	while (size) {
		const struct vms_ram_part *part = find_part(ram, pa);
		if (!part)
			return false;
		uint64_t offset = pa - part->pa;
		size_t n = (size_t)MIN(MIN(size, READ_MAX), part->size - offset);
		if (!read_part(ram, part, offset, buf, n))
			return false;
		buf = (uint8_t *)buf + n;
		pa += n;
		size -= n;
	}
	return true;
}

static bool find_in_process(const struct vms_ram *ram, const struct vms_phys_part *wanted,
			    struct iovec *ret)
{
	const struct vms_ram_part *part = find_part(ram, wanted->pa);
	uint64_t address = vms_ram_address(ram, wanted->pa, wanted->size);
	if (!address || part->kind != VMS_RAM_ANONYMOUS)
		return false;
	*ret = (struct iovec) { .iov_base = (void *)(uintptr_t)address, .iov_len = wanted->size };
	return true;
}

size_t vms_ram_read_parts(const struct vms_ram *ram, const struct vms_phys_part *parts, size_t n)
{
	struct iovec local[VMS_RAM_READ_PARTS], remote[VMS_RAM_READ_PARTS];
	size_t found = 0, read = 0;
	while (found < MIN(n, VMS_RAM_READ_PARTS) &&
	       find_in_process(ram, &parts[found], &remote[found])) {
		local[found] = (struct iovec) { parts[found].buf, parts[found].size };
		found++;
	}
	ssize_t bytes = found ? read_alive(ram, local, remote, found) : 0;
	while (read < found && bytes >= (ssize_t)parts[read].size)
		bytes -= (ssize_t)parts[read++].size;
	return read;
}

/* ---- holes ------------------------------------------------------------- */

/* A range [begin, stop) of guest-physical addresses. */
struct stretch {
	uint64_t begin, stop;
};

/*
 * The first stretch of [from, end) of a part with pages that the process has; [end, end) if there
 * is none. Pages of which nothing is known count as pages that it has.
 */
static struct stretch next_present(const struct vms_ram *ram, const struct vms_ram_part *part,
				   uint64_t from, uint64_t end)
{
	uint64_t entries[PAGEMAP_MOST], page = page_size(), to_va = part->hva - part->pa;
	struct stretch found = { end, end };
	size_t n = PAGEMAP_FIRST;
	for (uint64_t pa = from - (from + to_va) % page; pa < end; n = MIN(2 * n, PAGEMAP_MOST)) {
		n = MIN(n, (end - pa + page - 1) / page);
		if (!read_pagemap(ram, pa + to_va, entries, n))
			return (struct stretch) { MIN(found.begin, MAX(pa, from)), end };
		for (size_t i = 0; i < n; i++, pa += page) {
			if (entries[i] & PAGEMAP_PRESENT) {
				found.begin = MIN(found.begin, MAX(pa, from));
				found.stop = MIN(pa + page, end);
			} else if (found.begin < end && pa + page - found.stop >= HOLE_MIN) {
				return found;
			}
		}
	}
	return found;
}

/* Where data begins in a file, at or after `from`; G_MAXUINT64 if there is no more. */
static uint64_t seek_data(const struct vms_ram_file *file, uint64_t from)
{
	off_t data = lseek(file->fd, (off_t)from, SEEK_DATA);
	if (data >= 0)
		return (uint64_t)data;
	return errno == ENXIO ? G_MAXUINT64 : from;
}

/*
 * The first stretch of [from, end) with data in the part's file. It does not use SEEK_HOLE: a
 * caller that takes a long stretch in small steps would make the kernel search for its end at every
 * step.
 */
static struct stretch next_written(const struct vms_ram_part *part, uint64_t from, uint64_t end)
{
	uint64_t to_file = part->file_offset - part->pa, file_end = end + to_file;
	if (!part->file->knows_holes)
		return (struct stretch) { from, end };
	uint64_t data = seek_data(part->file, from + to_file);
	if (data >= file_end)
		return (struct stretch) { end, end };
	struct stretch found = { data - to_file, end };
	while (file_end - data > HOLE_MIN) {
		uint64_t next = seek_data(part->file, data + HOLE_MIN);
		if (next >= file_end || next - data >= 2 * HOLE_MIN) {
			found.stop = data + HOLE_MIN - to_file;
			break;
		}
		data = next;
	}
	return found;
}

static struct stretch next_in_part(const struct vms_ram *ram, const struct vms_ram_part *part,
				   uint64_t from, uint64_t end)
{
	struct stretch present = { end, end }, written = { end, end };
	if (part->kind == VMS_RAM_OPAQUE)
		return (struct stretch) { from, end };
	if (part->kind != VMS_RAM_FILE)
		present = next_present(ram, part, from, end);
	if (part->kind != VMS_RAM_ANONYMOUS)
		written = next_written(part, from, end);
	return present.begin < written.begin ? present : written;
}

void vms_ram_next_data(const struct vms_ram *ram, uint64_t pa, uint64_t end, uint64_t *begin,
		       uint64_t *stop)
{
	struct stretch found = { end, end };
	for (size_t i = find_index(ram, pa); pa < end && found.begin == end; i++) {
		const struct vms_ram_part *part = i < n_parts(ram) ? get_part(ram, i) : NULL;
		uint64_t part_pa = part ? MIN(part->pa, end) : end;
		uint64_t part_end = part && end - part_pa > part->size ? part_pa + part->size : end;
		if (pa < part_pa)
			found = (struct stretch) { pa, part_pa };
		else
			found = next_in_part(ram, part, pa, part_end);
		if (found.begin == part_end)
			found.begin = found.stop = end;
		pa = part_end;
	}
	*begin = found.begin;
	*stop = found.stop;
}
