/* SPDX-License-Identifier: MIT */
/*
 * A guest's RAM where it lies in the address space of the process that runs the
 * guest, read from there without the guest's or the process's doing.
 *
 * What the process has mapped shared from a file (a memfd, shared memory, huge
 * pages) is read through the file: reading a page that nobody has written to
 * through the mapping would allocate it. Where nothing was ever written is known
 * from /proc/PID/pagemap (proc_pid_pagemap(5)) and from the file's holes.
 *
 * Nothing changes after vms_ram_open, so all else may be called from any number of threads.
 */
#pragma once

#include "machine/host/identity.h"
#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <vmscope/machine.h>

/* A range of guest-physical memory and its place in the process. */
struct vms_ram_place {
	uint64_t pa, size, hva; /* bytes; size is not 0 */
};

enum vms_ram_kind {
	VMS_RAM_OPAQUE,	   /* nothing is known but the place */
	VMS_RAM_ANONYMOUS, /* private: a page that is not there is all zeros */
	VMS_RAM_FILE,	   /* shared: what the file has is the memory */
	VMS_RAM_COPY,	   /* private: a page that is not there is the file's */
};

/* A file that memory is mapped from, opened anew. */
struct vms_ram_file {
	uint64_t device, inode;
	int fd;		  /* -1 when it cannot be opened */
	bool knows_holes; /* SEEK_DATA can be relied on */
};

/* A part of a place that is mapped alike. */
struct vms_ram_part {
	uint64_t pa, size;
	uint64_t hva;
	enum vms_ram_kind kind;
	const struct vms_ram_file *file; /* of FILE and COPY */
	uint64_t file_offset;
};

struct vms_ram {
	const struct vms_host_identity *process; /* borrowed */
	GArray *parts;	  /* struct vms_ram_part, sorted by pa, not overlapping; NULL: none */
	GPtrArray *files; /* struct vms_ram_file, owned */
	int pagemap;	  /* of the process, or -1 */
};

/*
 * Finds out how the places, sorted and not overlapping, are mapped in the process. What is not
 * mapped there, or may not be seen, becomes no part. `process` must live as long as this. To be
 * closed in any case.
 */
void vms_ram_open(struct vms_ram *ram, const struct vms_host_identity *process,
		  const struct vms_ram_place *places, size_t n_places);
/* May be called on a zeroed structure that was never opened. */
void vms_ram_close(struct vms_ram *ram);

/* Are all bytes of the range in parts? */
bool vms_ram_covers(const struct vms_ram *ram, uint64_t pa, size_t size);

/*
 * False when any byte is outside of the parts, or the process does not let it be read, or has
 * ended: another may have its pid. What lies in a file can be read even then.
 */
bool vms_ram_read(const struct vms_ram *ram, uint64_t pa, void *buf, size_t size);

/* Where [pa, pa + size) is in the process; 0: it is not, or not in one piece. */
uint64_t vms_ram_address(const struct vms_ram *ram, uint64_t pa, size_t size);

/*
 * Reads by a single system call, which takes little longer than one of vms_ram_read: how many, from
 * the first on, up to one that is not anonymous memory, or cannot be read. At most
 * VMS_RAM_READ_PARTS.
 */
#define VMS_RAM_READ_PARTS 64
size_t vms_ram_read_parts(const struct vms_ram *ram, const struct vms_phys_part *parts, size_t n);

/*
 * The first part [*begin, *stop) of [pa, end) that may hold anything but zeros; *begin == end where
 * there is none. What was never written to, or was given back since, is left out where it is
 * 128 KiB and more, and may be where it is less; pages full of zeros that somebody wrote are not.
 * All bytes outside of the parts may hold anything. Touches no page; looks no farther than `end`,
 * which takes about 10 us per MiB.
 */
void vms_ram_next_data(const struct vms_ram *ram, uint64_t pa, uint64_t end, uint64_t *begin,
		       uint64_t *stop);
