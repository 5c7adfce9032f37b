/* SPDX-License-Identifier: MIT */
/* Numbers as DWARF and .eh_frame write them. */
#include "unwind/cfi-private.h"
#include <dwarf.h>

#define LEB_BITS 64

uint64_t vms_cfi_unsigned(struct vms_cfi_input *input, unsigned size)
{
	uint64_t value = 0;
	if (input->failed || !vms_bytes_has(input->bytes, input->at, size)) {
		input->failed = true;
		return 0;
	}
	memcpy(&value, input->bytes.data + input->at, size);
	input->at += size;
	return GUINT64_FROM_LE(value);
}

uint8_t vms_cfi_u8(struct vms_cfi_input *input)
{
	return (uint8_t)vms_cfi_unsigned(input, 1);
}

/* Reads groups of seven bits. `*shift` becomes the number of bits, `*last` the last byte. */
static uint64_t read_leb(struct vms_cfi_input *input, unsigned *shift, uint8_t *last)
{
	uint64_t value = 0;
	*shift = 0;
	do {
		*last = vms_cfi_u8(input);
		if (*shift < LEB_BITS)
			value |= (uint64_t)(*last & 0x7f) << *shift;
		*shift += 7;
	} while (*last & 0x80);
	return value;
}

uint64_t vms_cfi_uleb(struct vms_cfi_input *input)
{
	unsigned shift;
	uint8_t last;
	return read_leb(input, &shift, &last);
}

int64_t vms_cfi_sleb(struct vms_cfi_input *input)
{
	unsigned shift;
	uint8_t last;
	uint64_t value = read_leb(input, &shift, &last);
	if (shift < LEB_BITS && (last & 0x40))
		value |= UINT64_MAX << shift;
	return (int64_t)value;
}

static uint64_t read_form(struct vms_cfi_input *input, uint8_t form)
{
	switch (form) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8: return vms_cfi_unsigned(input, 8);
	case DW_EH_PE_udata4: return vms_cfi_unsigned(input, 4);
	case DW_EH_PE_udata2: return vms_cfi_unsigned(input, 2);
	case DW_EH_PE_sdata4: return (uint64_t)(int32_t)vms_cfi_unsigned(input, 4);
	case DW_EH_PE_sdata2: return (uint64_t)(int16_t)vms_cfi_unsigned(input, 2);
	case DW_EH_PE_uleb128: return vms_cfi_uleb(input);
	case DW_EH_PE_sleb128: return (uint64_t)vms_cfi_sleb(input);
	default: input->failed = true; return 0;
	}
}

uint64_t vms_cfi_pointer(struct vms_cfi_input *input, uint8_t encoding, uint64_t data)
{
	const uint64_t place = input->va + input->at;
	const uint64_t value = read_form(input, encoding & 0x0f);
	switch (encoding & 0xf0) {
	case 0: return value;
	case DW_EH_PE_pcrel: return value + place;
	case DW_EH_PE_datarel: return value + data;
	default: input->failed = true; return 0;
	}
}

struct vms_cfi_input vms_cfi_take(struct vms_cfi_input *input, uint64_t size)
{
	struct vms_cfi_input part = { .va = input->va + input->at, .failed = true };
	if (input->failed || !vms_bytes_slice(input->bytes, input->at, size, &part.bytes)) {
		input->failed = true;
		return part;
	}
	part.failed = false;
	input->at += size;
	return part;
}
