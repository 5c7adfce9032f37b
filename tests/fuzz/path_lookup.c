/* SPDX-License-Identifier: MIT */
/*
 * Paths in a kernel's memory of any content (words.h): directories and mounts in circles, names
 * anywhere; and the maps of code that lie at such paths.
 *
 * Covers: src/guest/linux/path_lookup.c.
 */
#include "guest/linux/path_lookup.h"
#include "words.h"

enum {
	RINGS = 1,	/* directories as before 6.8 */
	NO_MEMBERS = 2, /* something is missing */
};

#define TASK (WORDS_RAM + 0x100)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct encoder_member path[] = { { "mnt", 0, 8 }, { "dentry", 8, 8 }, { 0 } };
static const struct encoder_member name[] = { { "len", 0, 4 }, { "name", 8, 8 }, { 0 } };

static const struct words_structure structures[] = {
	{ "task_struct",
	  { 0, 0 },
	  { { "fs", 0, 8 }, { "group_leader", 8, 8 }, { "thread_pid", 16, 8 } } },
	{ "fs_struct", { 0, 0 }, { { "root", 0, 16, path } } },
	{ "dentry",
	  { 0, RINGS },
	  { { "d_name", 0, 16, name },
	    { "d_inode", 16, 8 },
	    { "d_children", 24, 8 },
	    { "d_sib", 32, 16 } } },
	{ "dentry",
	  { RINGS, 0 },
	  { { "d_name", 0, 16, name },
	    { "d_inode", 16, 8 },
	    { "d_subdirs", 24, 16 },
	    { "d_child", 40, 16 } } },
	{ "vfsmount", { 0, NO_MEMBERS }, { { "mnt_root", 0, 8 } } },
	{ "mount",
	  { 0, 0 },
	  { { "mnt", 0, 16 },
	    { "mnt_mounts", 16, 16 },
	    { "mnt_child", 32, 16 },
	    { "mnt_mountpoint", 48, 8 } } },
	{ "pid", { 0, 0 }, { { "level", 0, 4 }, { "numbers", 8, 16 } } },
	{ "upid", { 0, 0 }, { { "nr", 0, 4 }, { "ns", 8, 8 } } },
	{ 0 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct words_symbol symbols[] = { { 0 } };
	static const struct words_kernel kernel = { &vms_arch_x86_64, symbols, structures, { 0 } };
	struct vms_linux *guest = words_linux_new(&kernel, data, size);
	struct vms_path_lookup *lookup = vms_path_lookup_new(guest);
	uint64_t inode;
	uint32_t pid;
	if (lookup) {
		vms_path_lookup_inode(lookup, guest->memory, TASK, "/", &inode);
		vms_path_lookup_inode(lookup, guest->memory, TASK, "/a/\x01/a", &inode);
		vms_path_lookup_own_pid(lookup, guest->memory, TASK, &pid);
	}
	vms_path_lookup_free(lookup);
	words_linux_free(guest);
	return 0;
}
