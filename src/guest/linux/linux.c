/* SPDX-License-Identifier: MIT */
#include "guest/linux/linux.h"
#include "guest/linux/kernel_image.h"

bool vms_linux_symbol(const struct vms_linux *guest, const char *name, uint64_t *ret)
{
	struct vms_symbol symbol;
	const uint64_t *unlisted = NULL;
	if (vms_symbol_table_lookup(guest->symbols, name, &symbol))
		*ret = symbol.va;
	else if (guest->variables && (unlisted = g_hash_table_lookup(guest->variables, name)))
		*ret = *unlisted;
	else
		return false;
	return true;
}

void vms_linux_note_missing(struct vms_linux *guest, const char *what)
{
	char *before = guest->missing;
	guest->missing = before ? g_strconcat(before, "; ", what, NULL) : g_strdup(what);
	g_free(before);
}

bool vms_linux_read_constant(const struct vms_linux *guest, uint64_t va, void *buf, size_t size)
{
	const struct vms_kernel_image *image = guest->read_image;
	if (!image || va < image->va || !vms_bytes_has(image->bytes, va - image->va, size))
		return vms_memory_read(guest->memory, va, buf, size);
	memcpy(buf, image->bytes.data + (va - image->va), size);
	return true;
}
