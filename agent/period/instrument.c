/* SPDX-License-Identifier: MIT */
#include "agent/period/instrument.h"

static struct qemu_plugin_scoreboard *board; /* instructions of each vCPU since its last turn */

bool period_instrument_init(void)
{
	if (!board)
		board = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	return board;
}

void period_count_anew(unsigned vcpu)
{
	qemu_plugin_u64_set((qemu_plugin_u64) { .score = board }, vcpu, 0);
}

void period_instrument(struct qemu_plugin_tb *tb, uint64_t instructions,
		       qemu_plugin_vcpu_udata_cb turn)
{
	const qemu_plugin_u64 count = { .score = board };
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		void *va = (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn);
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
			insn, QEMU_PLUGIN_INLINE_ADD_U64, count, 1);
		qemu_plugin_register_vcpu_insn_exec_cond_cb(insn, turn, QEMU_PLUGIN_CB_R_REGS,
							    QEMU_PLUGIN_COND_EQ, count,
							    instructions, va);
	}
}
