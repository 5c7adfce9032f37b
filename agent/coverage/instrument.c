/* SPDX-License-Identifier: MIT */
/*
 * Marks are set by inline stores into the shared memory, because a callback would cost far more.
 * The target of an inline store is: address of a scoreboard's first element + vCPU index * element
 * size + offset. So the elements of the scoreboard here have the size of a line of marks, and the
 * offset is the distance from its first element to the mark of vCPU 0.
 */
#include "agent/coverage/instrument.h"

static struct qemu_plugin_scoreboard *board;

bool coverage_instrument_init(void)
{
	if (!board)
		board = qemu_plugin_scoreboard_new(VMS_AGENT_MARKS_LINE);
	return board;
}

static qemu_plugin_u64 locate_mark(const struct blocks *blocks, uint32_t block, unsigned end)
{
	return (qemu_plugin_u64) {
		.score = board,
		.offset = (uintptr_t)blocks_mark(blocks, block, end) -
			  (uintptr_t)qemu_plugin_scoreboard_find(board, 0),
	};
}

/* Sets a mark before an instruction. */
static void mark_insn(const struct blocks *blocks, uint32_t block, unsigned end,
		      struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
		insn, QEMU_PLUGIN_INLINE_STORE_U64, locate_mark(blocks, block, end), UINT64_MAX);
}

/*
 * Sets the mark of a single instruction's end when it has accessed memory. An access to a device
 * from the middle of a block ends the block. QEMU then executes that instruction alone, in code
 * that has no marks before instructions.
 */
static void mark_access(const struct blocks *blocks, uint32_t block, struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_mem_inline_per_vcpu(insn, QEMU_PLUGIN_MEM_RW,
						      QEMU_PLUGIN_INLINE_STORE_U64,
						      locate_mark(blocks, block, 1), UINT64_MAX);
}

/* True if the block has run before: it needs no marks when it is translated again. */
static bool is_known(const struct coverage *coverage, uint32_t block, size_t n_insns)
{
	const unsigned ran = blocks_ran(&coverage->blocks, block);
	return coverage->state == VMS_AGENT_COVERAGE_RUNS &&
	       (n_insns > 1 ? ran & VMS_AGENT_RAN_END : ran);
}

/* Makes the instructions [first, end) mark that they run. */
static void instrument_range(struct coverage *coverage, struct qemu_plugin_tb *tb, size_t first,
			     size_t end)
{
	struct qemu_plugin_insn *begin = qemu_plugin_tb_get_insn(tb, first);
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, end - 1);
	struct blocks *blocks = &coverage->blocks;
	const uint64_t va = qemu_plugin_insn_vaddr(begin);
	const struct vms_agent_block_covered description = {
		.va = va,
		.size = (uint32_t)(qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last) - va),
		.n_insns = (uint16_t)(end - first),
		.first_size = (uint8_t)qemu_plugin_insn_size(begin),
		.epoch = atomic_load_explicit(&blocks->shared->epoch, memory_order_relaxed),
	};
	const uint32_t block = blocks_note(blocks, &description);
	if (block == BLOCKS_NONE || is_known(coverage, block, end - first))
		return;
	mark_insn(blocks, block, 0, begin);
	if (last != begin)
		mark_insn(blocks, block, 1, last);
	else
		mark_access(blocks, block, begin);
}

static void register_call_before(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_udata_cb callback)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

/* An address that begins or ends the coverage begins a block of its own. */
void coverage_instrument(struct coverage *coverage, struct qemu_plugin_tb *tb,
			 const struct coverage_callbacks *callbacks)
{
	const size_t n = qemu_plugin_tb_n_insns(tb);
	size_t first = 0;
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint64_t va = qemu_plugin_insn_vaddr(insn);
		if (va == coverage->look)
			register_call_before(insn, callbacks->look);
		if (va != coverage->from && va != coverage->to)
			continue;
		if (i > first)
			instrument_range(coverage, tb, first, i);
		first = i;
		/* If it is both, the coverage ends when it is executed again. */
		if (va == coverage->to)
			register_call_before(insn, callbacks->to);
		if (va == coverage->from)
			register_call_before(insn, callbacks->from);
	}
	instrument_range(coverage, tb, first, n);
}
