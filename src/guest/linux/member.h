/* SPDX-License-Identifier: MIT */
/* Reading members of the kernel's structures, by what BTF says of them. */
#pragma once

#include "guest/linux/btf.h"
#include <vmscope/memory.h>

/* A member that is looked for, and where in the caller's own structure the answer goes. */
struct vms_wanted_member {
	const char *type, *path;
	size_t at;     /* offsetof a struct vms_btf_member */
	bool optional; /* not in all kernels, or in none of this configuration */
};

/*
 * Looks for `n` members and fills the struct vms_btf_member that they name in `to`; an optional
 * one that is not there gets size 0. False, with a line in the log, when another one is missing.
 */
bool vms_members_find(const struct vms_btf *btf, const struct vms_wanted_member *wanted, size_t n,
		      void *to);

/* Is it there? Optional members may not be. */
static inline bool vms_member_there(const struct vms_btf_member *member)
{
	return member->size != 0;
}

/* The integer, pointer or bit field `member` of the structure at `va`, zero-extended. */
bool vms_member_read(struct vms_memory *memory, uint64_t va, const struct vms_btf_member *member,
		     uint64_t *ret);
/* The same out of a structure that was read before. */
bool vms_member_get(struct vms_bytes object, const struct vms_btf_member *member, uint64_t *ret);
/* A string in a char array of a structure that was read before: at most `size` - 1 bytes. */
bool vms_member_get_string(struct vms_bytes object, const struct vms_btf_member *member, char *buf,
			   size_t size);
/* The same, read; `size` bytes of `buf` are written, NUL and zeros included. */
bool vms_member_read_string(struct vms_memory *memory, uint64_t va,
			    const struct vms_btf_member *member, char *buf, size_t size);
