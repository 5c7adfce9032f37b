/* SPDX-License-Identifier: MIT */
#include "agent/tasks/hooks.h"

/* The second argument of the function that switches tasks is the next task. */
static void on_switch(unsigned index, __attribute__((unused)) void *data)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (vcpu)
		tasks_switch(vcpu, vcpu_argument(vcpu, 1));
}

static void on_space_end(unsigned index, __attribute__((unused)) void *data)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (vcpu)
		tasks_end_space(vcpu, vcpu_argument(vcpu, 0));
}

/*
 * Linux on x86 jumps to the function that switches tasks when the stack is the next task's already,
 * so the switch comes before the jump. On aarch64 the function is called on the old stack, and the
 * switch comes after the call.
 */
void tasks_hook(struct qemu_plugin_tb *tb)
{
	uint64_t switches, ends_space;
	size_t n = qemu_plugin_tb_n_insns(tb);
	uint8_t bytes[16];
	if (n == 0 || !tasks_find_functions(&switches, &ends_space))
		return;
	bool by_jump = vcpu_arch()->switches_by_jump;
	if (!by_jump && qemu_plugin_tb_vaddr(tb) == switches)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_switch, QEMU_PLUGIN_CB_R_REGS, NULL);
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, n - 1);
	size_t size = qemu_plugin_insn_data(last, bytes, sizeof(bytes));
	struct branch branch = vcpu_arch()->branch(bytes, size);
	uint64_t target = qemu_plugin_insn_vaddr(last) + size + (uint64_t)branch.displacement;
	if (by_jump && branch.kind == BRANCH_JUMP && target == switches)
		qemu_plugin_register_vcpu_insn_exec_cb(last, on_switch, QEMU_PLUGIN_CB_R_REGS,
						       NULL);
	else if (branch.kind == BRANCH_CALL && target == ends_space)
		qemu_plugin_register_vcpu_insn_exec_cb(last, on_space_end, QEMU_PLUGIN_CB_R_REGS,
						       NULL);
}
