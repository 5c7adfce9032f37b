/* SPDX-License-Identifier: MIT */
/*
 * A walk through a stack of any content. Input: what kind of kernel, registers, 16 ORC entries,
 * words of the stack. A word is one byte that says what it points into, and two that say where.
 *
 * Covers: src/unwind/walk.c src/unwind/x86_64.c src/unwind/orc_step.c src/unwind/prologue.c.
 */
#include "../unit/fake_machine.h"
#include "arch/x86_64.h"
#include "guest/guest-private.h"
#include "guest/linux/linux.h"
#include <vmscope/unwind.h>

#define TEXT	   UINT64_C(0xffffffff81000000)
#define STACK	   UINT64_C(0xffffc90000010000)
#define USER_STACK UINT64_C(0x00007ffd00000000)
#define USER_CODE  UINT64_C(0x0000555555550000)
#define STACK_SIZE 0x1000
#define RULES	   16
#define RULE_BYTES 64 /* of code */
#define WORD	   3
#define N_REGS	   8
#define HEAD	   (2 + N_REGS * WORD + RULES * VMS_ORC_ENTRY_SIZE)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t word(const uint8_t *bytes)
{
	static const uint64_t bases[] = { STACK, TEXT, USER_STACK, USER_CODE, 0 };
	uint64_t value = bytes[1] | (uint64_t)bytes[2] << 8;
	uint64_t base = bases[bytes[0] % G_N_ELEMENTS(bases)];
	if (base == TEXT)
		value %= RULES * RULE_BYTES;
	else if (base == STACK || base == USER_STACK)
		value %= STACK_SIZE;
	return base + value;
}

static struct vms_orc *make_orc(const uint8_t *entries, unsigned flags)
{
	int32_t ip[RULES];
	for (int i = 0; i < RULES; i++)
		ip[i] = i * RULE_BYTES - i * VMS_ORC_IP_SIZE;
	return vms_orc_new((struct vms_bytes) { (const uint8_t *)ip, sizeof(ip) }, TEXT,
			   (struct vms_bytes) { entries, RULES * VMS_ORC_ENTRY_SIZE }, flags & 3,
			   flags & 4, NULL);
}

static void check(const struct vms_stack *stack, unsigned depth)
{
	g_assert_cmpuint(stack->n, >=, 1);
	g_assert_cmpuint(stack->n, <=, depth);
	g_assert_cmpuint(stack->n_kernel, <=, stack->n);
	g_assert_cmpuint(stack->end, <, VMS_WALK_N_ENDS);
	for (unsigned i = 0; i < stack->n; i++)
		g_assert_cmpint(stack->frame[i].is_user, ==, i >= stack->n_kernel);
	if (stack->n_kernel < stack->n)
		g_assert_cmpint(stack->kernel_end, ==, VMS_WALK_ROOT);
	g_assert_cmpint(stack->end == VMS_WALK_DEPTH && stack->n < depth, ==, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t regs_set[N_REGS] = { RIP, RSP, RBP, RAX, RDX, RDI, R10, R13 };
	static struct vms_stack stack;
	struct vms_regs regs = { 0 };
	if (size < HEAD)
		return 0;
	const unsigned depth = data[1] % 64 + 1;
	struct vms_machine *machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(machine, STACK, STACK_SIZE);
	fake_machine_add_ram(machine, USER_STACK, STACK_SIZE);
	for (size_t i = 0; HEAD + (i + 1) * WORD <= size && i < 2 * STACK_SIZE / 8; i++) {
		uint64_t at = i * 8 < STACK_SIZE ? STACK + i * 8 : USER_STACK + i * 8 - STACK_SIZE;
		fake_machine_write_u64(machine, at, word(data + HEAD + i * WORD));
	}
	for (unsigned i = 0; i < N_REGS; i++)
		vms_regs_set(&regs, regs_set[i], word(data + 2 + i * WORD));
	vms_regs_set(&regs, CS, data[0] & 8 ? 0x33 : 0x10);

	const uint64_t text_end = TEXT + RULES * RULE_BYTES;
	struct vms_linux linux_guest = {
		.arch = &vms_arch_x86_64,
		.image = TEXT,
		.image_end = text_end,
		.text = { { TEXT, text_end } },
	};
	if (data[0] & 16)
		linux_guest.orc = make_orc(data + 2 + N_REGS * WORD, data[0]);
	g_autoptr(GArray) symbol_files =
		g_array_new(FALSE, FALSE, sizeof(struct vms_guest_symbols));
	struct vms_guest guest = { .kind = data[0] & 32 ? VMS_GUEST_NONE : VMS_GUEST_LINUX,
				   .linux_guest = &linux_guest,
				   .symbol_files = symbol_files };
	vms_machine_hold(machine, VMS_ALL_VCPUS, NULL);
	struct vms_memory *memory = vms_memory_new(machine, &regs);
	vms_walk(&guest, memory, &regs, depth, &stack);
	check(&stack, depth);
	vms_memory_free(memory);
	vms_machine_release(machine, VMS_ALL_VCPUS, NULL);
	vms_machine_unref(machine);
	vms_orc_free(linux_guest.orc);
	return 0;
}
