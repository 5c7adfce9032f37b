/* SPDX-License-Identifier: MIT */
/*
 * An ORC table of any content. Input: layout, address of the table, addresses, entries.
 *
 * Covers: src/guest/linux/orc.c.
 */
#include "guest/linux/orc.h"

#define HEAD 9

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct vms_orc *orc, uint64_t pc)
{
	struct vms_orc_entry entry;
	if (!vms_orc_find(orc, pc, &entry))
		return;
	g_assert_cmpuint(entry.type, <=, VMS_ORC_TYPE_REGS_PARTIAL);
	g_assert_cmpuint(entry.sp_reg, <=, VMS_ORC_SP_INDIRECT);
	g_assert_cmpuint(entry.bp_reg, <=, VMS_ORC_SP_INDIRECT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_bytes input = { data, size };
	uint64_t ip_va;
	if (size < HEAD || !vms_bytes_u64(input, 1, &ip_va))
		return 0;
	size_t n = (size - HEAD) / (VMS_ORC_IP_SIZE + VMS_ORC_ENTRY_SIZE);
	struct vms_bytes ip = { data + HEAD, n * VMS_ORC_IP_SIZE };
	struct vms_bytes entries = { ip.data + ip.size, size - HEAD - ip.size };
	entries.size -= entries.size % VMS_ORC_ENTRY_SIZE;
	struct vms_orc *orc = vms_orc_new(ip, ip_va, entries, data[0] & 3, data[0] & 4, NULL);
	if (!orc)
		return 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t relative = 0;
		vms_bytes_u32(ip, i * VMS_ORC_IP_SIZE, &relative);
		uint64_t pc = ip_va + i * VMS_ORC_IP_SIZE + (uint64_t)(int32_t)relative;
		check(orc, pc - 1);
		check(orc, pc);
		check(orc, pc + 1);
	}
	check(orc, 0);
	check(orc, UINT64_MAX);
	vms_orc_free(orc);
	return 0;
}
