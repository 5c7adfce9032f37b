/* SPDX-License-Identifier: MIT */
/* The inside of a guest, shared by the files of src/guest/. */
#pragma once

#include <vmscope/guest.h>

struct vms_linux;

/* A symbol file that was added. */
struct vms_guest_symbols {
	struct vms_symbol_file *file;
	struct vms_symbol_table *table;
	uint64_t base;	/* address of the file's begin */
	bool is_kernel; /* it is the guest kernel's own */
	bool is_placed; /* at an address that was given */
};

struct vms_guest {
	gatomicrefcount refs;
	struct vms_machine *machine;
	enum vms_guest_kind kind;
	struct vms_guest_info info; /* strings owned by `linux_guest` */
	char *why;
	GArray *symbol_files;		  /* struct vms_guest_symbols, in the order of adding */
	struct vms_linux *linux_guest;	  /* NULL unless the kind is LINUX */
	uint64_t looked_ns, look_took_ns; /* when it was last looked for, and for how long */
	uint64_t resets;		  /* of the machine, when it was looked for, or told of */
};
