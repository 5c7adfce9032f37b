/* SPDX-License-Identifier: MIT */
/*
 * Instructions of a guest, as the agent decodes them; the first byte says which processor's.
 *
 * Covers: agent/cpu/branch_x86.c agent/cpu/branch_aarch64.c.
 */
#include "agent/cpu/branch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct branch branch =
		data[0] & 1 ? branch_aarch64(data + 1, size - 1) : branch_x86(data + 1, size - 1);
	return branch.kind == BRANCH_NONE && branch.fixed;
}
