/* SPDX-License-Identifier: MIT */
/* The entry of vcpus.c in 64-bit mode, on a stack that the monitor gives, and the known registers. */
	.code64
	.text
	.globl start
	.type start, @function
start:
	xorl %ebp, %ebp
	call run_vcpu
1:	hlt
	jmp 1b
	.size start, . - start

	.macro set_known
	movabsq $0x1111111111111111, %rax
	movabsq $0x2222222222222222, %rbx
	movabsq $0x3333333333333333, %rcx
	movabsq $0x4444444444444444, %rdx
	movabsq $0x5555555555555555, %rsi
	movabsq $0x6666666666666666, %rdi
	movabsq $0x8888888888888888, %r8
	movabsq $0x9999999999999999, %r9
	movabsq $0xaaaaaaaaaaaaaaaa, %r10
	movabsq $0xbbbbbbbbbbbbbbbb, %r11
	movabsq $0xcccccccccccccccc, %r12
	movabsq $0xdddddddddddddddd, %r13
	movabsq $0xeeeeeeeeeeeeeeee, %r14
	movabsq $0xffffffffffffffff, %r15
	.endm

	.globl spin_known
	.type spin_known, @function
spin_known:
	set_known
	.globl known_spin
known_spin:
	jmp known_spin
	.size spin_known, . - spin_known

	.globl halt_known
	.type halt_known, @function
halt_known:
	set_known
	hlt
	.globl known_halt
known_halt:
	jmp halt_known
	.size halt_known, . - halt_known
	.section .note.GNU-stack, "", @progbits
