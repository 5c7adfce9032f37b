/* SPDX-License-Identifier: MIT */
/*
 * A walk through a stack of any content on aarch64. Input: what kind of guest, the depth,
 * registers, words of code, of the kernel's stack and of the user's. A word is one byte that says
 * what it points into, and two that say where.
 *
 * Covers: src/unwind/walk.c src/unwind/aarch64.c src/arch/aarch64_frame.c.
 */
#include "../unit/fake_machine.h"
#include "arch/aarch64.h"
#include "guest/guest-private.h"
#include "guest/linux/kernel_code.h"
#include "guest/linux/linux.h"
#include "guest/linux/operations.h"
#include <vmscope/unwind.h>

#define TEXT	   UINT64_C(0xffff800080000000)
#define STACK	   UINT64_C(0xffff800090000000)
#define USER_STACK UINT64_C(0x0000fffff0000000)
#define USER_CODE  UINT64_C(0x0000aaaab0000000)
#define AREA_SIZE  0x1000 /* of each of them */
#define WORD	   3
#define N_REGS	   7
#define HEAD	   (2 + N_REGS * WORD)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t word(const uint8_t *bytes)
{
	static const uint64_t bases[] = { STACK, TEXT, USER_STACK, USER_CODE, 0 };
	const uint64_t value = bytes[1] | (uint64_t)bytes[2] << 8;
	const uint64_t base = bases[bytes[0] % G_N_ELEMENTS(bases)];
	return base ? base + value % AREA_SIZE : value << (bytes[0] / 8 & 15);
}

static void check(const struct vms_stack *stack, unsigned depth)
{
	g_assert_cmpuint(stack->n, >=, 1);
	g_assert_cmpuint(stack->n, <=, depth);
	g_assert_cmpuint(stack->n_kernel, <=, stack->n);
	g_assert_cmpuint(stack->end, <, VMS_WALK_N_ENDS);
	for (unsigned i = 0; i < stack->n; i++)
		g_assert_cmpint(stack->frame[i].is_user, ==, i >= stack->n_kernel);
}

/* Calls and nothing else, so that many an address is one to which a call returns. */
static void fill_code(uint8_t *code)
{
	const uint32_t bl = 0x94000010;
	for (size_t i = 0; i < AREA_SIZE; i += 8)
		memcpy(code + i, &bl, sizeof(bl));
}

static struct vms_machine *make_machine(const uint8_t *data, size_t size)
{
	static const uint64_t areas[] = { STACK, USER_STACK, TEXT, USER_CODE };
	struct vms_machine *machine = fake_machine_new(&vms_arch_aarch64, 1);
	for (size_t i = 0; i < G_N_ELEMENTS(areas); i++) {
		uint8_t *area = fake_machine_add_ram(machine, areas[i], AREA_SIZE);
		if (areas[i] == TEXT || areas[i] == USER_CODE)
			fill_code(area);
	}
	for (size_t i = 0; (i + 1) * WORD <= size && i < G_N_ELEMENTS(areas) * AREA_SIZE / 8; i++)
		fake_machine_write_u64(machine, areas[i * 8 / AREA_SIZE] + i * 8 % AREA_SIZE,
				       word(data + i * WORD));
	return machine;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t regs_set[N_REGS] = { PC, SP, X29, X30, ELR_EL1, SPSR_EL1, SP_EL0 };
	static struct vms_stack stack;
	struct vms_regs regs = { 0 };
	if (size < HEAD)
		return 0;
	const unsigned depth = data[1] % 64 + 1;
	struct vms_machine *machine = make_machine(data + HEAD, size - HEAD);
	for (unsigned i = 0; i < N_REGS; i++)
		vms_regs_set(&regs, regs_set[i], word(data + 2 + i * WORD));
	vms_regs_set(&regs, CPSR, data[0] & 1 ? CPSR_EL0 : CPSR_EL1H);
	vms_regs_set(&regs, TCR_EL1, 16 | 16 << 16 | UINT64_C(2) << 30);

	struct vms_linux linux_guest = {
		.arch = &vms_arch_aarch64,
		.image = TEXT,
		.image_end = TEXT + AREA_SIZE,
		.text = { { TEXT, TEXT + AREA_SIZE } },
		.entry_text = { TEXT, TEXT + AREA_SIZE / 4 },
		.pt_regs_record = 304,
		.symbolizer = vms_symbolizer_new(),
		.symbols = vms_symbol_table_new("vmlinux"),
	};
	for (uint64_t va = TEXT; va < TEXT + AREA_SIZE; va += 64)
		vms_symbol_table_add(linux_guest.symbols, "function", va, 64, 't');
	vms_symbol_table_finish(linux_guest.symbols, TEXT + AREA_SIZE);
	vms_linux_map_image(&linux_guest);
	struct vms_guest guest = {
		.machine = machine,
		.ops = &vms_linux_ops,
		.system = data[0] & 2 ? NULL : &linux_guest,
		.symbolizer = linux_guest.symbolizer,
	};
	vms_machine_hold(machine, VMS_ALL_VCPUS, NULL);
	struct vms_memory *memory = vms_memory_new(machine, &regs);
	vms_walk(&guest, memory, &regs, depth, &stack);
	check(&stack, depth);
	vms_memory_free(memory);
	vms_machine_release(machine, VMS_ALL_VCPUS, NULL);
	vms_machine_unref(machine);
	vms_symbolizer_unref(guest.symbolizer);
	vms_symbol_table_unref(linux_guest.symbols);
	return 0;
}
