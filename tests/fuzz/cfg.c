/* SPDX-License-Identifier: MIT */
/*
 * The graph of a function of any code. Input: a byte that says which processor's and how wide, then
 * memory with code at its begin, and perhaps tables.
 *
 * Covers: src/cfg/cfg.c src/cfg/explore.c src/cfg/function_code.c src/cfg/order.c
 * src/cfg/switch_table.c src/cfg/switch_table_x86.c src/cfg/switch_table_aarch64.c
 * src/cfg/branch.c.
 */
#include "../unit/fake_machine.h"
#include <vmscope/cfg.h>

#define CODE	 0x1000
#define MAX_SIZE 0x1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool count(size_t block G_GNUC_UNUSED, void *data)
{
	++*(size_t *)data;
	return true;
}

/* All blocks can be reached, have their instructions in a row, and lead to others. */
static void check(const struct vms_cfg *cfg)
{
	size_t n;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	for (enum vms_cfg_order order = VMS_CFG_UP; order <= VMS_CFG_BREADTH_FIRST; order++) {
		size_t seen = 0;
		vms_cfg_each(cfg, order, count, &seen);
		g_assert_cmpuint(seen, ==, n);
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t va = blocks[i].va;
		for (size_t j = 0; j < blocks[i].n_insns; j++) {
			g_assert_cmphex(blocks[i].insns[j].va, ==, va);
			va += blocks[i].insns[j].size;
		}
		g_assert_cmphex(va, ==, blocks[i].va + blocks[i].size);
		g_assert_true(blocks[i].n_insns > 0 || blocks[i].end == VMS_BLOCK_CUT);
		for (size_t j = 0; j < blocks[i].n_edges; j++)
			g_assert_cmpuint(blocks[i].edges[j].block, <, n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned widths[] = { 64, 32, 16, 64 };
	if (size < 2 || size > MAX_SIZE)
		return 0;
	const struct vms_arch *arch = data[0] & 1 ? &vms_arch_aarch64 : &vms_arch_x86_64;
	const struct vms_cfg_options options = {
		.size = sizeof(options),
		.calls_end_blocks = data[0] & 2,
		.bits = data[0] & 1 ? 64 : widths[data[0] >> 2 & 3],
	};
	const struct vms_regs regs = { 0 };
	g_autoptr(vms_machine) machine = fake_machine_new(arch, 1);
	memcpy(fake_machine_add_ram(machine, CODE, MAX_SIZE), data + 1, size - 1);
	g_autoptr(vms_memory) memory = vms_memory_new(machine, &regs);
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, NULL);
	g_autoptr(vms_cfg) cfg = vms_cfg_new(guest, memory, CODE, &options, NULL);
	if (cfg)
		check(cfg);
	return 0;
}
