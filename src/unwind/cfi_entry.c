/* SPDX-License-Identifier: MIT */
/* Entries of .eh_frame: a function's (FDE), and what it shares with others (CIE). */
#include "unwind/cfi-private.h"
#include <dwarf.h>

/* Bytes of an entry. The longest of gdb, node and LLVM have some KiB. */
#define ENTRY_LIMIT  (1u << 18)
#define AUGMENTATION 8 /* characters of an augmentation string */

/* Reads the bytes of an entry behind its length. */
static enum vms_cfi_result read_bytes(const struct vms_reader *file, uint64_t va, uint8_t **bytes,
				      struct vms_cfi_input *ret)
{
	uint32_t size;
	if (!file->read(file->data, va, &size, sizeof(size)))
		return VMS_CFI_MISSING;
	size = GUINT32_FROM_LE(size);
	if (size == 0 || size > ENTRY_LIMIT)
		return VMS_CFI_BAD;
	*bytes = g_malloc(size);
	*ret = (struct vms_cfi_input) { { *bytes, size }, .va = va + sizeof(size) };
	return file->read(file->data, ret->va, *bytes, size) ? VMS_CFI_FOUND : VMS_CFI_MISSING;
}

/* Reads what an augmentation says. The string is at `augmentation`. */
static void read_augmentation(const char *augmentation, struct vms_cfi_input *input,
			      struct vms_cfi_entry *entry)
{
	if (*augmentation == '\0')
		return;
	if (*augmentation != 'z') {
		input->failed = true;
		return;
	}
	entry->has_augmentation = true;
	const uint64_t size = vms_cfi_uleb(input);
	struct vms_cfi_input part = vms_cfi_take(input, size);
	for (const char *c = augmentation + 1; *c; c++) {
		switch (*c) {
		case 'R': entry->encoding = vms_cfi_u8(&part); break;
		case 'P': {
			const uint8_t encoding = vms_cfi_u8(&part);
			vms_cfi_pointer(&part, encoding & (uint8_t)~DW_EH_PE_indirect, 0);
			break;
		}
		case 'L': vms_cfi_u8(&part); break;
		case 'S': entry->is_signal = true; break;
		case 'B':	 /* aarch64: which key signs return addresses */
		case 'G': break; /* aarch64: tagged stacks */
		default: return; /* `size` tells where it ends */
		}
	}
	input->failed |= part.failed;
}

static enum vms_cfi_result read_cie(const struct vms_reader *file, uint64_t va,
				    struct vms_cfi_entry *entry)
{
	char augmentation[AUGMENTATION + 1] = "";
	struct vms_cfi_input *input = &entry->initial;
	const enum vms_cfi_result result = read_bytes(file, va, &entry->bytes[1], input);
	if (result != VMS_CFI_FOUND)
		return result;
	const uint64_t id = vms_cfi_unsigned(input, 4);
	const uint8_t version = vms_cfi_u8(input);
	size_t i = 0;
	while ((augmentation[i] = (char)vms_cfi_u8(input)))
		if (++i > AUGMENTATION)
			return VMS_CFI_BAD;
	entry->code_align = vms_cfi_uleb(input);
	entry->data_align = vms_cfi_sleb(input);
	const uint64_t return_reg = version == 1 ? vms_cfi_u8(input) : vms_cfi_uleb(input);
	read_augmentation(augmentation, input, entry);
	entry->return_reg = (uint8_t)MIN(return_reg, UINT8_MAX);
	return !input->failed && id == 0 && (version == 1 || version == 3) &&
			       return_reg < VMS_CFI_REGS
		       ? VMS_CFI_FOUND
		       : VMS_CFI_BAD;
}

enum vms_cfi_result vms_cfi_entry_read(const struct vms_reader *file, uint64_t va, bool is_aarch64,
				       struct vms_cfi_entry *ret)
{
	*ret = (struct vms_cfi_entry) { .is_aarch64 = is_aarch64 };
	struct vms_cfi_input *input = &ret->program;
	enum vms_cfi_result result = read_bytes(file, va, &ret->bytes[0], input);
	if (result != VMS_CFI_FOUND)
		return result;
	const uint64_t cie = vms_cfi_unsigned(input, 4); /* counted backwards from here */
	if (cie == 0 || cie > input->va)
		return VMS_CFI_BAD;
	result = read_cie(file, input->va - cie, ret);
	if (result != VMS_CFI_FOUND)
		return result;
	ret->start = vms_cfi_pointer(input, ret->encoding, 0);
	ret->size = vms_cfi_pointer(input, ret->encoding & 0x0f, 0);
	if (ret->has_augmentation)
		vms_cfi_take(input, vms_cfi_uleb(input));
	return input->failed || ret->size > UINT32_MAX ? VMS_CFI_BAD : VMS_CFI_FOUND;
}

void vms_cfi_entry_clear(struct vms_cfi_entry *entry)
{
	for (size_t i = 0; i < G_N_ELEMENTS(entry->bytes); i++)
		g_clear_pointer(&entry->bytes[i], g_free);
}
