/* SPDX-License-Identifier: MIT */
/*
 * The page cache: what is in memory of the files of a guest. It is reached from a file's address
 * space (struct address_space), over a tree of pages (struct xarray), to physical memory.
 *
 * It is read without a hold, while the guest runs: a page counts only if it belongs to the file
 * after its bytes were read. The kernel drops pages at any moment.
 *
 * Threads: any thread may use it. It does not take the guest's lock, because reading a file takes
 * long and vCPUs are held under that lock.
 */
#pragma once

#include "guest/linux/linux.h"

struct vms_page_cache;

/* Finds the offsets, and where the kernel keeps its pages. NULL if they are not understood. */
struct vms_page_cache *vms_page_cache_new(const struct vms_linux *guest);
struct vms_page_cache *vms_page_cache_ref(struct vms_page_cache *cache);
void vms_page_cache_unref(struct vms_page_cache *cache);
/* Returns the pid of the process that runs the machine; 0 if it is not known. */
pid_t vms_page_cache_process(const struct vms_page_cache *cache);

/* A file's contents in the guest: who owns its pages. */
struct vms_cached_file {
	uint64_t inode;	   /* address of its struct inode */
	uint64_t mapping;  /* address of its struct address_space */
	uint64_t number;   /* of the inode in its file system */
	uint64_t device;   /* of that file system */
	uint64_t size;	   /* bytes; the kernel may change it */
	bool has_no_link;  /* the file was deleted */
	bool is_on_disk;   /* the file system is on a block device */
	uint8_t uuid[16];  /* of the file system; zeros if it has none */
	bool has_change;   /* the next is known */
	uint32_t change_s; /* when the inode was changed last, in seconds since 1970, modulo 2^32 */
};

/*
 * Reads where the contents of an open file (struct file at `file`) are. Uses `memory`, of a held
 * guest or not: two reads. All else stays 0.
 */
bool vms_page_cache_locate(const struct vms_page_cache *cache, struct vms_memory *memory,
			   uint64_t file, struct vms_cached_file *ret);
/*
 * Reads all about the inode whose address and mapping are in `*file`. False if there is no such
 * inode any more, as far as it can tell.
 */
bool vms_page_cache_identify(struct vms_page_cache *cache, struct vms_cached_file *file);
/* Finds the contents of an inode, for a path that was walked: fills all of `*ret`. */
bool vms_page_cache_of_inode(struct vms_page_cache *cache, uint64_t inode,
			     struct vms_cached_file *ret);

/*
 * Reads bytes of a file. False if any page of them is not in memory, or if the file is not the same
 * any more.
 */
bool vms_page_cache_read(struct vms_page_cache *cache, const struct vms_cached_file *file,
			 uint64_t offset, void *buf, size_t size);
/*
 * The same, and false if a page was written to and is not on its disk yet, as far as the kernel
 * knows.
 */
bool vms_page_cache_read_clean(struct vms_page_cache *cache, const struct vms_cached_file *file,
			       uint64_t offset, void *buf, size_t size);
