/* SPDX-License-Identifier: MIT */
/*
 * Tells the symbolizer of kernel code. The kernel's own code stays where it is. Modules and BPF
 * programs come and go, and others take their place.
 */
#include "guest/linux/kernel_code.h"
#include "guest/linux/bpf.h"
#include "guest/linux/module.h"
#include "guest/linux/trampoline.h"

void vms_linux_map_image(struct vms_linux *guest)
{
	const struct vms_mapping image = {
		.start = guest->image,
		.end = guest->image_end,
		.offset = guest->image,
		.symbols = guest->symbols,
		.kind = VMS_MAPPING_KERNEL,
	};
	vms_symbolizer_map(guest->symbolizer, VMS_KERNEL_SPACE, &image);
}

bool vms_linux_refresh_code(void *system, GError **error)
{
	struct vms_linux *guest = system;
	g_autoptr(GArray) loaded = g_array_new(FALSE, FALSE, sizeof(struct vms_mapping));
	vms_linux_bpf_refresh(guest);
	bool read = vms_linux_modules_refresh(guest, error);
	g_mutex_lock(&guest->lock);
	vms_linux_modules_list_parts(guest, loaded);
	vms_linux_bpf_list_programs(guest, loaded);
	vms_symbolizer_load(guest->symbolizer, (const struct vms_mapping *)(void *)loaded->data,
			    loaded->len);
	g_mutex_unlock(&guest->lock);
	return read;
}

/* True if code at `va` was loaded, and is no part of the kernel's image. */
static bool is_loaded_code(const struct vms_linux *guest, uint64_t va)
{
	return (va < guest->image || va >= guest->image_end) && !vms_linux_in_trampoline(guest, va);
}

bool vms_linux_code_changed(const void *system, struct vms_memory *memory, uint64_t va)
{
	const struct vms_linux *guest = system;
	return is_loaded_code(guest, va) &&
	       (vms_linux_modules_changed(guest, memory) ||
		(guest->bpf && vms_stamp_is_old(&guest->bpf_stamp, memory)));
}
