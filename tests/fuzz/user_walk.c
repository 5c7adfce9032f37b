/* SPDX-License-Identifier: MIT */
/*
 * A walk of a program's stack that was copied, through a file with any tables. Input: flags, what
 * is missing of the file, depth, size of .eh_frame_hdr in 16 bytes, registers, words of the stack,
 * then the file from .eh_frame_hdr on. A word is one byte that says what it points into, and two
 * that say where.
 *
 * Covers: src/unwind/user_frame.c src/unwind/user_tables.c
 * src/unwind/signal_stack.c.
 */
#include "../unit/fake_machine.h"
#include "base/bytes.h"
#include "guest/guest-private.h"
#include "guest/operations.h"
#include "symbol/binary.h"
#include "unwind/signal_stack.h"
#include <elf.h>

enum {
	AARCH64 = 1,
	NO_HEADER = 2,	/* the file has no .eh_frame_hdr */
	SECTION = 4,	/* it has a section .eh_frame at the same place instead */
	OTHER_FILE = 8, /* the file is of the other architecture */
};

#define FILE_VA	   UINT64_C(0x0000555555550000)
#define FILE_SIZE  UINT64_C(0x10000)
#define NO_FILE_VA UINT64_C(0x00007f0000000000) /* code that was made at run time */
#define STACK	   UINT64_C(0x00007ffd00000000)
#define STACK_SIZE 0x400
#define TABLES	   UINT64_C(0x400) /* where the input begins in the file */
#define WORD	   3
#define N_REGS	   33
#define HEAD	   4
#define STACK_AT   (HEAD + N_REGS * WORD)
#define FILE_AT	   (STACK_AT + STACK_SIZE / 8 * WORD)

struct input {
	uint8_t flags, period;
	uint8_t head[TABLES];
	struct vms_bytes tables;
	struct vms_binary *binary;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t word(const uint8_t *bytes)
{
	static const uint64_t bases[] = { STACK, FILE_VA + TABLES,    FILE_VA, NO_FILE_VA,
					  0,	 UINT64_C(0xaa) << 56 };
	return bases[bytes[0] % G_N_ELEMENTS(bases)] + (bytes[1] | (uint64_t)bytes[2] << 8);
}

/* Writes the headers of a file that is mapped as a whole. */
static void write_head(struct input *input, size_t header_size)
{
	const bool is_aarch64 = !(input->flags & AARCH64) == !!(input->flags & OTHER_FILE);
	Elf64_Ehdr header = { .e_machine = is_aarch64 ? EM_AARCH64 : EM_X86_64,
			      .e_type = ET_DYN,
			      .e_phoff = sizeof(header),
			      .e_phentsize = sizeof(Elf64_Phdr),
			      .e_phnum = input->flags & NO_HEADER ? 1 : 2,
			      .e_shentsize = sizeof(Elf64_Shdr) };
	const Elf64_Phdr segments[] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = FILE_SIZE },
		{ .p_type = PT_GNU_EH_FRAME,
		  .p_offset = TABLES,
		  .p_vaddr = TABLES,
		  .p_filesz = header_size },
	};
	static const char names[] = "\0.eh_frame";
	const size_t names_at = 0x300, sections_at = 0x200;
	const Elf64_Shdr sections[] = {
		{ .sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = sizeof(names) },
		{ .sh_name = 1,
		  .sh_type = SHT_PROGBITS,
		  .sh_addr = TABLES,
		  .sh_offset = TABLES,
		  .sh_size = input->tables.size },
	};
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	if (input->flags & SECTION) {
		header.e_shoff = sections_at;
		header.e_shnum = G_N_ELEMENTS(sections);
	}
	memcpy(input->head, &header, sizeof(header));
	memcpy(input->head + sizeof(header), segments, sizeof(segments));
	memcpy(input->head + sections_at, sections, sizeof(sections));
	memcpy(input->head + names_at, names, sizeof(names));
}

/* Behind the input there are zeros. */
static bool read_file(void *data, uint64_t offset, void *buf, size_t size)
{
	const struct input *input = data;
	uint8_t *to = buf;
	for (size_t i = 0; i < size; i++, offset++) {
		const uint64_t at = offset - TABLES;
		if (offset < TABLES)
			to[i] = input->head[offset];
		else if (input->period && at / 64 % input->period == input->period - 1u)
			return false;
		else
			to[i] = at < input->tables.size ? input->tables.data[at] : 0;
	}
	return true;
}

static bool find_code(void *system, struct vms_memory *memory G_GNUC_UNUSED,
		      const struct vms_process *process G_GNUC_UNUSED, uint64_t va,
		      struct vms_mapping *ret)
{
	const struct input *input = system;
	const bool is_file = va >= FILE_VA && va < FILE_VA + FILE_SIZE;
	*ret = (struct vms_mapping) { .start = is_file ? FILE_VA : NO_FILE_VA,
				      .end = (is_file ? FILE_VA : NO_FILE_VA) + FILE_SIZE,
				      .binary = is_file ? input->binary : NULL };
	return va >= ret->start && va < ret->end;
}

static void check(const struct vms_stack *stack, unsigned depth, uint64_t read_end)
{
	g_assert_cmpuint(stack->n, >=, 1);
	g_assert_cmpuint(stack->n, <=, depth);
	g_assert_cmpuint(stack->n_kernel, ==, 0);
	g_assert_cmpuint(stack->end, <, VMS_WALK_N_ENDS);
	g_assert_cmpint(stack->end == VMS_WALK_DEPTH && stack->n < depth, ==, false);
	g_assert_true(read_end == 0 || (read_end > STACK && read_end <= STACK + STACK_SIZE));
	g_assert_false(stack->frame[0].is_return);
	for (unsigned i = 0; i < stack->n; i++)
		g_assert_true(stack->frame[i].is_user);
}

static void set_regs(const struct vms_arch *arch, const uint8_t *words, struct vms_regs *regs)
{
	*regs = (struct vms_regs) { 0 };
	for (unsigned i = 0; i < N_REGS - 1; i++)
		vms_regs_set(regs, i, word(words + i * WORD));
	vms_regs_set(regs, arch->pc, word(words + (N_REGS - 1) * WORD));
	if (arch == &vms_arch_x86_64)
		vms_regs_set(regs, (unsigned)vms_arch_reg(arch, "cs"), 0x33);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct vms_guest_ops ops = { .user_code = find_code };
	static const struct vms_process process = { .pid = 1 };
	static struct vms_stack stack;
	uint64_t words[STACK_SIZE / 8];
	struct vms_copied_stack copied = { .parts = { { STACK, (uint8_t *)words, STACK_SIZE } } };
	if (size < FILE_AT)
		return 0;
	struct input input = { data[0], data[1], .tables = { data + FILE_AT, size - FILE_AT } };
	input.tables.size = MIN(input.tables.size, FILE_SIZE - TABLES);
	const unsigned depth = data[2] % 64 + 1;
	const struct vms_arch *arch = data[0] & AARCH64 ? &vms_arch_aarch64 : &vms_arch_x86_64;
	write_head(&input, data[3] * 16u);
	const struct vms_file_source source = { FILE_SIZE, read_file, NULL, &input };
	input.binary = vms_binary_new("input", &source);
	for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
		words[i] = GUINT64_TO_LE(word(data + STACK_AT + i * WORD));
	set_regs(arch, data + HEAD, &copied.regs);
	uint64_t interrupted;
	vms_find_interrupted_stack(arch, &copied.parts[0], &interrupted);
	struct vms_machine *machine = fake_machine_new(arch, 1);
	struct vms_guest guest = { .machine = machine, .ops = &ops, .system = &input };
	struct vms_memory *memory = vms_memory_new(machine, fake_machine_regs(machine, 0));
	/* A second walk uses the rows that the first one has made. */
	for (int i = 0; i < 2; i++) {
		stack.n = stack.n_kernel = 0;
		stack.end = stack.kernel_end = VMS_WALK_ROOT;
		check(&stack, depth,
		      vms_walk_copied_user(&guest, memory, &process, &copied, depth, &stack));
	}
	vms_memory_free(memory);
	vms_machine_unref(machine);
	vms_binary_unref(input.binary);
	return 0;
}
