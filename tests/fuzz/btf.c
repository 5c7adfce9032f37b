/* SPDX-License-Identifier: MIT */
/*
 * BTF of any content, and the questions that are asked of it.
 *
 * Covers: src/guest/linux/btf.c src/guest/linux/member.c.
 */
#include "guest/linux/btf.h"
#include "guest/linux/member.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_btf *btf = vms_btf_new((struct vms_bytes) { data, size }, NULL);
	static const char *const structures[] = { "outer", "inner", "task_struct", "b" };
	static const char *const paths[] = { "flag", "many", "in.b", "next", "a.b.c.d", "" };
	struct vms_btf_member member;
	uint64_t bytes;
	int64_t value;

	if (!btf)
		return 0;
	for (size_t i = 0; i < G_N_ELEMENTS(structures); i++) {
		vms_btf_size(btf, structures[i], &bytes);
		for (size_t j = 0; j < G_N_ELEMENTS(paths); j++) {
			if (!vms_btf_member(btf, structures[i], paths[j], &member))
				continue;
			g_assert_cmpuint(member.bit_offset, <, 8);
			g_assert_cmpuint(member.bits, <, 256);
			if (vms_member_get((struct vms_bytes) { data, size }, &member, &bytes) &&
			    member.bits > 0 && member.bits < 64)
				g_assert_cmphex(bytes >> member.bits, ==, 0);
		}
	}
	vms_btf_enumerator(btf, "MINUS", &value);
	vms_btf_enumerator(btf, "WIDE", &value);
	if (vms_btf_percpu(btf, "cpu_number", &bytes))
		g_assert_cmpuint(bytes, <=, UINT32_MAX);
	vms_btf_free(btf);
	return 0;
}
