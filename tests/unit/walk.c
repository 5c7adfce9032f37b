/* SPDX-License-Identifier: MIT */
/* Walks of stacks laid out here by hand. */
#include "arch/x86_64.h"
#include "fake_machine.h"
#include "flow/stack.h"
#include "guest/guest-private.h"
#include "guest/linux/kernel_code.h"
#include "guest/linux/linux.h"
#include "guest/linux/operations.h"
#include "probe/program.h"
#include <vmscope/unwind.h>

#define TEXT	   UINT64_C(0xffffffff81000000)
#define TEXT_END   UINT64_C(0xffffffff82000000)
#define STACK	   UINT64_C(0xffffc90000010000)
#define IRQ_STACK  UINT64_C(0xffffc90000004000)
#define USER_STACK UINT64_C(0x00007ffd00000000)
#define STACK_SIZE 0x4000
#define USER_CODE  UINT64_C(0x0000555555555000)
#define USER_CS	   0x33
#define KERNEL_CS  0x10
#define MAX_RULES  16

/* As of Linux 6.4 */
enum { IN_UNDEFINED, IN_PREV_SP, IN_BP = 4, IN_SP, IN_R10, IN_BP_IND = 8, IN_SP_IND };
enum { UNDEFINED, END, CALL, REGS, REGS_PARTIAL };

struct rule {
	int16_t sp_offset, bp_offset;
	unsigned sp_reg : 4, bp_reg : 4, type : 3, signal : 1;
} __attribute__((packed));

struct fixture {
	struct vms_machine *machine;
	struct vms_linux linux_guest;
	struct vms_guest guest;
	struct vms_memory *memory;
	struct vms_regs regs;
	struct vms_stack stack;
};

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(f->machine, STACK, STACK_SIZE);
	fake_machine_add_ram(f->machine, IRQ_STACK, STACK_SIZE);
	fake_machine_add_ram(f->machine, USER_STACK, STACK_SIZE);
	g_assert_true(vms_machine_hold(f->machine, VMS_ALL_VCPUS, NULL));
	vms_regs_set(&f->regs, RSP, STACK + 0x1000);
	vms_regs_set(&f->regs, RBP, 0);
	vms_regs_set(&f->regs, CS, KERNEL_CS);
	f->memory = vms_memory_new(f->machine, &f->regs);
	f->linux_guest = (struct vms_linux) {
		.machine = f->machine,
		.arch = &vms_arch_x86_64,
		.memory = f->memory,
		.image = TEXT,
		.image_end = TEXT_END,
		.text = { { TEXT, TEXT_END } },
	};
	f->guest = (struct vms_guest) {
		.machine = f->machine,
		.ops = &vms_linux_ops,
		.system = &f->linux_guest,
		.symbolizer = vms_symbolizer_new(),
	};
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	vms_orc_free(f->linux_guest.orc);
	vms_symbol_table_unref(f->linux_guest.symbols);
	vms_symbolizer_unref(f->guest.symbolizer);
	vms_memory_free(f->memory);
	g_assert_true(vms_machine_release(f->machine, VMS_ALL_VCPUS, NULL));
	vms_machine_unref(f->machine);
}

/* A rule for every 256 bytes of text. */
static void set_rules(struct fixture *f, const struct rule *rules, size_t n, bool adds_first)
{
	int32_t ip[MAX_RULES];
	uint8_t entries[MAX_RULES][6];
	for (size_t i = 0; i < n; i++) {
		ip[i] = (int32_t)(i * 256 - i * 4);
		memcpy(entries[i], &rules[i], 6);
	}
	vms_orc_free(f->linux_guest.orc);
	f->linux_guest.orc = vms_orc_new((struct vms_bytes) { (const uint8_t *)ip, n * 4 }, TEXT,
					 (struct vms_bytes) { entries[0], n * 6 }, VMS_ORC_6_4,
					 adds_first, NULL);
	g_assert_nonnull(f->linux_guest.orc);
}
#define SET_RULES(f, ...)                                                                          \
	do {                                                                                       \
		const struct rule rules_[] = { __VA_ARGS__ };                                      \
		set_rules(f, rules_, G_N_ELEMENTS(rules_), false);                                 \
	} while (0)

/* Inside the code that has rule n. */
static uint64_t code(unsigned n)
{
	return TEXT + n * 256 + 100;
}

static void put(struct fixture *f, uint64_t va, uint64_t value)
{
	fake_machine_write_u64(f->machine, va, value);
}

/* struct pt_regs at `va`. */
static void put_regs(struct fixture *f, uint64_t va, uint64_t ip, uint64_t cs, uint64_t sp,
		     uint64_t bp)
{
	put(f, va + 4 * 8, bp);
	put(f, va + 16 * 8, ip);
	put(f, va + 17 * 8, cs);
	put(f, va + 19 * 8, sp);
	put(f, va + 20 * 8, 0x2b);
}

static void walk(struct fixture *f, uint64_t pc, unsigned depth)
{
	vms_regs_set(&f->regs, RIP, pc);
	/* A new hold: what was read under the last one is not true any more. */
	g_assert_true(vms_machine_release(f->machine, VMS_ALL_VCPUS, NULL));
	g_assert_true(vms_machine_hold(f->machine, VMS_ALL_VCPUS, NULL));
	vms_walk(&f->guest, f->memory, &f->regs, depth, &f->stack);
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

/* The stack pointers of the frames, leaf first. */
static void check_sps(const struct fixture *f, unsigned n, const uint64_t *sps)
{
	g_assert_cmpuint(f->stack.n, ==, n);
	for (unsigned i = 0; i < n; i++)
		g_assert_cmphex(f->stack.frame[i].sp, ==, sps[i]);
}
#define CHECK_SPS(f, ...)                                                                          \
	do {                                                                                       \
		const uint64_t sps_[] = { __VA_ARGS__ };                                           \
		check_sps(f, G_N_ELEMENTS(sps_), sps_);                                            \
	} while (0)

static const struct rule call_8 = { .type = CALL, .sp_reg = IN_SP, .sp_offset = 8 };
static const struct rule call_frame = {
	.type = CALL, .sp_reg = IN_BP, .sp_offset = 16, .bp_reg = IN_PREV_SP, .bp_offset = -16
};
static const struct rule regs_here = { .type = REGS, .sp_reg = IN_SP, .signal = 1 };
static const struct rule iret_here = { .type = REGS_PARTIAL, .sp_reg = IN_SP, .signal = 1 };
static const struct rule end_here = { .type = END };
static const struct rule undefined = { .type = UNDEFINED };

/* ---- ORC --------------------------------------------------------------- */

/* A leaf, a function with a frame, the entry of a system call, three user functions. */
static void test_system_call(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t sp = STACK + 0x1000, bp = sp + 0x40, regs = bp + 16;
	SET_RULES(f, call_8, call_frame, regs_here, undefined);
	put(f, sp, code(1));
	vms_regs_set(&f->regs, RBP, bp);
	put(f, bp, 0x1234);
	put(f, bp + 8, code(2));
	put_regs(f, regs, USER_CODE, USER_CS, USER_STACK + 0x100, USER_STACK + 0x180);
	put(f, USER_STACK + 0x180, USER_STACK + 0x200);
	put(f, USER_STACK + 0x188, USER_CODE + 0x100);
	put(f, USER_STACK + 0x200, 0);
	put(f, USER_STACK + 0x208, USER_CODE + 0x200);
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), code(1), code(2), USER_CODE, USER_CODE + 0x100,
	      USER_CODE + 0x200);
	CHECK_SPS(f, sp, sp + 8, bp + 16, USER_STACK + 0x100, USER_STACK + 0x190,
		  USER_STACK + 0x210);
	g_assert_cmpuint(f->stack.n_kernel, ==, 3);
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_ROOT);
	for (unsigned i = 0; i < 6; i++) {
		g_assert_cmpint(f->stack.frame[i].is_user, ==, i >= 3);
		g_assert_cmpint(f->stack.frame[i].is_return, ==, i != 0 && i != 3);
	}
}

/* A call as the last instruction of its function: the address it returns to has another rule. */
static void test_return_address(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	SET_RULES(f, call_8, call_8, undefined, end_here);
	put(f, STACK + 0x1000, TEXT + 512);
	put(f, STACK + 0x1008, code(3));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), TEXT + 512, code(3));
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_ROOT);
}

/* An exception in kernel code at a function's first byte: that address itself counts. */
static void test_exception(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t sp = STACK + 0x1000, before = sp + 0x200;
	SET_RULES(f, regs_here, undefined, call_8, end_here);
	put_regs(f, sp, TEXT + 512, KERNEL_CS, before, 0);
	put(f, before, code(3));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), TEXT + 512, code(3));
	g_assert_false(f->stack.frame[1].is_return);
	g_assert_true(f->stack.frame[2].is_return);
}

/* Code that runs before the exception's complete registers are saved. */
static void test_partial_regs(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t sp = STACK + 0x1000, before = sp + 0x200;
	SET_RULES(f, iret_here, call_frame, end_here);
	put(f, sp, code(1));
	put(f, sp + 8, KERNEL_CS);
	put(f, sp + 24, before);
	vms_regs_set(&f->regs, RBP, before + 0x40);
	put(f, before + 0x48, code(2));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), code(1), code(2));
}

/*
 * Back in the stub after error_entry, or in what that calls: the registers are complete at the
 * stack pointer, which the stub's entry does not know yet.
 */
static void test_completed_regs(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t sp = STACK + 0x1000;
	SET_RULES(f, { .type = REGS_PARTIAL, .sp_reg = IN_SP, .sp_offset = 8, .signal = 1 },
		  call_8);
	put_regs(f, sp, USER_CODE, USER_CS, USER_STACK + 0x100, 0);
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), USER_CODE);
	put(f, sp - 8, code(0));
	vms_regs_set(&f->regs, RSP, sp - 8);
	walk(f, code(1), 128);
	CHECK(f, VMS_WALK_ROOT, code(1), code(0), USER_CODE);
}

/*
 * A retpoline: `call 1f; …; 1: mov rax,(rsp); ret` jumps to rax. On its way the stack has, above
 * the return address, nothing, an address in the retpoline itself, the address in rax.
 */
static void test_retpoline(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const uint8_t call[] = { 0xe8, 0, 0, 0, 0 };
	const uint64_t thunk = TEXT + 512, caller = code(1), target = TEXT + 128;
	const uint64_t sp = STACK + 0x1000;
	SET_RULES(f, call_8, end_here, undefined, call_8);
	fake_machine_add_ram(f->machine, TEXT, 0x1000);
	memcpy(fake_machine_at(f->machine, thunk), call, sizeof(call));
	memcpy(fake_machine_at(f->machine, caller - sizeof(call)), call, sizeof(call));
	put(f, sp, caller);
	walk(f, thunk, 128);
	CHECK(f, VMS_WALK_ROOT, thunk, caller);

	put(f, sp - 8, thunk + sizeof(call));
	vms_regs_set(&f->regs, RSP, sp - 8);
	walk(f, thunk + sizeof(call) + 1, 128);
	CHECK(f, VMS_WALK_ROOT, thunk + sizeof(call) + 1, caller);

	put(f, sp - 8, target);
	walk(f, code(3), 128);
	CHECK(f, VMS_WALK_ROOT, code(3), caller);
}

/*
 * Functions that the tables leave out, as an assembler has them: with a frame of 0xb8 bytes; with
 * one of 0x20 that has the frame pointer in it, seen behind the epilogue, where cold code lies.
 */
static void test_prologue(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const uint8_t call[] = { 0xe8, 0, 0, 0, 0 };
	static const uint8_t large[] = {
		0x53,					  /* push %rbx */
		0xba, 0x01, 0x00, 0x00, 0x00,		  /* mov $1,%edx */
		0x48, 0x81, 0xec, 0xb0, 0x00, 0x00, 0x00, /* sub $0xb0,%rsp */
		0x31, 0xc0,				  /* xor %eax,%eax */
	};
	static const uint8_t with_rbp[] = {
		0x41, 0x57,		/* push %r15 */
		0x55,			/* push %rbp */
		0x48, 0x83, 0xec, 0x10, /* sub $0x10,%rsp */
		0x48, 0x83, 0xc4, 0x10, /* add $0x10,%rsp */
		0x5d,			/* pop %rbp */
		0x41, 0x5f,		/* pop %r15 */
		0xc3,			/* ret */
		0x50,			/* push %rax */
	};
	const uint64_t sp = STACK + 0x1000, bp = sp + 0x400, caller = code(1);
	SET_RULES(f, undefined, call_frame, end_here);
	fake_machine_add_ram(f->machine, TEXT, 0x1000);
	f->linux_guest.symbols = vms_symbol_table_new("vmlinux");
	vms_symbol_table_add(f->linux_guest.symbols, "large", TEXT, 0, 'T');
	vms_symbol_table_add(f->linux_guest.symbols, "with_rbp", TEXT + 64, 0, 'T');
	vms_symbol_table_finish(f->linux_guest.symbols, TEXT_END);
	f->linux_guest.symbolizer = f->guest.symbolizer;
	vms_linux_map_image(&f->linux_guest);
	memcpy(fake_machine_at(f->machine, TEXT), large, sizeof(large));
	memcpy(fake_machine_at(f->machine, TEXT + 64), with_rbp, sizeof(with_rbp));
	memcpy(fake_machine_at(f->machine, caller - sizeof(call)), call, sizeof(call));
	put(f, bp + 8, code(2));

	vms_regs_set(&f->regs, RBP, bp);
	put(f, sp + 0xb8, caller);
	walk(f, TEXT + sizeof(large), 128);
	CHECK(f, VMS_WALK_ROOT, TEXT + sizeof(large), caller, code(2));

	vms_regs_set(&f->regs, RBP, 0);
	put(f, sp + 0x10, bp);
	put(f, sp + 0x20, caller);
	walk(f, TEXT + 64 + sizeof(with_rbp), 128);
	CHECK(f, VMS_WALK_ROOT, TEXT + 64 + sizeof(with_rbp), caller, code(2));
}

/* What lies below the stack pointer is left from calls that are over, however good it looks. */
static void test_stale_words(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const uint8_t call[] = { 0xe8, 0, 0, 0, 0 };
	const uint64_t sp = STACK + 0x1000;
	SET_RULES(f, call_8, end_here, end_here);
	fake_machine_add_ram(f->machine, TEXT, 0x1000);
	memcpy(fake_machine_at(f->machine, code(2) - sizeof(call)), call, sizeof(call));
	put(f, sp, code(1));
	put(f, sp - 8, code(2));
	put(f, sp - 16, code(2));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), code(1));
}

/* The first instructions of a system call's entry: the stack is the user's still. */
static void test_no_call_found(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	SET_RULES(f, end_here, undefined);
	fake_machine_add_ram(f->machine, TEXT, 0x1000);
	put(f, STACK + 0x1000, code(1));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0));
	walk(f, code(1), 128);
	CHECK(f, VMS_WALK_NO_INFO, code(1));
}

/* From the stack of interrupts back to that of the task, which lies higher or lower. */
static void check_stack_switch(struct fixture *f, uint64_t from, uint64_t to, bool adds_first)
{
	const struct rule rules[] = { call_8,
				      { .type = CALL, .sp_reg = IN_SP_IND, .sp_offset = 8 },
				      end_here };
	set_rules(f, rules, G_N_ELEMENTS(rules), adds_first);
	vms_regs_set(&f->regs, RSP, from);
	put(f, from, code(1));
	/* load(SP) + 8, or before 5.12 load(SP + 8) */
	put(f, from + 8, adds_first ? 0 : to);
	put(f, from + 16, adds_first ? to + 8 : 0);
	put(f, to, code(2));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), code(1), code(2));
}

static void test_stack_switch(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	check_stack_switch(f, IRQ_STACK + 0x100, STACK + 0x1000, false);
	check_stack_switch(f, STACK + 0x1000, IRQ_STACK + 0x100, false);
	check_stack_switch(f, STACK + 0x1000, IRQ_STACK + 0x100, true);
}

/* Realigned stacks: the previous stack pointer in a register, or saved in the frame. */
static void test_realigned(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t sp = STACK + 0x1000, bp = sp + 0x100, before = sp + 0x200;
	SET_RULES(f, { .type = CALL, .sp_reg = IN_R10 },
		  { .type = CALL,
		    .sp_reg = IN_BP_IND,
		    .sp_offset = -8,
		    .bp_reg = IN_BP,
		    .bp_offset = 0 },
		  end_here);
	vms_regs_set(&f->regs, R10, sp + 0x80);
	vms_regs_set(&f->regs, RBP, bp);
	put(f, sp + 0x78, code(1));
	put(f, bp - 8, before);
	put(f, before - 8, code(2));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), code(1), code(2));
	/* The caller's r10 is not known: a frame that needs it cannot be left. */
	put(f, sp + 0x78, code(0));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_NO_INFO, code(0), code(0));
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_NO_INFO);
}

static void test_undefined(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	SET_RULES(f, call_8, undefined);
	put(f, STACK + 0x1000, code(1));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_NO_INFO, code(0), code(1));
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_NO_INFO);
}

/* Code compiled at run time is in no table, and has frame pointers. */
static void test_no_entry(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t jit = UINT64_C(0xffffffffc0123456), bp = STACK + 0x1040;
	SET_RULES(f, call_8, end_here);
	put(f, STACK + 0x1000, jit);
	vms_regs_set(&f->regs, RBP, bp);
	put(f, bp, 0);
	put(f, bp + 8, code(1));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), jit, code(1));
	vms_regs_set(&f->regs, RBP, 0);
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_NO_INFO, code(0), jit);
}

static void test_depth(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t sp = STACK + 0x1000;
	SET_RULES(f, call_8, regs_here, undefined);
	for (unsigned i = 0; i < 10; i++)
		put(f, sp + i * 8, i < 9 ? code(0) : code(1));
	put_regs(f, sp + 80, USER_CODE, USER_CS, USER_STACK + 0x100, USER_STACK + 0x180);
	put(f, USER_STACK + 0x188, USER_CODE + 1);
	walk(f, code(0), 13);
	g_assert_cmpuint(f->stack.n, ==, 13);
	g_assert_cmpint(f->stack.end, ==, VMS_WALK_ROOT);
	walk(f, code(0), 12);
	g_assert_cmpuint(f->stack.n, ==, 12);
	g_assert_cmpuint(f->stack.n_kernel, ==, 11);
	g_assert_cmpint(f->stack.end, ==, VMS_WALK_DEPTH);
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_ROOT);
	/* The kernel part is complete: it is the user's that is cut off. */
	walk(f, code(0), 11);
	g_assert_cmpuint(f->stack.n_kernel, ==, 11);
	g_assert_cmpint(f->stack.end, ==, VMS_WALK_DEPTH);
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_ROOT);
	walk(f, code(0), 10);
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_DEPTH);
	walk(f, code(0), 1);
	CHECK(f, VMS_WALK_DEPTH, code(0));
	/* More than there is room for. */
	for (uint64_t va = sp; va < STACK + STACK_SIZE; va += 8)
		put(f, va, code(0));
	walk(f, code(0), UINT_MAX);
	g_assert_cmpuint(f->stack.n, ==, VMS_STACK_LIMIT);
	g_assert_cmpint(f->stack.end, ==, VMS_WALK_DEPTH);
}

/* ---- damaged and hostile stacks ---------------------------------------- */

static void test_unreadable(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	SET_RULES(f, call_8, regs_here);
	vms_regs_set(&f->regs, RSP, STACK + STACK_SIZE - 8);
	put(f, STACK + STACK_SIZE - 8, code(0));
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_UNREADABLE, code(0), code(0));
	/* struct pt_regs over the end of the stack */
	vms_regs_set(&f->regs, RSP, STACK + STACK_SIZE - 80);
	walk(f, code(1), 128);
	CHECK(f, VMS_WALK_UNREADABLE, code(1));
	vms_regs_set(&f->regs, RSP, UINT64_MAX - 3);
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_UNREADABLE, code(0));
}

/* Each rule leads back to itself; the walk must end long before its depth. */
static void test_orc_loops(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t sp = STACK + 0x1000;
	SET_RULES(f, { .type = CALL, .sp_reg = IN_SP, .sp_offset = 0 },
		  { .type = CALL, .sp_reg = IN_SP_IND },
		  { .type = CALL, .sp_reg = IN_BP, .bp_reg = IN_BP }, regs_here,
		  { .type = CALL, .sp_reg = IN_SP, .sp_offset = INT16_MIN });
	for (unsigned rule = 0; rule < 5; rule++) {
		for (unsigned i = 0; i < STACK_SIZE; i += 8)
			put(f, STACK + i, code(rule));
		put(f, sp - 8, code(rule));
		put(f, sp, rule == 1 ? sp : code(rule));
		if (rule == 2) {
			put(f, sp - 8, code(rule));
			put(f, sp, sp);
			vms_regs_set(&f->regs, RBP, sp);
		}
		if (rule == 3)
			put_regs(f, sp, code(rule), KERNEL_CS, sp, 0);
		walk(f, code(rule), VMS_STACK_LIMIT);
		g_assert_cmpuint(f->stack.n, <, 20);
		g_assert_cmpint(f->stack.end, !=, VMS_WALK_ROOT);
		g_assert_cmpint(f->stack.end, !=, VMS_WALK_DEPTH);
	}
}

/* Two frames of registers that claim to have interrupted each other. */
static void test_regs_loop(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	SET_RULES(f, regs_here);
	put_regs(f, STACK + 0x1000, code(0), KERNEL_CS, STACK + 0x2000, 0);
	put_regs(f, STACK + 0x2000, code(0), KERNEL_CS, STACK + 0x1000, 0);
	walk(f, code(0), VMS_STACK_LIMIT);
	g_assert_cmpint(f->stack.end, ==, VMS_WALK_BAD_FRAME);
	g_assert_cmpuint(f->stack.n, <, 40);
}

/* Interrupts nest on stacks of their own, up to 8; each that lies lower than the last one counts.
 */
static void test_most_switches(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	enum { MOST = 8, DISTANCE = 0x200 };
	SET_RULES(f, regs_here, end_here);
	for (unsigned n = MOST; n <= MOST + 1; n++) {
		uint64_t sp = STACK + STACK_SIZE - DISTANCE;
		vms_regs_set(&f->regs, RSP, sp);
		for (unsigned i = 1; i <= n; i++, sp -= DISTANCE)
			put_regs(f, sp, code(i == n), KERNEL_CS, sp - DISTANCE, 0);
		walk(f, code(0), VMS_STACK_LIMIT);
		g_assert_cmpuint(f->stack.n, ==, MOST + 1);
		g_assert_cmpint(f->stack.end, ==, n == MOST ? VMS_WALK_ROOT : VMS_WALK_BAD_FRAME);
	}
}

static void test_bad_targets(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	SET_RULES(f, call_8, regs_here);
	put(f, STACK + 0x1000, USER_CODE);
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_BAD_FRAME, code(0));
	/* Registers of user mode with kernel code, and the other way round. */
	put_regs(f, STACK + 0x1000, code(0), USER_CS, USER_STACK + 8, 0);
	walk(f, code(1), 128);
	CHECK(f, VMS_WALK_BAD_FRAME, code(1));
	put_regs(f, STACK + 0x1000, USER_CODE, KERNEL_CS, STACK + 0x2000, 0);
	walk(f, code(1), 128);
	CHECK(f, VMS_WALK_BAD_FRAME, code(1));
}

/* ---- user stacks ------------------------------------------------------- */

struct user_case {
	const char *name;
	uint64_t fp, saved_fp, return_address;
	enum vms_walk_end end;
	unsigned frames;
};

static const struct user_case user_cases[] = {
	{ "no-frame", 0, 0, 0, VMS_WALK_ROOT, 1 },
	{ "one", USER_STACK + 0x180, 0, USER_CODE + 1, VMS_WALK_ROOT, 2 },
	{ "thread-start", USER_STACK + 0x180, 0, 0, VMS_WALK_ROOT, 1 },
	{ "misaligned", USER_STACK + 0x184, 0, USER_CODE + 1, VMS_WALK_NO_INFO, 1 },
	{ "below-stack", USER_STACK + 0x80, 0, USER_CODE + 1, VMS_WALK_NO_INFO, 1 },
	{ "far-away", USER_STACK + (16 << 20), 0, USER_CODE + 1, VMS_WALK_NO_INFO, 1 },
	{ "unreadable", USER_STACK + STACK_SIZE, 0, USER_CODE + 1, VMS_WALK_UNREADABLE, 1 },
	{ "to-itself", USER_STACK + 0x180, USER_STACK + 0x180, USER_CODE + 1, VMS_WALK_NO_INFO, 2 },
	{ "downwards", USER_STACK + 0x180, USER_STACK + 0x100, USER_CODE + 1, VMS_WALK_NO_INFO, 2 },
	{ "garbage", USER_STACK + 0x180, 0x4141414141414141, USER_CODE + 1, VMS_WALK_NO_INFO, 2 },
	{ "to-data", USER_STACK + 0x180, 0, 12, VMS_WALK_BAD_FRAME, 1 },
	{ "to-nowhere", USER_STACK + 0x180, 0, 0x4141414141414141, VMS_WALK_BAD_FRAME, 1 },
	{ "to-kernel", USER_STACK + 0x180, 0, TEXT + 8, VMS_WALK_BAD_FRAME, 1 },
};

static void test_user(struct fixture *f, gconstpointer data)
{
	const struct user_case *test = data;
	vms_regs_set(&f->regs, CS, USER_CS);
	vms_regs_set(&f->regs, RSP, USER_STACK + 0x100);
	vms_regs_set(&f->regs, RBP, test->fp);
	if (test->fp % 8 == 0 && test->fp - USER_STACK < STACK_SIZE) {
		put(f, test->fp, test->saved_fp);
		put(f, test->fp + 8, test->return_address);
	}
	walk(f, USER_CODE, 128);
	g_assert_cmpint(f->stack.end, ==, test->end);
	g_assert_cmpuint(f->stack.n, ==, test->frames);
	g_assert_cmpuint(f->stack.n_kernel, ==, 0);
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_ROOT);
}

/*
 * Frame pointers of code that has none lead to what only looks like a return address. The first GiB
 * may not be executed, the second may.
 */
static void test_user_data(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	enum { ALL = 0x7, LARGE = 0x80 };
	const uint64_t root = 0x10000, table = 0x11000, gib = UINT64_C(1) << 30;
	const uint64_t stack = 0x20000, fp = stack + 0x180;
	fake_machine_add_ram(f->machine, root, 0x2000);
	fake_machine_add_ram(f->machine, stack, STACK_SIZE);
	put(f, root, table | ALL);
	put(f, table, 0 | ALL | LARGE | UINT64_C(1) << 63);
	put(f, table + 8, gib | ALL | LARGE);
	vms_regs_set(&f->regs, CR0, UINT64_C(1) << 31);
	vms_regs_set(&f->regs, CR3, root);
	vms_regs_set(&f->regs, CR4, 1 << 5);
	vms_regs_set(&f->regs, EFER, 1 << 10);
	vms_memory_set_regs(f->memory, &f->regs);
	vms_regs_set(&f->regs, CS, USER_CS);
	vms_regs_set(&f->regs, RSP, stack + 0x100);
	vms_regs_set(&f->regs, RBP, fp);

	put(f, fp + 8, gib + 0x5000);
	walk(f, gib + 0x4000, 128);
	CHECK(f, VMS_WALK_ROOT, gib + 0x4000, gib + 0x5000);

	put(f, fp + 8, stack + 0x200);
	walk(f, gib + 0x4000, 128);
	CHECK(f, VMS_WALK_NO_INFO, gib + 0x4000);

	put(f, fp + 8, 2 * gib + 0x5000); /* perhaps paged out */
	walk(f, gib + 0x4000, 128);
	CHECK(f, VMS_WALK_ROOT, gib + 0x4000, 2 * gib + 0x5000);
}

/* ---- kernels with frame pointers --------------------------------------- */

/* Lays out `n` frames that end with the frame pointer `last`; the stack pointer behind them. */
static uint64_t put_frames(struct fixture *f, unsigned n, uint64_t last)
{
	uint64_t bp = STACK + 0x1040;
	vms_regs_set(&f->regs, RBP, bp);
	for (unsigned i = 0; i < n; i++, bp += 0x40) {
		put(f, bp, i + 1 < n ? bp + 0x40 : last);
		put(f, bp + 8, code(i + 1));
	}
	return bp - 0x40 + 16;
}

static void test_fp_system_call(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	uint64_t regs = put_frames(f, 2, 0);
	put_regs(f, regs, USER_CODE, USER_CS, USER_STACK + 0x100, 0);
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), code(1), code(2), USER_CODE);
	CHECK_SPS(f, STACK + 0x1000, STACK + 0x1050, STACK + 0x1090, USER_STACK + 0x100);
	g_assert_cmpuint(f->stack.n_kernel, ==, 3);
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_ROOT);
}

static void test_fp_thread(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	put_frames(f, 3, 0);
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), code(1), code(2), code(3));
	/* Its registers of user mode, which it never had, are zeros. */
	put_frames(f, 3, (STACK + 0x3000) | 1);
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), code(1), code(2), code(3));
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_ROOT);
}

static void test_fp_exception(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	put_frames(f, 1, (STACK + 0x2000) | 1);
	put_regs(f, STACK + 0x2000, code(2), KERNEL_CS, STACK + 0x2200, STACK + 0x2240);
	put(f, STACK + 0x2240, (STACK + 0x3000) | 1);
	put(f, STACK + 0x2248, code(3));
	put_regs(f, STACK + 0x3000, USER_CODE, USER_CS, USER_STACK + 0x100, 0);
	walk(f, code(0), 128);
	CHECK(f, VMS_WALK_ROOT, code(0), code(1), code(2), code(3), USER_CODE);
	g_assert_false(f->stack.frame[2].is_return);
}

static void test_fp_damaged(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const struct {
		uint64_t last;
		enum vms_walk_end end;
	} cases[] = {
		{ STACK + 0x1044, VMS_WALK_NO_INFO },	  /* misaligned */
		{ USER_STACK + 0x100, VMS_WALK_NO_INFO }, /* the user's */
		{ STACK + STACK_SIZE, VMS_WALK_UNREADABLE },
		{ (STACK + STACK_SIZE) | 1, VMS_WALK_UNREADABLE },
		{ STACK + 0x2000, VMS_WALK_BAD_FRAME }, /* returns to 0 */
		{ STACK + 0x2100, VMS_WALK_BAD_FRAME }, /* returns to data */
		{ STACK + 0x1040, VMS_WALK_BAD_FRAME }, /* a loop */
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		put_frames(f, 2, cases[i].last);
		put(f, STACK + 0x2108, STACK);
		walk(f, code(0), VMS_STACK_LIMIT);
		g_assert_cmpint(f->stack.end, ==, cases[i].end);
		g_assert_cmpint(f->stack.kernel_end, ==, cases[i].end);
		g_assert_cmpuint(f->stack.n, >=, 3);
		g_assert_cmpuint(f->stack.n, <, 40);
	}
}

/* ---- guests that are not understood ------------------------------------ */

static void test_bare(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const uint64_t stack = 0x8000;
	f->guest.system = NULL;
	fake_machine_add_ram(f->machine, stack, STACK_SIZE);
	vms_regs_set(&f->regs, RSP, stack + 0x100);
	vms_regs_set(&f->regs, RBP, stack + 0x140);
	put(f, stack + 0x140, stack + 0x180);
	put(f, stack + 0x148, 0x100100);
	put(f, stack + 0x188, 0x100200);
	walk(f, 0x100000, 128);
	CHECK(f, VMS_WALK_ROOT, 0x100000, 0x100100, 0x100200);
	g_assert_cmpuint(f->stack.n_kernel, ==, 3);
}

static void test_end_texts(void)
{
	for (unsigned i = 0; i < VMS_WALK_N_ENDS; i++)
		for (unsigned j = 0; j < i; j++)
			g_assert_cmpstr(vms_walk_end_text(i), !=, vms_walk_end_text(j));
	g_assert_nonnull(vms_walk_end_text(VMS_WALK_N_ENDS));
}

#define TEST(path, function)                                                                       \
	g_test_add("/walk/" path, struct fixture, NULL, set_up, function, tear_down)

/* ---- copied stacks ------------------------------------------------------- */

#define TASK_STACK (STACK + STACK_SIZE - 0x2000) /* the part that is copied */

static void append(GByteArray *values, enum vms_value_status status, const void *bytes, size_t size)
{
	const struct vms_value_head head = { (uint16_t)status, (uint16_t)size };
	g_byte_array_append(values, (const guint8 *)&head, sizeof(head));
	g_byte_array_append(values, bytes, (guint)size);
}

static void append_memory(struct fixture *f, GByteArray *values, uint64_t va, size_t size)
{
	g_autofree uint8_t *bytes = g_malloc(size);
	g_assert_true(vms_memory_read(f->memory, va, bytes, size));
	append(values, VMS_VALUE_KNOWN, bytes, size);
}

/* What a hit on the interrupt stack has collected: two calls, an interrupt, two calls below it. */
static GByteArray *collect_hit(struct fixture *f, enum vms_stack_frames frames, uint64_t user)
{
	const uint64_t sp = IRQ_STACK + 0x3000, task_sp = STACK + 0x3000;
	SET_RULES(f, call_8, regs_here, undefined);
	put(f, sp, code(0));
	put(f, sp + 8, code(1));
	put_regs(f, sp + 16, code(0), KERNEL_CS, task_sp, 0);
	put(f, task_sp, code(0));
	put(f, task_sp + 8, code(1));
	put_regs(f, task_sp + 16, USER_CODE, USER_CS, USER_STACK + 0x100, USER_STACK + 0x180);
	vms_regs_set(&f->regs, RIP, code(0));
	vms_regs_set(&f->regs, RSP, sp);
	put(f, USER_STACK + 0x180, USER_STACK + 0x200);
	put(f, USER_STACK + 0x188, USER_CODE + 0x100);
	put(f, USER_STACK + 0x200, 0);
	put(f, USER_STACK + 0x208, USER_CODE + 0x200);

	GByteArray *values = g_byte_array_new();
	size_t n;
	const uint8_t *regs = vms_walk_registers(&vms_arch_x86_64, &n);
	const uint64_t task = TASK_STACK, which = frames;
	for (size_t i = 0; i < n; i++)
		append(values, VMS_VALUE_KNOWN, &f->regs.value[regs[i]], 8);
	append_memory(f, values, sp, 0x1000);
	append(values, VMS_VALUE_KNOWN, &task, 8);
	append_memory(f, values, task, 0x2000);
	append(values, VMS_VALUE_KNOWN, &which, 8);
	for (unsigned i = 0; i < 4; i++) /* no process is known */
		append(values, VMS_VALUE_UNREADABLE, NULL, 0);
	append(values, VMS_VALUE_KNOWN, &user, 8);
	append_memory(f, values, user, 0x180);
	return values;
}

/* Walks the stack of a hit, with other values around it. */
static void walk_hit(struct fixture *f, GByteArray *values)
{
	g_autoptr(GByteArray) walked = g_byte_array_new();
	g_autoptr(GArray) stacks = g_array_new(FALSE, FALSE, sizeof(unsigned));
	g_autoptr(vms_flow_walker) walker = vms_flow_walker_new(&f->guest);
	const unsigned first = 1;
	struct vms_value_head head;
	g_array_append_val(stacks, first);
	g_byte_array_prepend(values, (const guint8 *)"\0\0\2\0hi", 6);
	append(values, VMS_VALUE_KNOWN, "!", 1);
	g_assert_true(vms_flow_walk_stacks(walker, &vms_arch_x86_64, stacks, values->data,
					   values->len, walked));
	g_assert_cmpmem(walked->data, 6, "\0\0\2\0hi", 6);
	g_assert_cmpmem(walked->data + walked->len - 5, 5, "\0\0\1\0!", 5);
	memcpy(&head, walked->data + 6, sizeof(head));
	g_assert_cmpuint(head.size, ==, walked->len - 6 - 5 - sizeof(head));
	g_assert_true(vms_flow_stack_decode(walked->data + 6 + sizeof(head), head.size, &f->stack));
	g_assert_cmpint(f->stack.kernel_end, ==, VMS_WALK_ROOT);
}

/* The values of a hit become one, though the guest's memory has changed since. */
static void test_copied(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GByteArray) both = collect_hit(f, VMS_STACK_BOTH, USER_STACK + 0x100);
	g_autoptr(GByteArray) kernel = collect_hit(f, VMS_STACK_KERNEL, USER_STACK + 0x100);
	g_autoptr(GByteArray) user = collect_hit(f, VMS_STACK_USER, USER_STACK + 0x100);
	g_autoptr(GByteArray) other = collect_hit(f, VMS_STACK_BOTH, USER_STACK + 0x108);
	for (uint64_t at = 0; at < STACK_SIZE; at += 8) {
		put(f, STACK + at, 0x4141414141414141);
		put(f, IRQ_STACK + at, 0x4141414141414141);
		put(f, USER_STACK + at, 0x4141414141414141);
	}
	walk_hit(f, both);
	CHECK(f, VMS_WALK_ROOT, code(0), code(0), code(1), code(0), code(0), code(1), USER_CODE,
	      USER_CODE + 0x100, USER_CODE + 0x200);
	g_assert_cmpuint(f->stack.n_kernel, ==, 6);
	for (unsigned i = 0; i < 7; i++)
		g_assert_cmpint(f->stack.frame[i].is_return, ==, i % 3 != 0);
	g_assert_cmpuint(f->stack.frame[7].code, ==, VMS_NO_SPACE);
	walk_hit(f, kernel);
	CHECK(f, VMS_WALK_ROOT, code(0), code(0), code(1), code(0), code(0), code(1));
	walk_hit(f, user);
	CHECK(f, VMS_WALK_ROOT, USER_CODE, USER_CODE + 0x100, USER_CODE + 0x200);
	g_assert_cmpuint(f->stack.n_kernel, ==, 0);
	/* The copy is not of the stack that the kernel's frames lead to. */
	walk_hit(f, other);
	CHECK(f, VMS_WALK_UNREADABLE, code(0), code(0), code(1), code(0), code(0), code(1),
	      USER_CODE);
}

/* Whatever is missing of the values, nothing is read beyond them. */
static void test_copied_cut(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GByteArray) values = collect_hit(f, VMS_STACK_BOTH, USER_STACK + 0x100),
			      walked = g_byte_array_new();
	g_autoptr(GArray) stacks = g_array_new(FALSE, FALSE, sizeof(unsigned));
	g_autoptr(vms_flow_walker) walker = vms_flow_walker_new(&f->guest);
	const unsigned first = 0;
	g_array_append_val(stacks, first);
	for (guint n = 0; n < values->len; n += n < 200 ? 1 : 97) {
		g_autofree uint8_t *cut = g_memdup2(values->data, n);
		g_byte_array_set_size(walked, 0);
		g_assert_false(
			vms_flow_walk_stacks(walker, &vms_arch_x86_64, stacks, cut, n, walked));
	}
	/* Without a kernel there is nothing to walk by. */
	g_byte_array_set_size(walked, 0);
	g_assert_true(vms_flow_walk_stacks(NULL, &vms_arch_x86_64, stacks, values->data,
					   values->len, walked));
	g_assert_cmpmem(walked->data, walked->len, "\1\0\0\0", 4);
}

static void test_decode(void)
{
	const struct vms_flow_stack_head heads[] = { { 0, 0 }, { 0, VMS_WALK_N_ENDS } };
	struct vms_stack stack;
	uint8_t bytes[VMS_FLOW_STACK_SIZE + 16] = { 0 };
	g_assert_false(vms_flow_stack_decode(bytes, 0, &stack));
	g_assert_false(vms_flow_stack_decode(bytes, 7, &stack));
	g_assert_true(vms_flow_stack_decode(bytes, 8, &stack));
	g_assert_false(vms_flow_stack_decode(bytes, 16, &stack));
	g_assert_true(vms_flow_stack_decode(bytes, VMS_FLOW_STACK_SIZE, &stack));
	g_assert_cmpuint(stack.n, ==, VMS_STACK_DEFAULT);
	g_assert_false(vms_flow_stack_decode(bytes, VMS_FLOW_STACK_SIZE + 16, &stack));
	g_assert_true(vms_flow_stack_decode(&heads[0], sizeof(heads[0]), &stack));
	g_assert_false(vms_flow_stack_decode(&heads[1], sizeof(heads[1]), &stack));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	TEST("orc/system-call", test_system_call);
	TEST("orc/return-address", test_return_address);
	TEST("orc/exception", test_exception);
	TEST("orc/partial-regs", test_partial_regs);
	TEST("orc/completed-regs", test_completed_regs);
	TEST("orc/retpoline", test_retpoline);
	TEST("orc/prologue", test_prologue);
	TEST("orc/stale-words", test_stale_words);
	TEST("orc/no-call-found", test_no_call_found);
	TEST("orc/stack-switch", test_stack_switch);
	TEST("orc/realigned", test_realigned);
	TEST("orc/undefined", test_undefined);
	TEST("orc/no-entry", test_no_entry);
	TEST("orc/depth", test_depth);
	TEST("hostile/unreadable", test_unreadable);
	TEST("hostile/orc-loops", test_orc_loops);
	TEST("hostile/regs-loop", test_regs_loop);
	TEST("hostile/most-switches", test_most_switches);
	TEST("hostile/bad-targets", test_bad_targets);
	for (size_t i = 0; i < G_N_ELEMENTS(user_cases); i++) {
		g_autofree char *path = g_strconcat("/walk/user/", user_cases[i].name, NULL);
		g_test_add(path, struct fixture, &user_cases[i], set_up, test_user, tear_down);
	}
	TEST("user/data", test_user_data);
	TEST("frame-pointers/system-call", test_fp_system_call);
	TEST("frame-pointers/thread", test_fp_thread);
	TEST("frame-pointers/exception", test_fp_exception);
	TEST("frame-pointers/damaged", test_fp_damaged);
	TEST("bare", test_bare);
	TEST("copied", test_copied);
	TEST("copied/cut", test_copied_cut);
	g_test_add_func("/walk/copied/decode", test_decode);
	g_test_add_func("/walk/end-texts", test_end_texts);
	return g_test_run();
}
