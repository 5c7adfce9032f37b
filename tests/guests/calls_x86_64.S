/* SPDX-License-Identifier: MIT */
/* Stacks and interrupt vectors of calls_bare.c. */
	.text
	.macro function name
	.globl \name
	.type \name, @function
\name:
	incq count_\name(%rip)
	.endm

	function switch_stack
	pushq %rbx
	pushq %rbp
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbp
	popq %rbx
	ret
	.size switch_stack, . - switch_stack

	/* `error`: bytes of the error code that the processor pushes. */
	.macro vector name, handler, error=0
	function \name
	.if \error
	leaq \error(%rsp), %rsp
	.endif
	.irp register, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11
	pushq %\register
	.endr
	cld
	movq %rsp, %rdi
	call \handler
	.irp register, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
	popq %\register
	.endr
	iretq
	.size \name, . - \name
	.endm

	vector vector_call, handle_call
	vector vector_undefined, handle_undefined
	vector vector_fault, handle_fault, 8
	vector vector_tick, handle_tick
	.section .note.GNU-stack, "", @progbits
