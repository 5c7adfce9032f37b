/* SPDX-License-Identifier: MIT */
/* Notes of aarch64. NT_PRSTATUS: struct elf_prstatus of Linux with struct user_pt_regs. */
#include "arch/aarch64.h"
#include "machine/core/core_arch.h"
#include <elf.h>

#define GENERAL(n)                                                                                 \
	{                                                                                          \
		X0 + (n), 112 + (n)*8, 8                                                           \
	}

static const struct vms_note_field prstatus[] = {
	GENERAL(0),  GENERAL(1),     GENERAL(2),     GENERAL(3),       GENERAL(4),  GENERAL(5),
	GENERAL(6),  GENERAL(7),     GENERAL(8),     GENERAL(9),       GENERAL(10), GENERAL(11),
	GENERAL(12), GENERAL(13),    GENERAL(14),    GENERAL(15),      GENERAL(16), GENERAL(17),
	GENERAL(18), GENERAL(19),    GENERAL(20),    GENERAL(21),      GENERAL(22), GENERAL(23),
	GENERAL(24), GENERAL(25),    GENERAL(26),    GENERAL(27),      GENERAL(28), GENERAL(29),
	GENERAL(30), { SP, 360, 8 }, { PC, 368, 8 }, { CPSR, 376, 8 },
};

const struct vms_core_arch vms_core_aarch64 = {
	.arch = &vms_arch_aarch64,
	.elf_machine = EM_AARCH64,
	.notes = {
		[VMS_NOTE_PRSTATUS] = { 392, 392, prstatus, G_N_ELEMENTS(prstatus) },
	},
	.prstatus_pid = 32,
};
