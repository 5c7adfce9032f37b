/* SPDX-License-Identifier: MIT */
/*
 * Call frame information of any content, and steps by it. Input: flags, registers, then the file:
 * .eh_frame_hdr comes first, or .eh_frame. The same bytes are the stack.
 *
 * Covers: src/unwind/cfi.c, src/unwind/cfi_entry.c, src/unwind/cfi_expression.c,
 * src/unwind/cfi_input.c, src/unwind/cfi_program.c, src/unwind/cfi_scan.c,
 * src/unwind/cfi_step.c.
 */
#include "unwind/cfi.h"
#include "base/bytes.h"

#define HEAD   2
#define BASE   UINT64_C(0x10000)
#define FRAMES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_input(void *data, uint64_t va, void *buf, size_t size)
{
	struct vms_bytes part;
	if (va < BASE || !vms_bytes_slice(*(struct vms_bytes *)data, va - BASE, size, &part))
		return false;
	memcpy(buf, part.data, size);
	return true;
}

static void check(struct vms_cfi *cfi, bool is_aarch64, uint64_t va, const struct vms_reader *stack)
{
	struct vms_cfi_row row;
	struct vms_cfi_regs regs = { .valid = UINT32_MAX };
	const unsigned sp = is_aarch64 ? 31 : 7;
	for (unsigned i = 0; i < VMS_CFI_REGS; i++)
		regs.value[i] = BASE + i * 8;
	for (unsigned i = 0; i < FRAMES; i++) {
		bool unread;
		if (vms_cfi_find(cfi, va, &row) != VMS_CFI_FOUND)
			return;
		g_assert_cmpuint(row.start, <=, va);
		g_assert_cmpuint(row.n, <=, VMS_CFI_REGS);
		if (!vms_cfi_step(&row, sp, stack, &regs, &unread))
			return;
		va = regs.value[row.return_reg];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEAD)
		return 0;
	const bool is_aarch64 = data[0] & 1;
	struct vms_bytes file = { data + HEAD, size - HEAD };
	const struct vms_reader reader = { read_input, &file };
	struct vms_cfi *cfi =
		data[0] & 2 ? vms_cfi_new_without_header(&reader, BASE, file.size, is_aarch64)
			    : vms_cfi_new(&reader, BASE, data[1] * UINT64_C(16), is_aarch64);
	for (uint64_t at = 0; at < MIN(file.size, 256); at += 8) {
		uint32_t start = 0;
		vms_bytes_u32(file, at + 4, &start);
		const uint64_t va = BASE + (uint64_t)(int32_t)start;
		check(cfi, is_aarch64, va, &reader);
		check(cfi, is_aarch64, va + 5, &reader);
	}
	vms_cfi_free(cfi);
	return 0;
}
