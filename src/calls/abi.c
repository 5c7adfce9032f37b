/* SPDX-License-Identifier: MIT */
#include "calls/abi.h"

#include "machine/agent/protocol.h"

/*
 * Entries are in arch/x86/entry/entry_64.S, entry_64_compat.S and asm/idtentry.h. The vectors of
 * interrupts all jump to asm_common_interrupt. Thunks are in arch/x86/lib/retpoline.S.
 */
static const struct vms_calls_name x86_64_names[] = {
	{ "asm_exc_*", VMS_AGENT_FUNCTION_ENTRY },
	{ "asm_sysvec_*", VMS_AGENT_FUNCTION_ENTRY },
	{ "asm_common_interrupt", VMS_AGENT_FUNCTION_ENTRY },
	{ "asm_spurious_interrupt", VMS_AGENT_FUNCTION_ENTRY },
	{ "asm_int80_emulation", VMS_AGENT_FUNCTION_ENTRY },
	{ "asm_fred_entrypoint_*", VMS_AGENT_FUNCTION_ENTRY },
	{ "entry_SYSCALL_64", VMS_AGENT_FUNCTION_ENTRY },
	{ "entry_SYSCALL_compat", VMS_AGENT_FUNCTION_ENTRY },
	{ "entry_SYSENTER_compat", VMS_AGENT_FUNCTION_ENTRY },
	{ "entry_INT80_compat", VMS_AGENT_FUNCTION_ENTRY },
	{ "xen_asm_exc_*", VMS_AGENT_FUNCTION_ENTRY },
	{ "xen_entry_*", VMS_AGENT_FUNCTION_ENTRY },
	{ "__x86_indirect_*", VMS_AGENT_FUNCTION_TRANSPARENT },
	{ "__x86_return_*", VMS_AGENT_FUNCTION_RETURN },
	{ "call_depth_return_thunk", VMS_AGENT_FUNCTION_RETURN },
	{ "its_return_thunk", VMS_AGENT_FUNCTION_RETURN },
	{ "retbleed_return_thunk", VMS_AGENT_FUNCTION_RETURN },
	{ "srso_*return_thunk", VMS_AGENT_FUNCTION_RETURN },
	{ "srso_*safe_ret", VMS_AGENT_FUNCTION_RETURN },
	{ "srso_safe_ret", VMS_AGENT_FUNCTION_RETURN },
	{ "do_init_module", VMS_AGENT_FUNCTION_LOOK },
};

/* Entries are in arch/arm64/kernel/entry.S. Those without a mode are from before Linux 5.13. */
static const struct vms_calls_name aarch64_names[] = {
	{ "el[01][th]_[36][24]_sync", VMS_AGENT_FUNCTION_ENTRY },
	{ "el[01][th]_[36][24]_irq", VMS_AGENT_FUNCTION_ENTRY },
	{ "el[01][th]_[36][24]_fiq", VMS_AGENT_FUNCTION_ENTRY },
	{ "el[01][th]_[36][24]_error", VMS_AGENT_FUNCTION_ENTRY },
	{ "el[01]_sync", VMS_AGENT_FUNCTION_ENTRY },
	{ "el[01]_irq", VMS_AGENT_FUNCTION_ENTRY },
	{ "el[01]_fiq", VMS_AGENT_FUNCTION_ENTRY },
	{ "el[01]_error", VMS_AGENT_FUNCTION_ENTRY },
	{ "do_init_module", VMS_AGENT_FUNCTION_LOOK },
};

static const struct vms_calls_abi abis[] = {
	{
		.arch = &vms_arch_x86_64,
		.names = x86_64_names,
		.n_names = G_N_ELEMENTS(x86_64_names),
		.switch_function = "__switch_to_asm",
		.task_function = "__switch_to",
		.call_slot = -8,
		.entry_slot = 15 * 8, /* orig_ax in struct pt_regs, below what iret pops */
	},
	{
		.arch = &vms_arch_aarch64,
		.names = aarch64_names,
		.n_names = G_N_ELEMENTS(aarch64_names),
		.switch_function = "cpu_switch_to",
		.task_function = "cpu_switch_to",
		.entry_slot = 16, /* x2 in struct pt_regs */
	},
};

const struct vms_calls_abi *vms_calls_abi_of(const struct vms_arch *arch)
{
	for (size_t i = 0; i < G_N_ELEMENTS(abis); i++)
		if (abis[i].arch == arch)
			return &abis[i];
	return NULL;
}
