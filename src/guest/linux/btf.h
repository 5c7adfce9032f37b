/* SPDX-License-Identifier: MIT */
/* BTF: the kernel's own type information (Documentation/bpf/btf.rst). */
#pragma once

#include "base/bytes.h"
#include <vmscope/error.h>

struct vms_btf;

/* Copies a BTF blob, checks it and indexes it. Errors: MALFORMED. */
struct vms_btf *vms_btf_new(struct vms_bytes blob, GError **error);
void vms_btf_free(struct vms_btf *btf);

struct vms_btf_member {
	uint64_t offset;     /* bytes from the begin of the structure */
	unsigned bit_offset; /* of a bit field, from `offset` */
	unsigned bits;	     /* of a bit field, else 0 */
	uint64_t size;	     /* bytes; of an array, those of all elements; 0 of a flexible one */
	bool is_there;	     /* false: the kernel has no such member */
};
/*
 * Finds a member of a structure or union by a path such as "f_path.dentry". A path leads through
 * members that are structures, but not through pointers. Members of anonymous parts count as the
 * structure's own. False if there is no such member.
 */
bool vms_btf_member(const struct vms_btf *btf, const char *type, const char *path,
		    struct vms_btf_member *ret);
/* Gives the size of a structure or union in bytes. */
bool vms_btf_size(const struct vms_btf *btf, const char *type, uint64_t *ret);
/* Gives the value of an enumerator. Its enum does not matter. */
bool vms_btf_enumerator(const struct vms_btf *btf, const char *name, int64_t *ret);
/* Gives the offset of a per-CPU variable in the section of these variables. */
bool vms_btf_percpu(const struct vms_btf *btf, const char *name, uint64_t *ret);
