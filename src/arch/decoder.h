/* SPDX-License-Identifier: MIT */
/* One instruction at a time, decoded by libcapstone with all of its details. */
#pragma once

#include <capstone/capstone.h>
#include <vmscope/arch.h>

struct vms_decoder {
	const struct vms_arch *arch;
	unsigned bits;
	uint64_t base; /* where the code's segment begins; 0 for 64-bit code */
	csh handle;
	cs_insn *insn; /* the last one, with its address in the segment */
};

/* Opens a decoder of code that is `bits` wide (see vms_disassemble). Errors: UNSUPPORTED. */
bool vms_decoder_open(struct vms_decoder *decoder, const struct vms_arch *arch, unsigned bits,
		      uint64_t base, GError **error);
void vms_decoder_close(struct vms_decoder *decoder);
/*
 * Decodes the instruction at `va`. It is valid until the next is decoded. NULL if these bytes are
 * not an instruction.
 */
const cs_insn *vms_decoder_decode(struct vms_decoder *decoder, uint64_t va, const uint8_t *code,
				  size_t size);
/* Describes what was decoded last. */
void vms_decoder_describe(const struct vms_decoder *decoder, struct vms_insn *ret);
