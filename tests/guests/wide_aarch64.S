/* SPDX-License-Identifier: MIT */
/* The same as wide_x86_64.S: byte i of vector register n is 16 n + i / 2 + 128 (i % 2), in 8 bits. */
	.text
	.globl start
	.type start, %function
start:
	mov x0, #3 << 20		/* CPACR_EL1.FPEN */
	msr cpacr_el1, x0
	isb
	ldr x1, =values
	mov x0, xzr
1:	lsr x2, x0, #4
	lsl x2, x2, #4
	ubfx x3, x0, #1, #3
	add x2, x2, x3
	and x3, x0, #1
	add x2, x2, x3, lsl #7
	strb w2, [x1, x0]
	add x0, x0, #1
	cmp x0, #32 * 16
	b.ne 1b

	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	ldr q\n, [x1, #\n * 16]
	.endr
	ldr x2, =0x09000000		/* the serial port */
	ldr x3, =ready
2:	ldrb w0, [x3], #1
	strb w0, [x2]
	cmp w0, #10
	b.ne 2b
	.globl wide_nop
wide_nop:
	nop
	mov x0, #20000
3:	subs x0, x0, #1
	b.ne 3b
	b wide_nop
	.size start, . - start

	.data
ready:	.ascii "READY\n"
	.bss
	.balign 16
values:	.skip 32 * 16
	.section .note.GNU-stack, "", %progbits
