/* SPDX-License-Identifier: MIT */
/* The ticking guest's ways in: a stack for every vCPU, and from real mode to start.S. */
#include "ticker.h"

	.code64
	.text
	.globl guest_main
	.type guest_main, @function
/* All vCPUs come here on one stack, so nothing is pushed before each has its own. */
guest_main:
	movq %rbx, %rdi		/* the firmware's start info, or 0 from the trampoline */
	movl $1, %eax
	cpuid
	shrl $24, %ebx
	shlq $16, %rbx
	leaq stacks + (1 << 16)(%rbx), %rsp
	xorl %ebp, %ebp
	testq %rdi, %rdi
	sete %al
	movzbl %al, %edi
	call run_vcpu
	.size guest_main, . - guest_main

/* Copied to TRAMPOLINE, where %cs is its page: with SIPI, and from the firmware after S3. */
	.code16
	.globl trampoline_code, trampoline_end
trampoline_code:
	cli
	lgdtl %cs:(low_gdt_pointer - trampoline_code)
	movl %cr0, %eax
	orl $1, %eax
	movl %eax, %cr0
	ljmpl $8, $TRAMPOLINE + (protected - trampoline_code)
	.code32
protected:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	xorl %ebx, %ebx
	movl $start, %eax
	jmp *%eax
	.balign 8
low_gdt:
	.quad 0
	.quad 0x00cf9a000000ffff	/* code, 32 bit */
	.quad 0x00cf92000000ffff	/* data */
low_gdt_pointer:
	.word low_gdt_pointer - low_gdt - 1
	.long TRAMPOLINE + (low_gdt - trampoline_code)
trampoline_end:

	.bss
	.balign 16
stacks:
	.skip TICKER_VCPUS << 16
	.section .note.GNU-stack, "", @progbits
