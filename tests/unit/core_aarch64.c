/* SPDX-License-Identifier: MIT */
/* Notes of aarch64 against struct elf_prstatus as its C library has it. */
#include "arch/aarch64.h"
#include "machine/core/core_arch.h"
#include <stddef.h>
#include <string.h>

/* sys/procfs.h and asm/ptrace.h of aarch64. */
struct prstatus {
	struct {
		int32_t signo, code, error;
	} info;
	int16_t cursig;
	uint64_t sigpend, sighold;
	int32_t pid, ppid, pgrp, sid;
	struct {
		int64_t seconds, microseconds;
	} times[4];
	struct {
		uint64_t regs[31], sp, pc, pstate;
	} reg;
	int32_t fpvalid;
};

static void test_prstatus(void)
{
	const struct vms_note_layout *layout = &vms_core_aarch64.notes[VMS_NOTE_PRSTATUS];
	struct vms_regs regs = { 0 }, read = { 0 };
	struct prstatus status;
	for (unsigned i = 0; i < N_REGS; i++)
		vms_regs_set(&regs, i, UINT64_C(0xf1e2d3c4b5a69700) + i);
	regs.value[CPSR] = 0x60000005;
	g_assert_cmpuint(layout->size, ==, sizeof(status));
	g_assert_cmpuint(vms_core_aarch64.prstatus_pid, ==, offsetof(struct prstatus, pid));
	g_autofree uint8_t *content = vms_note_encode(&vms_core_aarch64, VMS_NOTE_PRSTATUS, &regs);
	memcpy(&status, content, sizeof(status));
	for (unsigned i = 0; i < 31; i++)
		g_assert_cmphex(status.reg.regs[i], ==, regs.value[X0 + i]);
	g_assert_cmphex(status.reg.sp, ==, regs.value[SP]);
	g_assert_cmphex(status.reg.pc, ==, regs.value[PC]);
	g_assert_cmphex(status.reg.pstate, ==, regs.value[CPSR]);

	g_assert_true(vms_note_decode(&vms_core_aarch64, VMS_NOTE_PRSTATUS,
				      (struct vms_bytes) { content, layout->size }, &read));
	for (unsigned i = X0; i <= CPSR; i++)
		g_assert_cmphex(read.value[i], ==, regs.value[i]);
	g_assert_false(vms_regs_have(&read, TTBR1_EL1));
	g_assert_false(vms_note_decode(&vms_core_aarch64, VMS_NOTE_PRSTATUS,
				       (struct vms_bytes) { content, layout->size - 1 }, &read));
}

/* Notes that other programs write for x86-64 only. */
static void test_others(void)
{
	struct vms_regs regs = { 0 };
	uint8_t content[8192] = { 0 };
	for (unsigned kind = 0; kind < VMS_NOTE_KINDS; kind++)
		if (kind != VMS_NOTE_PRSTATUS)
			g_assert_false(vms_note_decode(
				&vms_core_aarch64, kind,
				(struct vms_bytes) { content, sizeof(content) }, &regs));
	g_assert_true(vms_core_arch_of(&vms_arch_aarch64) == &vms_core_aarch64);
	g_assert_true(vms_core_arch_of_elf(183) == &vms_core_aarch64);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/core_aarch64/prstatus", test_prstatus);
	g_test_add_func("/core_aarch64/others", test_others);
	return g_test_run();
}
