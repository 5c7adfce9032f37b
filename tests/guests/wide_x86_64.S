/* SPDX-License-Identifier: MIT */
/*
 * A bare guest whose wide registers have known values at wide_nop: byte i of ymm register n is
 * 16 n + i / 2 + 128 (i % 2), in 8 bits. st0 to st2 are pi, 1 and log2(e). It loads gdtr and idtr
 * with wide_gdtr and wide_idtr.
 */
	.text
	.code64
	.globl guest_main
	.type guest_main, @function
guest_main:
	movq %cr0, %rax
	andq $~0xc, %rax	/* CR0.EM, CR0.TS */
	orq $0x2, %rax		/* CR0.MP */
	movq %rax, %cr0
	movq %cr4, %rax
	orq $0x40600, %rax	/* CR4.OSXSAVE, OSXMMEXCPT, OSFXSR */
	movq %rax, %cr4
	xorl %ecx, %ecx
	xorl %edx, %edx
	movl $7, %eax		/* x87, SSE, AVX */
	xsetbv
	lgdt wide_gdtr
	lidt wide_idtr

	movl $values, %edi	/* of all registers */
	xorl %ecx, %ecx
1:	movl %ecx, %eax
	shrl $5, %eax
	shll $4, %eax
	movl %ecx, %edx
	andl $31, %edx
	shrl $1, %edx
	addl %edx, %eax
	movl %ecx, %edx
	andl $1, %edx
	shll $7, %edx
	addl %edx, %eax
	movb %al, (%rdi, %rcx)
	incl %ecx
	cmpl $16 * 32, %ecx
	jne 1b

	fninit
	fldl2e
	fld1
	fldpi
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	vmovdqu \n * 32(%rdi), %ymm\n
	.endr
	movl $ready, %esi
	movl $ready_end - ready, %ecx
	movl $0x3f8, %edx
	rep outsb
	.globl wide_nop
wide_nop:
	nop
	movl $20000, %ecx
1:	decl %ecx
	jnz 1b
	jmp wide_nop
	.size guest_main, . - guest_main

	.data
ready:	.ascii "READY\n"
ready_end:
	.balign 8
gdt:	.quad 0
	.quad 0x00af9a000000ffff	/* code, 64 bit */
	.quad 0x00cf92000000ffff	/* data */
	.quad 0
	.globl wide_gdtr, wide_idtr
wide_gdtr:
	.word wide_gdtr - gdt - 1
	.quad gdt
wide_idtr:
	.word 0x7f3
	.quad 0x123456789a

	.bss
values:	.skip 16 * 32
	.section .note.GNU-stack, "", @progbits
