/* SPDX-License-Identifier: MIT */
#include "cfg/function_code.h"
#include "base/search.h"
#include <string.h>

#define PART_LIMIT (UINT64_C(1) << 20) /* bytes; the largest functions of kernels have 64 KiB */
#define NO_SYMBOL  (UINT64_C(1) << 16) /* bytes to read if there is no symbol with a size */
#define PAGE	   4096

/* Reads a part up to the first page that cannot be read. */
static void read_part(struct vms_function_code *function, uint64_t va, uint64_t size)
{
	struct vms_code_part *part = &function->parts[function->n_parts++];
	*part = (struct vms_code_part) { .va = va, .size = MIN(size, PART_LIMIT) };
	part->size = MIN(part->size, UINT64_MAX - va);
	part->code = g_malloc(part->size);
	while (part->n_read < part->size) {
		size_t n = MIN(part->size - part->n_read, PAGE - (va + part->n_read) % PAGE);
		if (!vms_memory_read(function->memory, va + part->n_read, part->code + part->n_read,
				     n))
			break;
		part->n_read += n;
	}
	part->special = vms_guest_special_insns(function->guest, function->memory, va, part->size,
						&part->tells_warnings);
}

bool vms_function_code_read(struct vms_function_code *function, struct vms_guest *guest,
			    struct vms_memory *memory, uint64_t va, GError **error)
{
	struct vms_location location;
	*function = (struct vms_function_code) { .guest = guest, .memory = memory };
	if (vms_guest_locate(guest, NULL, va, &location) && location.symbol && location.size) {
		function->name = g_strdup(location.symbol);
		read_part(function, location.start, location.size);
	} else {
		read_part(function, va, NO_SYMBOL);
	}
	const bool is_freed = vms_guest_code_is_freed(guest, memory, va);
	if (function->parts[0].n_read > 0 && !is_freed)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
		    "cannot read the code at 0x%" G_GINT64_MODIFIER "x: %s", function->parts[0].va,
		    is_freed ? "the kernel has freed it after its boot" : "it is not mapped");
	vms_function_code_clear(function);
	return false;
}

void vms_function_code_clear(struct vms_function_code *function)
{
	for (unsigned i = 0; i < function->n_parts; i++) {
		g_free(function->parts[i].code);
		g_array_unref(function->parts[i].special);
	}
	g_free(function->name);
	*function = (struct vms_function_code) { 0 };
}

static const struct vms_code_part *find_part(const struct vms_function_code *function, uint64_t va)
{
	for (unsigned i = 0; i < function->n_parts; i++)
		if (va - function->parts[i].va < function->parts[i].size)
			return &function->parts[i];
	return NULL;
}

/* True if the symbol is NAME.cold or NAME.cold.N. */
static bool is_moved_part(const struct vms_function_code *function, const char *symbol)
{
	size_t length = function->name ? strlen(function->name) : 0;
	return length && strncmp(symbol, function->name, length) == 0 &&
	       g_str_has_prefix(symbol + length, ".cold");
}

const struct vms_code_part *vms_function_code_part(struct vms_function_code *function, uint64_t va)
{
	const struct vms_code_part *part = find_part(function, va);
	struct vms_location location;
	if (part || function->n_parts == VMS_CODE_PARTS ||
	    !vms_guest_locate(function->guest, NULL, va, &location) || !location.symbol ||
	    !location.size || !is_moved_part(function, location.symbol))
		return part;
	read_part(function, location.start, location.size);
	return find_part(function, va);
}

const struct vms_special_insn *vms_code_part_special(const struct vms_code_part *part, uint64_t va)
{
	const struct vms_special_insn *insns = (const void *)part->special->data;
	size_t i = VMS_SEARCH(part->special->len, at, insns[at].va < va);
	return i < part->special->len && insns[i].va == va ? &insns[i] : NULL;
}

enum vms_code_role vms_function_code_role(const struct vms_function_code *function, uint64_t va)
{
	struct vms_location location;
	return vms_guest_locate(function->guest, NULL, va, &location) && location.offset == 0
		       ? vms_guest_code_role(function->guest, location.symbol)
		       : VMS_CODE_ORDINARY;
}
