/* SPDX-License-Identifier: MIT */
/* Start, stacks and exception vectors of calls_bare.c. */
	.text
	.globl start
	.type start, %function
start:
	mov x0, #3 << 20		/* CPACR_EL1.FPEN */
	msr cpacr_el1, x0
	isb
	ldr x0, =stack_top
	mov sp, x0
	mov x29, xzr
	bl guest_main
1:	wfi
	b 1b
	.size start, . - start

	/* Into `name`; clobbers what `scratch` names. */
	.macro count name, a, b
	ldr \a, =count_\name
	ldr \b, [\a]
	add \b, \b, #1
	str \b, [\a]
	.endm

	.globl switch_stack
	.type switch_stack, %function
switch_stack:
	count switch_stack, x9, x10
	stp x29, x30, [sp, #-16]!
	stp x27, x28, [sp, #-16]!
	stp x25, x26, [sp, #-16]!
	stp x23, x24, [sp, #-16]!
	stp x21, x22, [sp, #-16]!
	stp x19, x20, [sp, #-16]!
	mov x9, sp
	str x9, [x0]
	mov sp, x1
	ldp x19, x20, [sp], #16
	ldp x21, x22, [sp], #16
	ldp x23, x24, [sp], #16
	ldp x25, x26, [sp], #16
	ldp x27, x28, [sp], #16
	ldp x29, x30, [sp], #16
	ret
	.size switch_stack, . - switch_stack

	.macro vector name, handler
	.type \name, %function
\name:
	sub sp, sp, #176
	stp x0, x1, [sp]
	stp x2, x3, [sp, #16]
	count \name, x0, x1
	stp x4, x5, [sp, #32]
	stp x6, x7, [sp, #48]
	stp x8, x9, [sp, #64]
	stp x10, x11, [sp, #80]
	stp x12, x13, [sp, #96]
	stp x14, x15, [sp, #112]
	stp x16, x17, [sp, #128]
	stp x18, x30, [sp, #144]
	mrs x0, elr_el1
	mrs x1, spsr_el1
	stp x0, x1, [sp, #160]
	mov x0, sp
	bl \handler
	ldp x0, x1, [sp, #160]
	msr elr_el1, x0
	msr spsr_el1, x1
	ldp x18, x30, [sp, #144]
	ldp x16, x17, [sp, #128]
	ldp x14, x15, [sp, #112]
	ldp x12, x13, [sp, #96]
	ldp x10, x11, [sp, #80]
	ldp x8, x9, [sp, #64]
	ldp x6, x7, [sp, #48]
	ldp x4, x5, [sp, #32]
	ldp x2, x3, [sp, #16]
	ldp x0, x1, [sp]
	add sp, sp, #176
	eret
	.size \name, . - \name
	.endm

	vector vector_call, handle_call
	vector vector_undefined, handle_undefined
	vector vector_fault, handle_fault
	vector vector_tick, handle_tick

	/* By the exception's class to the handler of its kind. */
	.type synchronous, %function
synchronous:
	stp x0, x1, [sp, #-16]!
	mrs x0, esr_el1
	lsr x0, x0, #26
	cmp x0, #0x15			/* SVC */
	ldp x0, x1, [sp], #16
	b.eq vector_call
	stp x0, x1, [sp, #-16]!
	mrs x0, esr_el1
	lsr x0, x0, #26
	cmp x0, #0x25			/* data abort at the same level */
	ldp x0, x1, [sp], #16
	b.eq vector_fault
	b vector_undefined
	.size synchronous, . - synchronous

	.balign 2048
	.globl vectors
vectors:
	.skip 0x200
	b synchronous			/* this level, its own stack pointer */
	.balign 128
	b vector_tick
	.org vectors + 0x800

	.bss
	.balign 16
	.skip 1 << 20
stack_top:
	.section .note.GNU-stack, "", %progbits
