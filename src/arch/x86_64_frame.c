/* SPDX-License-Identifier: MIT */
/*
 * Calls and frames of x86 in 64-bit and 32-bit code. A function with a frame pointer begins with
 * push %rbp; mov %rsp,%rbp, and ends with a return after it has taken its caller's back.
 */
#include "arch/x86_64.h"
#include <string.h>

bool vms_x86_64_is_after_call(const struct vms_reader *virt, uint64_t pc)
{
	enum { LONGEST = 7 };
	static const uint8_t indirect_sizes[] = { 2, 3, 4, 6, 7 };
	uint8_t code[LONGEST];
	if (!virt->read(virt->data, pc - LONGEST, code, LONGEST))
		return false;
	if (code[LONGEST - 5] == 0xe8)
		return true;
	for (size_t i = 0; i < G_N_ELEMENTS(indirect_sizes); i++) {
		const uint8_t *insn = code + LONGEST - indirect_sizes[i];
		if (insn[0] == 0xff && (insn[1] >> 3 & 7) == 2)
			return true;
	}
	return false;
}

/* Reads words of the stack. Each has `size` bytes: 4 or 8. */
static bool read_words(const struct vms_reader *virt, uint64_t va, size_t size, uint64_t *words,
		       size_t n)
{
	uint32_t narrow[2];
	if (size == sizeof(*words))
		return virt->read(virt->data, va, words, n * size);
	g_assert(n <= G_N_ELEMENTS(narrow));
	if (!virt->read(virt->data, va, narrow, n * size))
		return false;
	for (size_t i = 0; i < n; i++)
		words[i] = GUINT32_FROM_LE(narrow[i]);
	return true;
}

bool vms_x86_64_step_frame(struct vms_regs *regs, const struct vms_reader *virt)
{
	struct vms_code_mode mode = { .bits = 64 };
	uint64_t frame[2]; /* the caller's frame pointer, the return address */
	uint64_t fp = regs->value[RBP];
	vms_x86_64_code_mode(regs, &mode);
	size_t word = mode.bits / 8;
	if (word < sizeof(uint32_t) || fp == 0 || fp % word != 0 ||
	    !read_words(virt, fp, word, frame, G_N_ELEMENTS(frame)))
		return false;
	if (frame[1] == 0)
		return false;
	vms_regs_set(regs, RBP, frame[0]);
	vms_regs_set(regs, RIP, frame[1]);
	if (mode.bits != 64)
		vms_arch_flatten(&vms_arch_x86_64, regs);
	vms_regs_set(regs, RSP, fp + 2 * word);
	return true;
}

/* Code around the program counter at which the frame pointer is the caller's. */
static const struct edge {
	unsigned bits;	 /* of the code; 0: any */
	unsigned before; /* bytes of `code` that have been executed */
	unsigned words;	 /* that they have put on the stack */
	unsigned size;
	uint8_t code[8];
} edges[] = {
	/* push %rbp; mov %rsp,%rbp, maybe after endbr64 */
	{ 64, 0, 0, 4, { 0x55, 0x48, 0x89, 0xe5 } },
	{ 64, 1, 1, 4, { 0x55, 0x48, 0x89, 0xe5 } },
	{ 64, 0, 0, 8, { 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5 } },
	/* push %ebp; mov %esp,%ebp, maybe after endbr32 */
	{ 32, 0, 0, 3, { 0x55, 0x89, 0xe5 } },
	{ 32, 1, 1, 3, { 0x55, 0x89, 0xe5 } },
	{ 32, 0, 0, 7, { 0xf3, 0x0f, 0x1e, 0xfb, 0x55, 0x89, 0xe5 } },
	/* ret; repz ret; ret $N */
	{ 0, 0, 0, 1, { 0xc3 } },
	{ 0, 0, 0, 2, { 0xf3, 0xc3 } },
	{ 0, 0, 0, 1, { 0xc2 } },
};

static const struct edge *find_edge(const struct vms_reader *virt, uint64_t pc, unsigned bits)
{
	uint8_t code[1 + sizeof(edges->code)]; /* from the byte before `pc` on */
	size_t n = sizeof(code);	       /* fewer at the end of what is mapped */
	while (n > 1 && !virt->read(virt->data, pc - 1, code, n))
		n--;
	for (size_t i = 0; i < G_N_ELEMENTS(edges); i++) {
		const struct edge *edge = &edges[i];
		const size_t at = 1 - edge->before;
		if ((edge->bits == 0 || edge->bits == bits) && at + edge->size <= n &&
		    memcmp(code + at, edge->code, edge->size) == 0)
			return edge;
	}
	return NULL;
}

bool vms_x86_64_step_frameless(struct vms_regs *regs, const struct vms_reader *virt)
{
	struct vms_code_mode mode = { .bits = 64 };
	uint64_t ret;
	vms_x86_64_code_mode(regs, &mode);
	const size_t word = mode.bits / 8;
	const struct edge *edge =
		word < sizeof(uint32_t) ? NULL : find_edge(virt, regs->value[RIP], mode.bits);
	if (!edge)
		return false;
	const uint64_t at = regs->value[RSP] + edge->words * word;
	if (!read_words(virt, at, word, &ret, 1))
		return false;
	if (mode.bits == 32)
		ret = (uint32_t)(ret + mode.code_base);
	if (!vms_x86_64_is_after_call(virt, ret))
		return false;
	vms_regs_set(regs, RIP, ret);
	vms_regs_set(regs, RSP, at + word);
	return true;
}
