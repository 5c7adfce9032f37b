/* SPDX-License-Identifier: MIT */
/*
 * A guest that wants to hang or crash whoever looks at it: page tables that lead back into
 * themselves, so that the upper half of the address space is mapped without end; a frame that is
 * its own caller; and a page that begins as the kernel's VMCOREINFO does, full of lies.
 */
#include "bare.h"

static const char vmcoreinfo[4096] __attribute__((aligned(4096), used)) =
	"OSRELEASE=6.1.0\n"
	"PAGESIZE=4096\n"
	"SYMBOL(init_uts_ns)=ffff800000000000\n"
	"SYMBOL(_stext)=ffff800000000000\n"
	"SYMBOL(swapper_pg_dir)=ffffffffffffffff\n"
	"SYMBOL(kallsyms_names)=ffff800000000000\n"
	"SYMBOL(kallsyms_num_syms)=ffff800000000000\n"
	"SYMBOL(kallsyms_token_table)=ffff800000000000\n"
	"SYMBOL(kallsyms_token_index)=ffff800000000000\n"
	"SYMBOL(kallsyms_offsets)=ffff800000000000\n"
	"SYMBOL(kallsyms_relative_base)=ffff800000000000\n"
	"NUMBER(phys_base)=-9223372036854775808\n"
	"NUMBER(pgtable_l5_enabled)=1\n"
	"KERNELOFFSET=ffffffffffffffff\n"
	"SYMBOL(";

NOINLINE void spin(void)
{
	/* This frame's caller is this frame. */
	__asm__ volatile("movq %rbp, (%rbp)\n1: jmp 1b");
}

void guest_main(void)
{
	/* Every entry of the upper half maps the top table again, at every level. */
	for (int i = 256; i < 512; i++)
		top_table[i] = (uintptr_t)top_table | 7;
	print("READY\n");
	spin();
}
