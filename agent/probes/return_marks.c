/* SPDX-License-Identifier: MIT */
#include "agent/probes/return_marks.h"

/* A mark for every four bytes of a page. All pages share the marks. Each vCPU has its own marks. */
#define MARKS	  1024u
#define PAGE_MASK UINT64_C(0xfff)
static struct {
	struct qemu_plugin_scoreboard *score;
	_Atomic uint64_t set[MARKS / 64]; /* bit: the mark of this number is set */
} returns;

bool returns_init(void)
{
	returns.score = qemu_plugin_scoreboard_new(MARKS * sizeof(uint64_t));
	return returns.score;
}

static unsigned find_mark_number(uint64_t va)
{
	return (unsigned)((va & PAGE_MASK) / 4);
}

static qemu_plugin_u64 get_mark(unsigned number)
{
	return (qemu_plugin_u64) { returns.score, number * sizeof(uint64_t) };
}

qemu_plugin_u64 returns_mark(uint64_t va)
{
	return get_mark(find_mark_number(va));
}

static void set_mark_for_all_vcpus(unsigned number, uint64_t value)
{
	for (unsigned i = 0; i < vcpus_max(); i++)
		if (vcpu_is_there(i))
			qemu_plugin_u64_set(get_mark(number), i, value);
}

void returns_watch(uint64_t va)
{
	const unsigned number = find_mark_number(va);
	const uint64_t bit = UINT64_C(1) << number % 64;
	_Atomic uint64_t *word = &returns.set[number / 64];
	if (!(atomic_load_explicit(word, memory_order_relaxed) & bit) &&
	    !(atomic_fetch_or(word, bit) & bit))
		set_mark_for_all_vcpus(number, 1);
}

void returns_forget(void)
{
	for (unsigned i = 0; i < MARKS; i++)
		if (atomic_fetch_and(&returns.set[i / 64], ~(UINT64_C(1) << i % 64)) >> i % 64 & 1)
			set_mark_for_all_vcpus(i, 0);
}

void returns_begin_vcpu(unsigned vcpu)
{
	for (unsigned i = 0; i < MARKS; i++)
		qemu_plugin_u64_set(get_mark(i), vcpu,
				    atomic_load(&returns.set[i / 64]) >> i % 64 & 1);
}

/* ---- keys ------------------------------------------------------------------------- */

/* Returns the address space of the code at `va`; 0: code of the kernel, which all spaces share. */
static uint64_t read_address_space(struct vcpu *vcpu, uint64_t va)
{
	const struct arch *arch = vcpu_arch();
	uint64_t root = 0;
	if ((int64_t)va >= 0)
		vcpu_read(vcpu, arch->program_root, &root);
	return root & arch->program_root_mask;
}

bool returns_key_of_call(struct vcpu *vcpu, uint64_t function, struct call_key *ret)
{
	const struct arch *arch = vcpu_arch();
	ret->space = read_address_space(vcpu, function);
	if (!vcpu_read(vcpu, arch->sp, &ret->sp))
		return false;
	if (arch->return_address != ARCH_ON_STACK)
		return vcpu_read(vcpu, arch->return_address, &ret->pc);
	if (!vcpu_read_memory(vcpu, ret->sp, &ret->pc, sizeof(ret->pc)))
		return false;
	ret->sp += sizeof(ret->pc);
	return true;
}

struct call_key returns_key_of_block(struct vcpu *vcpu, uint64_t pc)
{
	struct call_key key = { .pc = pc, .space = read_address_space(vcpu, pc) };
	vcpu_read(vcpu, vcpu_arch()->sp, &key.sp);
	return key;
}
