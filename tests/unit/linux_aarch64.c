/* SPDX-License-Identifier: MIT */
/* Linux on aarch64: its stacks, its tasks and its image, in memory laid out by hand. */
#include "arch/aarch64.h"
#include "fake_linux.h"
#include "fake_machine.h"
#include "guest/guest-private.h"
#include "guest/kernel_code.h"
#include "guest/linux/kernel_code.h"
#include "guest/linux/kernel_image.h"
#include "guest/linux/operations.h"
#include "guest/linux/task.h"
#include "guest/linux/trampoline.h"
#include "guest/linux/unlisted_symbols.h"
#include <vmscope/unwind.h>

#define TEXT	   UINT64_C(0xffff800080000000)
#define TEXT_SIZE  0x10000
#define ENTRY	   (TEXT + 0x8000)
#define ENTRY_SIZE 0x1000
#define FUNCTION   0x100 /* bytes of each function but the entry code */
#define STACK	   UINT64_C(0xffff800082000000)
#define STACK_SIZE 0x4000
#define USER_CODE  UINT64_C(0x0000aaaab0000000)
#define USER_STACK UINT64_C(0x0000fffff0000000)
#define TRAMPOLINE UINT64_C(0xfffffbfffdbf6000)
#define RECORD	   304 /* of the frame record in struct pt_regs */
#define PAC	   UINT64_C(0x0055000000000000)

#define BL_NEXT 0x94000001u
#define NOP	0xd503201fu
#define EL1H	UINT64_C(0x60400005)
#define EL0	UINT64_C(0x60000000)

struct fixture {
	struct vms_machine *machine;
	struct vms_linux linux_guest;
	struct vms_guest guest;
	struct vms_memory *memory;
	struct vms_regs regs;
	struct vms_stack stack;
};

/* A function of the kernel's, by its number; its code calls something at every second place. */
static uint64_t function(unsigned n)
{
	return TEXT + n * FUNCTION;
}

/* An address behind a call in that function. */
static uint64_t in_function(unsigned n)
{
	return function(n) + 0x24;
}

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	f->machine = fake_machine_new(&vms_arch_aarch64, 1);
	uint8_t *text = fake_machine_add_ram(f->machine, TEXT, TEXT_SIZE);
	fake_machine_add_ram(f->machine, STACK, STACK_SIZE);
	fake_machine_add_ram(f->machine, USER_CODE, 0x1000);
	fake_machine_add_ram(f->machine, USER_STACK, STACK_SIZE);
	for (unsigned i = 0; i < TEXT_SIZE; i += 8)
		memcpy(text + i, (const uint32_t[]) { BL_NEXT, NOP }, 8);
	g_assert_true(vms_machine_hold(f->machine, VMS_ALL_VCPUS, NULL));
	vms_regs_set(&f->regs, TCR_EL1, 16 | 16 << 16 | UINT64_C(2) << 30); /* 48 bits */
	vms_regs_set(&f->regs, CPSR, EL1H);
	vms_regs_set(&f->regs, SP, STACK + 0x1000);
	vms_regs_set(&f->regs, X29, STACK + 0x1000);
	vms_regs_set(&f->regs, X30, 0);
	f->memory = vms_memory_new(f->machine, &f->regs);
	f->linux_guest = (struct vms_linux) {
		.machine = f->machine,
		.arch = &vms_arch_aarch64,
		.memory = f->memory,
		.image = TEXT,
		.image_end = TEXT + TEXT_SIZE,
		.text = { { TEXT, TEXT + TEXT_SIZE } },
		.entry_text = { ENTRY, ENTRY + ENTRY_SIZE },
		.pt_regs_record = RECORD,
		.symbolizer = vms_symbolizer_new(),
		.symbols = vms_symbol_table_new("vmlinux"),
	};
	for (uint64_t va = TEXT; va < ENTRY; va += FUNCTION)
		vms_symbol_table_add(f->linux_guest.symbols, "function", va, FUNCTION, 't');
	vms_symbol_table_add(f->linux_guest.symbols, "entry", ENTRY, ENTRY_SIZE, 't');
	vms_symbol_table_finish(f->linux_guest.symbols, TEXT + TEXT_SIZE);
	vms_linux_map_image(&f->linux_guest);
	f->guest = (struct vms_guest) {
		.machine = f->machine,
		.ops = &vms_linux_ops,
		.system = &f->linux_guest,
		.symbolizer = f->linux_guest.symbolizer,
	};
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	vms_symbol_table_unref(f->linux_guest.symbols);
	vms_symbolizer_unref(f->guest.symbolizer);
	vms_memory_free(f->memory);
	g_assert_true(vms_machine_release(f->machine, VMS_ALL_VCPUS, NULL));
	vms_machine_unref(f->machine);
}

static void put_word(struct fixture *f, uint64_t va, uint64_t value)
{
	fake_machine_write_u64(f->machine, va, value);
}

static void put_record(struct fixture *f, uint64_t va, uint64_t fp, uint64_t pc)
{
	put_word(f, va, fp);
	put_word(f, va + 8, pc);
}

/* struct pt_regs at `va`, with a record of zeros where it is the last one of a stack. */
static void put_regs(struct fixture *f, uint64_t va, uint64_t fp, uint64_t link, uint64_t sp,
		     uint64_t pc, uint64_t pstate)
{
	const bool last = (pstate & CPSR_EL_MASK) == 0 || pc == 0;
	put_word(f, va + 29 * 8, fp);
	put_word(f, va + 30 * 8, link);
	put_word(f, va + 31 * 8, sp);
	put_word(f, va + 32 * 8, pc);
	put_word(f, va + 33 * 8, pstate);
	put_record(f, va + RECORD, last ? 0 : fp, last ? 0 : pc);
}

static void walk(struct fixture *f, uint64_t pc)
{
	vms_regs_set(&f->regs, PC, pc);
	/* A new hold: what was read under the last one is not true any more. */
	g_assert_true(vms_machine_release(f->machine, VMS_ALL_VCPUS, NULL));
	g_assert_true(vms_machine_hold(f->machine, VMS_ALL_VCPUS, NULL));
	vms_walk(&f->guest, f->memory, &f->regs, VMS_STACK_LIMIT, &f->stack);
}

static void check(const struct fixture *f, enum vms_walk_end end, unsigned n, const uint64_t *pcs)
{
	for (unsigned i = 0; i < MIN(n, f->stack.n); i++)
		g_assert_cmphex(f->stack.frame[i].pc, ==, pcs[i]);
	g_assert_cmpuint(f->stack.n, ==, n);
	g_assert_cmpint(f->stack.end, ==, end);
}
#define CHECK(f, end, ...)                                                                         \
	do {                                                                                       \
		const uint64_t pcs_[] = { __VA_ARGS__ };                                           \
		check(f, end, G_N_ELEMENTS(pcs_), pcs_);                                           \
	} while (0)

/* What a kernel thread's stack ends with: zeros, registers of user mode that it does not have. */
static void put_end(struct fixture *f, uint64_t va)
{
	put_regs(f, va, 0, 0, 0, 0, EL1H);
}

static void test_records(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	put_record(f, STACK + 0x1000, STACK + 0x1040, in_function(2) ^ PAC);
	put_record(f, STACK + 0x1040, STACK + 0x2000 + RECORD, in_function(3));
	put_end(f, STACK + 0x2000);
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_ROOT, in_function(1), in_function(2), in_function(3));
	g_assert_false(f->stack.frame[0].is_return);
	g_assert_true(f->stack.frame[1].is_return);
	g_assert_cmphex(f->stack.frame[0].sp, ==, STACK + 0x1000);
	g_assert_cmphex(f->stack.frame[1].sp, ==, STACK + 0x1010);
	g_assert_cmphex(f->stack.frame[2].sp, ==, STACK + 0x1050);
	g_assert_cmpuint(f->stack.n_kernel, ==, 3);
}

/* x30 is the way out of a function without a record, and of no other. */
static void test_link_register(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	put_record(f, STACK + 0x1000, STACK + 0x2000 + RECORD, in_function(3));
	put_end(f, STACK + 0x2000);
	vms_regs_set(&f->regs, X30, in_function(2) ^ PAC);
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_ROOT, in_function(1), in_function(2), in_function(3));
	vms_regs_set(&f->regs, X30, in_function(1) + 8); /* it has called something */
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_ROOT, in_function(1), in_function(3));
	vms_regs_set(&f->regs, X30, in_function(3)); /* the record is there, too */
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_ROOT, in_function(1), in_function(3));
	vms_regs_set(&f->regs, X30, in_function(2) + 4); /* behind no call */
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_ROOT, in_function(1), in_function(3));
}

/* An interrupt came while the kernel was in a leaf, on a stack of its own. */
static void test_interrupt(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	put_record(f, STACK + 0x1000, STACK + 0x1100 + RECORD, ENTRY + 0x84);
	put_regs(f, STACK + 0x1100, STACK + 0x2000, in_function(3), STACK + 0x1100 + 336,
		 in_function(2), EL1H);
	put_record(f, STACK + 0x2000, STACK + 0x3000 + RECORD, in_function(4));
	put_end(f, STACK + 0x3000);
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_ROOT, in_function(1), ENTRY + 0x84, in_function(2), in_function(3),
	      in_function(4));
	g_assert_false(f->stack.frame[2].is_return);
}

static void put_user_stack(struct fixture *f)
{
	put_record(f, USER_STACK + 0x100, USER_STACK + 0x200, USER_CODE + 0x10);
	put_record(f, USER_STACK + 0x200, 0, USER_CODE + 0x20);
}

static void test_system_call(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	put_user_stack(f);
	put_record(f, STACK + 0x1000, STACK + 0x1100 + RECORD, ENTRY + 0x84);
	put_regs(f, STACK + 0x1100, USER_STACK + 0x100, USER_CODE + 0x40, USER_STACK, USER_CODE,
		 EL0);
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_ROOT, in_function(1), ENTRY + 0x84, USER_CODE, USER_CODE + 0x10,
	      USER_CODE + 0x20);
	g_assert_cmpuint(f->stack.n_kernel, ==, 2);
	g_assert_true(f->stack.frame[2].is_user);
}

/* Entry code, before it has saved anything, and when it has saved all. */
static void test_entry_code(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	put_user_stack(f);
	vms_regs_set(&f->regs, X29, USER_STACK + 0x100);
	vms_regs_set(&f->regs, ELR_EL1, USER_CODE);
	vms_regs_set(&f->regs, SPSR_EL1, EL0);
	vms_regs_set(&f->regs, SP_EL0, USER_STACK);
	walk(f, ENTRY + 4);
	CHECK(f, VMS_WALK_ROOT, ENTRY + 4, USER_CODE, USER_CODE + 0x10, USER_CODE + 0x20);

	put_regs(f, STACK + 0x1000, USER_STACK + 0x200, 0, USER_STACK, USER_CODE + 4, EL0);
	vms_regs_set(&f->regs, X29, 0); /* cleared, after it was saved */
	walk(f, ENTRY + 4);
	CHECK(f, VMS_WALK_ROOT, ENTRY + 4, USER_CODE, USER_CODE + 0x20);
	vms_regs_set(&f->regs, X29, STACK + 0x1000 + RECORD);
	walk(f, ENTRY + 4);
	CHECK(f, VMS_WALK_ROOT, ENTRY + 4, USER_CODE + 4, USER_CODE + 0x20);

	vms_regs_forget(&f->regs, ELR_EL1);
	vms_regs_set(&f->regs, X29, USER_STACK);
	walk(f, ENTRY + 4);
	CHECK(f, VMS_WALK_NO_INFO, ENTRY + 4);
}

/* What no kernel leaves on a stack ends the walk. */
static void test_damage(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	put_record(f, STACK + 0x1000, STACK + 0x1000, in_function(2));
	walk(f, in_function(1));
	g_assert_cmpint(f->stack.end, ==, VMS_WALK_BAD_FRAME);
	g_assert_cmpuint(f->stack.n, <, 16);
	put_record(f, STACK + 0x1000, STACK + 0x1040, STACK); /* not code */
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_BAD_FRAME, in_function(1));
	put_record(f, STACK + 0x1000, STACK + STACK_SIZE, in_function(2));
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_UNREADABLE, in_function(1), in_function(2));
	put_record(f, STACK + 0x1000, STACK + 0x1003, in_function(2));
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_NO_INFO, in_function(1), in_function(2));
	/* User registers whose program counter is the kernel's. */
	put_record(f, STACK + 0x1000, STACK + 0x1100 + RECORD, ENTRY + 0x84);
	put_regs(f, STACK + 0x1100, 0, 0, USER_STACK, in_function(1), EL0);
	walk(f, in_function(1));
	CHECK(f, VMS_WALK_BAD_FRAME, in_function(1), ENTRY + 0x84);
}

/* ---- tasks ------------------------------------------------------------ */

#define TASKS	   UINT64_C(0xffff000000000000)
#define TASK(n)	   (TASKS + (n)*0x400)
#define PERCPU	   (TASKS + 0x8000)
#define ENTRY_TASK 0x40
#define CONTEXT	   0x200
#define ON_CPU	   0x60

static struct vms_linux *new_guest(struct vms_machine *machine)
{
	static const struct fake_symbol symbols[] = { { "init_task", TASK(0) },
						      { "__entry_task", ENTRY_TASK },
						      { NULL, 0 } };
	static const struct encoder_member task[] = {
		{ "tgid", 0, 4 },
		{ "pid", 4, 4 },
		{ "mm", 8, 8 },
		{ "comm", 0x10, 16 },
		{ "exit_state", 0x20, 4 },
		{ "__state", 0x24, 4 },
		{ "real_parent", 0x28, 8 },
		{ "group_leader", 0x30, 8 },
		{ "signal", 0x38, 8 },
		{ "tasks", 0x40, 16 },
		{ "thread_node", 0x50, 16 },
		{ "on_cpu", ON_CPU, 4 },
	};
	static const struct encoder_member signal[] = { { "thread_head", 8, 16 } };
	static const struct encoder_member mm[] = { { "pgd", 0, 8 } };
	struct encoder encoder = encoder_new();
	put_structure(&encoder, "task_struct", 0x400, G_N_ELEMENTS(task), task);
	put_structure(&encoder, "signal_struct", 0x40, 1, signal);
	put_structure(&encoder, "mm_struct", 8, 1, mm);
	struct vms_linux *guest = fake_linux_new(machine, symbols, finish(&encoder));
	guest->tasks = vms_linux_tasks_new(guest);
	g_assert_nonnull(guest->tasks);
	return guest;
}

static void test_current(void)
{
	g_autoptr(vms_machine) machine = fake_machine_new(&vms_arch_aarch64, 1);
	fake_machine_add_ram(machine, TASKS, 0x10000);
	struct vms_linux *guest = new_guest(machine);
	struct vms_regs regs = { 0 };
	struct vms_task task;
	for (unsigned i = 1; i <= 3; i++) {
		const uint32_t pid = i, on_cpu = i < 3;
		memcpy(fake_machine_at(machine, TASK(i) + 4), &pid, sizeof(pid));
		memcpy(fake_machine_at(machine, TASK(i) + ON_CPU), &on_cpu, sizeof(on_cpu));
		fake_machine_write_u64(machine, TASK(i) + 0x28, TASK(0));
		fake_machine_write_u64(machine, TASK(i) + 0x30, TASK(i));
	}
	fake_machine_write_u64(machine, PERCPU + ENTRY_TASK, TASK(2));
	vms_regs_set(&regs, CPSR, EL1H);
	vms_regs_set(&regs, SP_EL0, TASK(1));
	vms_regs_set(&regs, TPIDR_EL1, PERCPU);
	g_assert_true(vms_linux_current(guest, guest->memory, &regs, &task));
	g_assert_cmpuint(task.tid, ==, 1);
	/* Just entered: it is the user's stack pointer still; or a pointer to what is no such task.
	 */
	vms_regs_set(&regs, SP_EL0, USER_STACK);
	g_assert_true(vms_linux_current(guest, guest->memory, &regs, &task));
	g_assert_cmpuint(task.tid, ==, 2);
	vms_regs_set(&regs, SP_EL0, TASK(3));
	g_assert_true(vms_linux_current(guest, guest->memory, &regs, &task));
	g_assert_cmpuint(task.tid, ==, 2);
	vms_regs_set(&regs, SP_EL0, TASK(1)); /* a user's stack pointer may be anything */
	vms_regs_set(&regs, CPSR, EL0);
	g_assert_true(vms_linux_current(guest, guest->memory, &regs, &task));
	g_assert_cmpuint(task.tid, ==, 2);
	fake_machine_write_u64(machine, PERCPU + ENTRY_TASK, TASK(3));
	g_assert_false(vms_linux_current(guest, guest->memory, &regs, &task));
	vms_regs_forget(&regs, TPIDR_EL1);
	g_assert_false(vms_linux_current(guest, guest->memory, &regs, &task));
	vms_linux_free(guest);
}

/* ---- the image -------------------------------------------------------- */

#define TABLES	 UINT64_C(0x100000)
#define BLOCK	 UINT64_C(0x200000)
#define TABLE	 3
#define READ	 1
#define NO_CODE	 (UINT64_C(3) << 53)
#define IMAGE_PA UINT64_C(0x40200000)

/* A gigabyte from 0xffff800000000000 on, in blocks of 2 MiB. */
static void map_block(struct vms_machine *machine, unsigned index, uint64_t pa, bool code)
{
	fake_machine_write_u64(machine, TABLES + 0x2000 + index * 8,
			       pa | READ | (code ? 0 : NO_CODE));
}

/* Between modules, the memory of others, and holes. */
static void test_image(void)
{
	g_autoptr(vms_machine) machine = fake_machine_new(&vms_arch_aarch64, 1);
	struct vms_regs regs = { 0 };
	uint64_t steps = VMS_PAGE_STEPS;
	fake_machine_add_ram(machine, TABLES, 0x3000);
	fake_machine_write_u64(machine, TABLES + 256 * 8, (TABLES + 0x1000) | TABLE);
	fake_machine_write_u64(machine, TABLES + 0x1000, (TABLES + 0x2000) | TABLE);
	vms_regs_set(&regs, SCTLR_EL1, 1);
	vms_regs_set(&regs, TCR_EL1, 16 | 16 << 16 | UINT64_C(2) << 30);
	vms_regs_set(&regs, TTBR1_EL1, TABLES);
	g_autoptr(vms_memory) memory = vms_memory_new(machine, &regs);
	g_assert_null(vms_kernel_image_map(memory, &vms_linux_aarch64, &steps));

	map_block(machine, 1, 0x50000000, true); /* a module */
	map_block(machine, 2, 0x60000000, true); /* its neighbour, from elsewhere */
	map_block(machine, 3, 0x60200000, false);
	map_block(machine, 8, IMAGE_PA, true);
	map_block(machine, 9, IMAGE_PA + BLOCK, true);
	map_block(machine, 10, IMAGE_PA + 2 * BLOCK, false);
	map_block(machine, 11, 0x70000000, false);
	map_block(machine, 13, IMAGE_PA + 5 * BLOCK, false);
	map_block(machine, 14, 0x50200000, true);
	map_block(machine, 200, IMAGE_PA + 192 * BLOCK, false); /* too far away */
	static const unsigned expected[] = { 8, 9, 10, 13 };
	g_autoptr(GArray) pages = vms_kernel_image_map(memory, &vms_linux_aarch64, &steps);
	g_assert_cmpuint(pages->len, ==, G_N_ELEMENTS(expected));
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++)
		g_assert_cmphex(g_array_index(pages, struct vms_page, i).va, ==,
				0xffff800000000000 + expected[i] * BLOCK);
}

/* One that is larger than any kernel's ends where that would. */
static void test_large_image(void)
{
	enum { MOST = 128 }; /* blocks: 256 MiB */
	g_autoptr(vms_machine) machine = fake_machine_new(&vms_arch_aarch64, 1);
	struct vms_regs regs = { 0 };
	uint64_t steps = VMS_PAGE_STEPS;
	fake_machine_add_ram(machine, TABLES, 0x3000);
	fake_machine_write_u64(machine, TABLES + 256 * 8, (TABLES + 0x1000) | TABLE);
	fake_machine_write_u64(machine, TABLES + 0x1000, (TABLES + 0x2000) | TABLE);
	vms_regs_set(&regs, SCTLR_EL1, 1);
	vms_regs_set(&regs, TCR_EL1, 16 | 16 << 16 | UINT64_C(2) << 30);
	vms_regs_set(&regs, TTBR1_EL1, TABLES);
	for (unsigned i = 0; i < MOST + 2; i++)
		map_block(machine, i, IMAGE_PA + i * BLOCK, i < 2);
	g_autoptr(vms_memory) memory = vms_memory_new(machine, &regs);
	g_autoptr(GArray) pages = vms_kernel_image_map(memory, &vms_linux_aarch64, &steps);
	g_assert_cmpuint(pages->len, ==, MOST);
}

/* Registers that VMCOREINFO makes lead to the same image. */
static void check_vmcoreinfo(const char *page_size, unsigned size_offset, const char *paging)
{
	struct vms_regs regs;
	g_autofree char *text = g_strdup_printf(
		"OSRELEASE=6.1\n%sSYMBOL(swapper_pg_dir)=ffff800081234000\n"
		"NUMBER(kimage_voffset)=0xffff800040000000\nNUMBER(TCR_EL1_T1SZ)=0x%x\n",
		page_size, size_offset);
	g_assert_true(vms_linux_aarch64.regs_from_vmcoreinfo(text, &regs));
	g_assert_cmphex(regs.value[TTBR1_EL1], ==, 0x41234000);
	g_assert_cmpstr(vms_arch_aarch64.paging_mode(&regs), ==, paging);
	/* The rest of these two registers is not known. */
	g_assert_false(vms_regs_have(&regs, TCR_EL1));
	g_assert_false(vms_regs_have(&regs, SCTLR_EL1));
}

static void test_vmcoreinfo(void)
{
	struct vms_regs regs;
	check_vmcoreinfo("PAGESIZE=4096\n", 16,
			 "4-level paging, 4 KiB pages, 48-bit virtual addresses");
	check_vmcoreinfo("", 12, "5-level paging, 4 KiB pages, 52-bit virtual addresses");
	check_vmcoreinfo("PAGESIZE=16384\n", 17,
			 "3-level paging, 16 KiB pages, 47-bit virtual addresses");
	check_vmcoreinfo("PAGESIZE=65536\n", 12,
			 "3-level paging, 64 KiB pages, 52-bit virtual addresses");
	g_assert_false(vms_linux_aarch64.regs_from_vmcoreinfo("OSRELEASE=6.1\n", &regs));
	g_assert_false(vms_linux_aarch64.regs_from_vmcoreinfo(
		"PAGESIZE=5000\nSYMBOL(swapper_pg_dir)=1000\nNUMBER(kimage_voffset)=0\n"
		"NUMBER(TCR_EL1_T1SZ)=16\n",
		&regs));
}

/* Executes at `va`: what is the symbol there, and how far does it begin before? */
static void check_executed(struct fixture *f, uint64_t va, const char *name, uint64_t offset)
{
	struct vms_location location;
	vms_guest_note_kernel_pc(&f->guest, f->memory, va);
	g_assert_cmpuint(vms_symbolizer_note_code(f->guest.symbolizer, va), ==, 0);
	bool known = vms_guest_locate(&f->guest, NULL, va, &location);
	g_assert_true(known == (name != NULL));
	if (!name)
		return;
	g_assert_cmpstr(location.symbol, ==, name);
	g_assert_cmphex(location.offset, ==, offset);
	g_assert_cmphex(location.start, ==, va - offset);
	g_assert_null(location.module);
}

/*
 * Code of the image that executes at another address. Addresses are physical here: the image's
 * memory is where the trampoline is mapped.
 */
static void test_trampoline(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_linux *guest = &f->linux_guest;
	check_executed(f, TRAMPOLINE + 0x1c80, NULL, 0); /* where memory is nothing tells */
	guest->image_pa = TRAMPOLINE;
	check_executed(f, TRAMPOLINE - 0x10, NULL, 0);
	check_executed(f, in_function(1), "function", 0x24);
	g_assert_cmphex(guest->trampoline.va, ==, 0);
	/* A kernel without symbols of its data. */
	check_executed(f, TRAMPOLINE + 0x1c80, "__entry_tramp_text_start", 0x1c80);
	check_executed(f, TRAMPOLINE - 0x10, NULL, 0);
	check_executed(f, TRAMPOLINE + TEXT_SIZE, NULL, 0);

	vms_symbol_table_unref(guest->symbols);
	guest->symbols = vms_symbol_table_new("vmlinux");
	vms_symbol_table_add(guest->symbols, "tramp_vectors", TEXT, 0, 't');
	vms_symbol_table_add(guest->symbols, "__entry_tramp_text_start", TEXT, 0, 'T');
	vms_symbol_table_add(guest->symbols, "tramp_exit", TEXT + 0x2000, 0, 't');
	vms_symbol_table_finish(guest->symbols, TEXT + TEXT_SIZE);
	guest->trampoline.va = 0; /* as if it had not been seen yet */
	check_executed(f, TRAMPOLINE + 0x1c80, "tramp_vectors", 0x1c80);
	check_executed(f, TRAMPOLINE + 0x2024, "tramp_exit", 0x24);
}

/* While the guest is detected, what its image never changes is not read again. */
static void test_constants(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_linux *guest = &f->linux_guest;
	static const uint8_t bytes[16] = "of the image";
	const struct vms_kernel_image image = { TEXT + 8, { bytes, sizeof(bytes) }, true };
	uint8_t first[4], read[4];
	guest->memory = f->memory;
	g_assert_true(vms_memory_read(f->memory, TEXT + 8, first, sizeof(first)));
	g_assert_true(vms_linux_read_constant(guest, TEXT + 8, read, sizeof(read)));
	g_assert_cmpmem(read, sizeof(read), first, sizeof(first));
	guest->read_image = &image;
	g_assert_true(vms_linux_read_constant(guest, TEXT + 8 + 12, read, sizeof(read)));
	g_assert_cmpmem(read, sizeof(read), bytes + 12, 4);
	g_assert_true(vms_linux_read_constant(guest, TEXT + 8 + 16, read, sizeof(read)));
	g_assert_cmpmem(read, sizeof(read), first, sizeof(first)); /* not of the image's bytes */
	g_assert_true(vms_linux_read_constant(guest, TEXT, read, sizeof(read)));
	g_assert_cmpmem(read, sizeof(read), first, sizeof(first));
	guest->read_image = NULL;
	guest->memory = NULL;
}

/* Where the image begins in memory, of pages that may begin behind its head, which is no code. */
static void test_image_pa(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_linux *guest = &f->linux_guest;
	const uint64_t pa = 0x41a00000;
	g_autoptr(GArray) pages = g_array_new(FALSE, FALSE, sizeof(struct vms_page));
	vms_linux_find_image_pa(guest, pages);
	g_assert_cmphex(guest->image_pa, ==, 0);
	const struct vms_page behind[] = {
		{ .va = guest->image - 0x1000, .pa = 0x7000, .size = 0x1000 }, /* not the image's */
		{ .va = guest->image + 0x2000, .pa = 0x1000, .size = 0x1000 }, /* cannot be */
		{ .va = guest->image + 0x2000, .pa = pa + 0x2000, .size = 0x1000 },
	};
	g_array_append_vals(pages, behind, G_N_ELEMENTS(behind));
	vms_linux_find_image_pa(guest, pages);
	g_assert_cmphex(guest->image_pa, ==, pa);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(path, test) g_test_add(path, struct fixture, NULL, set_up, test, tear_down)
	ADD("/linux_aarch64/records", test_records);
	ADD("/linux_aarch64/link-register", test_link_register);
	ADD("/linux_aarch64/interrupt", test_interrupt);
	ADD("/linux_aarch64/system-call", test_system_call);
	ADD("/linux_aarch64/entry-code", test_entry_code);
	ADD("/linux_aarch64/damage", test_damage);
	ADD("/linux_aarch64/trampoline", test_trampoline);
	ADD("/linux_aarch64/image-pa", test_image_pa);
	ADD("/linux_aarch64/constants", test_constants);
	g_test_add_func("/linux_aarch64/current", test_current);
	g_test_add_func("/linux_aarch64/image", test_image);
	g_test_add_func("/linux_aarch64/large-image", test_large_image);
	g_test_add_func("/linux_aarch64/vmcoreinfo", test_vmcoreinfo);
	return g_test_run();
}
