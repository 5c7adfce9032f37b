/* SPDX-License-Identifier: MIT */
/*
 * A walk through a stack of any content. Input: what kind of kernel, registers, 16 ORC entries,
 * words of the stack. A word is one byte that says what it points into, and two that say where.
 *
 * Covers: src/unwind/walk.c src/unwind/x86_64.c src/unwind/orc_step.c src/unwind/prologue.c
 * src/arch/x86_64.c.
 */
#include "../unit/fake_machine.h"
#include "arch/x86_64.h"
#include "guest/guest-private.h"
#include "guest/linux/kernel_code.h"
#include "guest/linux/linux.h"
#include "guest/linux/operations.h"
#include "unwind/copied_stack.h"

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

/* Every function has the same code: a prologue, calls of two kinds, an epilogue. */
static void add_code(struct vms_machine *machine)
{
	static const uint8_t code[] = {
		0x55,					  /* push %rbp */
		0x41, 0x54,				  /* push %r12 */
		0x48, 0x83, 0xec, 0x18,			  /* sub $0x18,%rsp */
		0x48, 0x81, 0xec, 0x00, 0x01, 0x00, 0x00, /* sub $0x100,%rsp */
		0x48, 0x81, 0xc4, 0x00, 0x01, 0x00, 0x00, /* add $0x100,%rsp */
		0xe8, 0x00, 0x00, 0x00, 0x00,		  /* call */
		0xff, 0xd0,				  /* call *%rax */
		0x41, 0x5c,				  /* pop %r12 */
		0x5d,					  /* pop %rbp */
		0xc3,					  /* ret */
	};
	uint8_t *text = fake_machine_add_ram(machine, TEXT, RULES * RULE_BYTES);
	for (unsigned i = 0; i < RULES; i++)
		memcpy(text + i * RULE_BYTES, code, sizeof(code));
}

static struct vms_symbol_table *make_symbols(void)
{
	struct vms_symbol_table *symbols = vms_symbol_table_new("vmlinux");
	for (unsigned i = 0; i < RULES; i++)
		vms_symbol_table_add(symbols, "function", TEXT + i * RULE_BYTES, 0, 't');
	vms_symbol_table_finish(symbols, TEXT + RULES * RULE_BYTES);
	return symbols;
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
	g_assert_nonnull(vms_walk_end_text(stack->end));
}

/*
 * Walks the same stack as a copy: with the same frames if all was copied. Then as a copy that ends
 * somewhere.
 */
static void check_copied(struct vms_guest *guest, struct vms_memory *memory,
			 const struct vms_regs *regs, const struct vms_stack *expected,
			 unsigned depth, size_t cut)
{
	static struct vms_stack copied;
	static uint8_t kernel[STACK_SIZE], user[STACK_SIZE];
	struct vms_copied_stack stack = {
		.regs = *regs,
		.parts = { { STACK, kernel, STACK_SIZE }, { USER_STACK, user, STACK_SIZE } },
	};
	g_assert_true(vms_memory_read(memory, STACK, kernel, STACK_SIZE));
	g_assert_true(vms_memory_read(memory, USER_STACK, user, STACK_SIZE));
	vms_walk_copied(guest, memory, &stack, depth, &copied);
	g_assert_cmpuint(copied.n_kernel, ==, expected->n_kernel);
	for (unsigned i = 0; i < copied.n_kernel; i++)
		g_assert_cmphex(copied.frame[i].pc, ==, expected->frame[i].pc);
	check(&copied, depth);
	stack.parts[0].size = cut;
	stack.parts[1].size = 0;
	vms_walk_copied(guest, memory, &stack, depth, &copied);
	check(&copied, depth);
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
	g_autoptr(vms_symbol_table) symbols = make_symbols();
	linux_guest.symbols = symbols;
	if (data[0] & 64)
		add_code(machine);
	if (data[0] & 16)
		linux_guest.orc = make_orc(data + 2 + N_REGS * WORD, data[0]);
	g_autoptr(vms_symbolizer) symbolizer = linux_guest.symbolizer = vms_symbolizer_new();
	vms_linux_map_image(&linux_guest);
	struct vms_guest guest = { .machine = machine,
				   .ops = &vms_linux_ops,
				   .system = data[0] & 32 ? NULL : &linux_guest,
				   .symbolizer = symbolizer };
	vms_machine_hold(machine, VMS_ALL_VCPUS, NULL);
	struct vms_memory *memory = vms_memory_new(machine, &regs);
	vms_walk(&guest, memory, &regs, depth, &stack);
	check(&stack, depth);
	if (guest.system)
		check_copied(&guest, memory, &regs, &stack, depth, data[1] * 16);
	vms_memory_free(memory);
	vms_machine_release(machine, VMS_ALL_VCPUS, NULL);
	vms_machine_unref(machine);
	vms_orc_free(linux_guest.orc);
	return 0;
}
