/* SPDX-License-Identifier: MIT */
/*
 * Text of the human monitor: a memory map, the answer about an address, registers.
 *
 * Covers: src/machine/qemu/hmp.c src/machine/qemu/hmp_registers.c.
 */
#include "machine/qemu/hmp.h"
#include "base/text.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autofree char *text = g_strndup((const char *)data, size);
	g_autoptr(GStringChunk) names = g_string_chunk_new(256);
	g_autoptr(GArray) ranges = vms_hmp_parse_mtree(text, names, NULL);
	for (guint i = 1; ranges && i < ranges->len; i++) {
		const struct vms_range *range = &g_array_index(ranges, struct vms_range, i);
		g_assert_cmphex(range[-1].pa + range[-1].size - 1, <, range->pa);
	}
	g_autofree char *clean = vms_text_clean_lines(text);
	g_assert_null(strpbrk(clean, "\t\033"));
	uint64_t hva;
	vms_hmp_parse_gpa2hva(text, 0x100000, &hva);
	struct vms_wide_regs wide;
	if (vms_hmp_parse_x86_64_wide(text, &wide))
		for (unsigned i = 0; i < VMS_WIDE_MAX; i++)
			g_assert_cmpuint(wide.size[i], <=, VMS_WIDE_BYTES_MAX);
	struct vms_regs regs = { 0 }, none = { 0 };
	if (!vms_hmp_parse_x86_64_general(text, &regs))
		g_assert_cmpmem(&regs, sizeof(regs), &none, sizeof(none));
	regs = none;
	if (vms_hmp_parse_x86_64_registers(text, &regs))
		g_assert_cmphex(regs.value[vms_arch_reg(&vms_arch_x86_64, "gdtr_limit")], <=,
				0xffff);
	else
		g_assert_cmpmem(&regs, sizeof(regs), &none, sizeof(none));
	return 0;
}
