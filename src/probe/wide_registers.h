/* SPDX-License-Identifier: MIT */
/* The names of wide registers, and the values of those of a vCPU. */
#pragma once

#include "probe/wide.h"
#include <vmscope/arch.h>

enum vms_wide_kind {
	VMS_WIDE_VECTOR,
	VMS_WIDE_FLOAT, /* a number of 80 bits, as x87 has it */
	VMS_WIDE_TABLE, /* the address and the limit of a descriptor table */
};

struct vms_wide_register {
	unsigned number, size; /* `size` in bytes */
	enum vms_wide_kind kind;
};

/* Finds the wide register that is called `name`, in any case. False: there is none. */
bool vms_wide_find(const struct vms_arch *arch, const char *name, struct vms_wide_register *ret);
/*
 * Finds the number of a register that a target description calls `name`. Where a processor has
 * wider vectors, the description has those alone: then the first bytes are the register's.
 */
bool vms_wide_find_described(const struct vms_arch *arch, const char *name, unsigned *number);
/* Calls `each` with the name of every wide register. */
void vms_wide_each_name(const struct vms_arch *arch, void (*each)(const char *name, void *data),
			void *data);

/* The wide registers of a vCPU. */
struct vms_wide_regs {
	uint8_t bytes[VMS_WIDE_MAX][VMS_WIDE_BYTES_MAX]; /* little-endian */
	uint8_t size[VMS_WIDE_MAX];			 /* how many bytes are known; 0: none */
};

/* Copies `size` bytes from `offset` on. False if they are not all known. */
bool vms_wide_get(const struct vms_wide_regs *regs, unsigned number, unsigned offset, void *ret,
		  size_t size);
