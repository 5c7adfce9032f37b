/* SPDX-License-Identifier: MIT */
/* Reads members of the kernel's structures, by their BTF. */
#pragma once

#include "guest/linux/btf.h"
#include <vmscope/memory.h>

/* A member to look for, and where to write its offset and size. */
struct vms_wanted_member {
	const char *type, *path;
	size_t at;     /* offset of a struct vms_btf_member in the caller's structure */
	bool optional; /* some kernels do not have it */
};

/*
 * Looks for `n` members, and fills their struct vms_btf_member in the structure `to`. An optional
 * member that is missing is not there. Logs a warning and returns false if another one is missing.
 */
bool vms_members_find(const struct vms_btf *btf, const struct vms_wanted_member *wanted, size_t n,
		      void *to);

/* False for an optional member that the kernel does not have. */
static inline bool vms_member_there(const struct vms_btf_member *member)
{
	return member->is_there;
}

/* Reads an integer, pointer or bit field of the structure at `va`, and extends it with zeros. */
bool vms_member_read(struct vms_memory *memory, uint64_t va, const struct vms_btf_member *member,
		     uint64_t *ret);
/* As vms_member_read, from a structure that was read before. */
bool vms_member_get(struct vms_bytes object, const struct vms_btf_member *member, uint64_t *ret);
/*
 * Copies a string from a char array of a structure that was read before, and cleans it. `buf` has
 * `size` bytes. All of them are written, NUL and zeros included.
 */
bool vms_member_get_string(struct vms_bytes object, const struct vms_btf_member *member, char *buf,
			   size_t size);
/* As vms_member_get_string, from the structure at `va`. */
bool vms_member_read_string(struct vms_memory *memory, uint64_t va,
			    const struct vms_btf_member *member, char *buf, size_t size);
