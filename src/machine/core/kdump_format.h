/* SPDX-License-Identifier: MIT */
/*
 * The kdump-compressed format, which makedumpfile's IMPLEMENTATION and diskdump_mod.h describe.
 * Block 0 is the header. From block 1 on there are the sub-header, notes and VMCOREINFO. Two
 * bitmaps follow, with a bit per page frame: in the first one, the frame is memory; in the second
 * one, the page is in the file. Then there is a descriptor for each page in the file, and then the
 * pages. This is the 64-bit layout with little-endian integers.
 */
#pragma once

#include <glib.h>
#include <stdint.h>

#define VMS_KDUMP_SIGNATURE "KDUMP   "
#define VMS_KDUMP_VERSION   6 /* the newest; the first with 64-bit page frame numbers */
#define VMS_KDUMP_BLOCK_MIN 4096
#define VMS_KDUMP_BLOCK_MAX 65536
/* Our own limit of page frames: 64 TiB in pages of 4 KiB, 2 GiB of bits. */
#define VMS_KDUMP_PFNS_MAX (UINT64_C(1) << 34)

/* Flags of the header's status. A page has only those of compressions; 0: not compressed. */
enum vms_kdump_flags {
	VMS_KDUMP_ZLIB = 0x1,
	VMS_KDUMP_LZO = 0x2,
	VMS_KDUMP_SNAPPY = 0x4,
	VMS_KDUMP_INCOMPLETE = 0x8, /* the writer ran out of space */
	VMS_KDUMP_ZSTD = 0x20,
	VMS_KDUMP_COMPRESSIONS = VMS_KDUMP_ZLIB | VMS_KDUMP_LZO | VMS_KDUMP_SNAPPY | VMS_KDUMP_ZSTD,
};

/* The kernel's struct new_utsname; strings end with a NUL. */
#define VMS_KDUMP_NAME_SIZE 65
struct vms_kdump_utsname {
	char sysname[VMS_KDUMP_NAME_SIZE];
	char nodename[VMS_KDUMP_NAME_SIZE];
	char release[VMS_KDUMP_NAME_SIZE];
	char version[VMS_KDUMP_NAME_SIZE];
	char machine[VMS_KDUMP_NAME_SIZE];
	char domainname[VMS_KDUMP_NAME_SIZE];
};

/* struct disk_dump_header */
struct vms_kdump_header {
	char signature[8];
	uint32_t version;
	struct vms_kdump_utsname utsname;
	uint8_t padding[6];
	uint64_t time_s, time_us; /* when it was written */
	uint32_t status;	  /* enum vms_kdump_flags */
	uint32_t block_size;	  /* bytes of a block, which is a page of the guest */
	uint32_t sub_header_blocks;
	uint32_t bitmap_blocks; /* of both bitmaps */
	uint32_t max_mapnr_32;	/* page frames that the bitmaps describe; before version 6 */
	uint32_t total_ram_blocks, device_blocks, written_blocks, current_cpu;
	uint32_t n_cpus;
};
G_STATIC_ASSERT(sizeof(struct vms_kdump_header) == 464);

/* struct kdump_sub_header. Fields that the file's version does not have are 0. */
struct vms_kdump_sub_header {
	uint64_t phys_base; /* by how much the kernel was moved in physical memory */
	uint32_t dump_level;
	uint32_t split; /* version 2: the file has a part of the pages */
	uint64_t start_pfn_32, end_pfn_32;
	uint64_t vmcoreinfo, vmcoreinfo_size; /* version 3: offset in the file, bytes */
	uint64_t notes, notes_size;	      /* version 4 */
	uint64_t eraseinfo, eraseinfo_size;   /* version 5 */
	uint64_t start_pfn, end_pfn;	      /* version 6 */
	uint64_t max_mapnr;		      /* version 6, instead of the header's */
};
G_STATIC_ASSERT(sizeof(struct vms_kdump_sub_header) == 104);

/* struct page_desc */
struct vms_kdump_page {
	uint64_t offset; /* in the file; 0: the writer did not get that far */
	uint32_t size;	 /* bytes in the file */
	uint32_t flags;	 /* enum vms_kdump_flags: how the page is compressed */
	uint64_t page_flags;
};
G_STATIC_ASSERT(sizeof(struct vms_kdump_page) == 24);
