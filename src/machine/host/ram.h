/* SPDX-License-Identifier: MIT */
/*
 * A guest's RAM, read from the address space of the process that runs the guest. Neither the guest
 * nor the process takes part.
 *
 * Memory that the process has mapped shared from a file (a memfd, shared memory, huge pages) is
 * read through the file. To read it through the mapping would allocate pages that nobody has
 * written to. /proc/PID/pagemap (proc_pid_pagemap(5)) and the file's holes tell where nothing was
 * ever written.
 *
 * If the process has a userfaultfd(2), pages that are not present come from elsewhere when they are
 * first used, as in a migration that fetches them from the source. process_vm_readv(2) would wait
 * for them. So all is read by /proc/PID/mem, where such a page is an error at once.
 *
 * Nothing changes after vms_ram_open: any number of threads may call the functions that read.
 */
#pragma once

#include "machine/host/identity.h"
#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <vmscope/machine.h>

enum vms_ram_kind {
	VMS_RAM_OPAQUE,	   /* only the address is known */
	VMS_RAM_ANONYMOUS, /* private; a page that is not present is all zeros */
	VMS_RAM_FILE,	   /* shared; the file's content is the memory */
	VMS_RAM_COPY,	   /* private; a page that is not present is the file's */
};

/* A file that memory is mapped from. It was opened once more, for reading. */
struct vms_ram_file {
	uint64_t device, inode;
	int fd;		  /* -1: it cannot be opened */
	bool knows_holes; /* SEEK_DATA tells the truth */
};

/* A part of a place that is mapped in one way. */
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
	/*
	 * /proc/PID/mem, or -1. It stays that of this process and its program, even if its pid is
	 * used again, and a small read takes less time than by process_vm_readv.
	 */
	int mem;
	bool is_fetched; /* the process has a userfaultfd */
};

/* Where another process reads the same bytes from. */
struct vms_ram_source {
	uint64_t hva; /* in the process; 0: there is no such place */
	int fd;	      /* of the file to read instead, or -1 */
	uint64_t file_offset;
};

/*
 * Finds out how the places, which are sorted and do not overlap, are mapped in the process. A range
 * that is not mapped there, or that this user may not see, gets no part. `process` must live as
 * long as `ram`. The caller closes `ram` in any case.
 */
void vms_ram_open(struct vms_ram *ram, const struct vms_host_identity *process,
		  const struct vms_ram_place *places, size_t n_places);
/* May be called on a zeroed structure that was never opened. */
void vms_ram_close(struct vms_ram *ram);

/* True if all bytes of the range are in parts. */
bool vms_ram_covers(const struct vms_ram *ram, uint64_t pa, size_t size);

/*
 * Reads memory. False if any byte is outside of the parts or may not be read, or if the process has
 * ended: another one may have its pid. Memory in a file can be read even then.
 */
bool vms_ram_read(const struct vms_ram *ram, uint64_t pa, void *buf, size_t size);

/* The address of [pa, pa + size) in the process; 0 if it is not there, or not contiguous. */
uint64_t vms_ram_address(const struct vms_ram *ram, uint64_t pa, size_t size);

/*
 * Finds where else [pa, pa + size) can be read. That is nowhere if it is not contiguous, or the way
 * of reading it differs from page to page.
 */
void vms_ram_locate(const struct vms_ram *ram, uint64_t pa, size_t size,
		    struct vms_ram_source *ret);
/* Lists the descriptors that vms_ram_locate may give, as int. */
GArray *vms_ram_files(const struct vms_ram *ram);

/*
 * Reads several parts by one system call, which takes little longer than one vms_ram_read. Returns
 * how many it has read, from the first on, at most VMS_RAM_READ_PARTS. It ends before a part that
 * is not anonymous memory, or cannot be read.
 */
#define VMS_RAM_READ_PARTS 512
size_t vms_ram_read_parts(const struct vms_ram *ram, const struct vms_phys_part *parts, size_t n);

/*
 * Finds the first part [*begin, *stop) of [pa, end) that may hold anything but zeros; *begin is
 * `end` if there is none. Memory that was never written to, or was given back since, is left out if
 * it has 128 KiB or more, and may be left out if it has less. Zeros that somebody has written are
 * not left out. Bytes outside of the parts of `ram` may hold anything. It touches no page, and
 * takes about 10 us per MiB.
 */
void vms_ram_next_data(const struct vms_ram *ram, uint64_t pa, uint64_t end, uint64_t *begin,
		       uint64_t *stop);
