/* SPDX-License-Identifier: MIT */
/*
 * From QEMU's PVH entry (32-bit protected mode, no paging) to guest_main in 64-bit mode: the first
 * GiB mapped to itself with 2 MiB pages, a stack, and a frame pointer of 0 as the outermost.
 */
	.section .note.pvh, "a", @note
	.long 4, 4, 18		/* name size, value size, XEN_ELFNOTE_PHYS32_ENTRY */
	.asciz "Xen"
	.long start

	.text
	.code32
	.globl start
	.type start, @function
start:
	cli
	movl $upper_table + 3, top_table
	movl $middle_table + 3, upper_table
	xorl %ecx, %ecx
1:	movl %ecx, %eax
	shll $21, %eax
	orl $0x83, %eax		/* present, writable, 2 MiB */
	movl %eax, middle_table(, %ecx, 8)
	incl %ecx
	cmpl $512, %ecx
	jne 1b

	movl $0x20, %eax	/* CR4.PAE */
	movl %eax, %cr4
	movl $top_table, %eax
	movl %eax, %cr3
	movl $0xc0000080, %ecx	/* EFER.LME */
	rdmsr
	orl $0x100, %eax
	wrmsr
	movl %cr0, %eax
	orl $0x80000001, %eax	/* CR0.PG, CR0.PE */
	movl %eax, %cr0
	lgdt gdt_pointer
	ljmp $8, $start64
	.size start, . - start

	.code64
	.type start64, @function
start64:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	movq $stack_top, %rsp
	xorl %ebp, %ebp
	call guest_main
1:	hlt
	jmp 1b
	.size start64, . - start64

	.data
	.balign 8
gdt:	.quad 0
	.quad 0x00af9a000000ffff	/* code, 64 bit */
	.quad 0x00cf92000000ffff	/* data */
gdt_pointer:
	.word gdt_pointer - gdt - 1
	.long gdt

	.bss
	.balign 4096
	.globl top_table, upper_table
top_table:
	.skip 4096
upper_table:
	.skip 4096
middle_table:
	.skip 4096
	.skip 1 << 20
stack_top:
	.section .note.GNU-stack, "", @progbits
