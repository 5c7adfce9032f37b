/* SPDX-License-Identifier: MIT */
/*
 * The process that opens files for foreign_file.c. It serves one request after the other, and ends
 * when the socket does. It is a side process (side_process.h): it takes no lock and allocates
 * nothing.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define VMS_OPENER_BLOCK (64u << 10) /* bytes that one answer has at most */
#define VMS_OPENER_SLOTS 256	     /* files that stay with the process */
#define VMS_OPENER_NONE	 UINT32_MAX

enum vms_opener_kind { VMS_OPENER_OPEN, VMS_OPENER_READ, VMS_OPENER_CLOSE };

/* One packet. */
struct vms_opener_request {
	uint64_t number; /* the answer has the same */
	enum vms_opener_kind kind;
	uint32_t slot; /* to read, to close */
	uint64_t offset;
	uint64_t device, inode; /* see struct vms_foreign_name */
	bool has_process;	/* `root` is that of a process, which may have ended */
	char mapping[96];	/* a link of map_files; "": none */
	char root[PATH_MAX];
	char path[PATH_MAX];
};

/* One packet, with a descriptor if the file does not stay; `size` bytes follow. */
struct vms_opener_answer {
	uint64_t number;
	int error;     /* of errno(3); 0: done */
	uint32_t slot; /* of a file that stays, or NONE */
	uint32_t size; /* of what was read; less than a block at the end of the file */
	struct stat status;
};

struct vms_opener {
	int socket;
	int slots[VMS_OPENER_SLOTS]; /* descriptors; -1: free */
	struct vms_opener_request request;
	uint8_t bytes[VMS_OPENER_BLOCK];
};

/* What the process does. `data`: struct vms_opener. */
void vms_opener_live(void *data);
