/* SPDX-License-Identifier: MIT */
#include "guest/linux/vmlinux.h"

/* True if file and guest agree about the end of the kernel's code, as far as both tell it. */
static bool is_same_build(const struct vms_linux *guest, const struct vms_symbol_file *file,
			  uint64_t bias)
{
	uint64_t in_file, in_guest;
	return !vms_linux_symbol(guest, "_etext", &in_guest) ||
	       !vms_symbol_file_lookup(file, "_etext", &in_file) || in_file + bias == in_guest;
}

bool vms_linux_is_own_file(const void *system, const struct vms_symbol_file *file, uint64_t *bias,
			   bool *is_same)
{
	const struct vms_linux *guest = system;
	uint64_t text;
	if (!vms_symbol_file_lookup(file, "_text", &text) &&
	    !vms_symbol_file_lookup(file, "_stext", &text))
		return false;
	*bias = guest->image - text;
	*is_same = is_same_build(guest, file, *bias);
	return true;
}
