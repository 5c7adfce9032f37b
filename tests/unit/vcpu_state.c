/* SPDX-License-Identifier: MIT */
/*
 * Registers read from QEMU's memory. QEMU is this program: it has a table, and a list of vCPUs, by
 * QEMU's names and in QEMU's form, and tells them to the dynamic linker.
 */
#include "arch/x86_64.h"
#include "machine/qemu/qemu.h"

#include <string.h>
#include <unistd.h>

struct cpu {
	uint64_t first[3];
	uint64_t regs[16], eip, cr3, star, lstar;
	uint32_t sysenter_cs, none;
	uint64_t far[1024];
	uint64_t eflags, cr0, cr2, cr4, efer, kernelgsbase;
	uint32_t hflags, more_none;
	struct segment {
		uint32_t selector, padding;
		uint64_t base;
		uint32_t limit, flags;
	} segs[6];
	struct link {
		struct cpu *next;
		struct link *before;
	} link;
};

/* As QEMU has it: include/migration/vmstate.h. */
struct state_field {
	const char *name, *hint;
	size_t offset, size, start;
	int n;
	size_t n_offset, size_offset;
	const void *kind;
	int flags;
	const void *table;
	int version, table_version;
	void (*exists)(void);
};

#define FIELD(text, member, bytes)                                                                 \
	{                                                                                          \
		.name = text, .offset = offsetof(struct cpu, member), .size = bytes                \
	}
static struct state_field fields[] = {
	FIELD("env.regs", regs, 8),
	FIELD("env.eip", eip, 8),
	FIELD("env.cr[3]", cr3, 8),
	FIELD("env.starlet", lstar, 8),
	FIELD("env.star", star, 8),
	FIELD("env.lstar", lstar, 8),
	FIELD("env.pat", star, 16), /* no number */
	FIELD("env.sysenter_cs", sysenter_cs, 4),
	{ .name = NULL },
};

/* The table of a QEMU that tells all that a walk of stacks needs. */
static struct state_field all_fields[] = {
	FIELD("env.regs", regs, 8),
	FIELD("env.eip", eip, 8),
	FIELD("env.eflags", eflags, 8),
	FIELD("env.hflags", hflags, 4),
	FIELD("env.segs", segs, sizeof(struct segment)),
	FIELD("env.cr[0]", cr0, 8),
	FIELD("env.cr[2]", cr2, 8),
	FIELD("env.cr[3]", cr3, 8),
	FIELD("env.cr[4]", cr4, 8),
	FIELD("env.efer", efer, 8),
	FIELD("env.kernelgsbase", kernelgsbase, 8),
	{ .name = NULL },
};

extern struct state_table {
	const char *name;
	bool is_not_migrated;
	int version;
	void *functions[6];
	const struct state_field *fields;
	void *none[8];
} vmstate_x86_cpu;
struct state_table vmstate_x86_cpu;
extern struct list {
	struct cpu *first;
	struct link *last;
} cpus_queue;
struct list cpus_queue;

static struct cpu cpus[3];

/* A list of the first n, in reverse order: later ones were made before. */
static void list_cpus(unsigned n)
{
	struct link *before = (struct link *)&cpus_queue;
	cpus_queue.first = &cpus[n - 1];
	for (unsigned i = n; i > 0; i--) {
		cpus[i - 1].link.before = before;
		cpus[i - 1].link.next = i > 1 ? &cpus[i - 2] : NULL;
		before = &cpus[i - 1].link;
	}
	cpus_queue.last = before;
}

static void start(struct vms_qemu *qemu)
{
	*qemu = (struct vms_qemu) { 0 };
	g_assert_true(vms_host_identity_open(&qemu->process, getpid(), NULL));
	vmstate_x86_cpu = (struct state_table) { .name = "cpu", .fields = fields };
	for (unsigned i = 0; i < G_N_ELEMENTS(cpus); i++) {
		cpus[i] = (struct cpu) { .eip = 0x1000 + i,
					 .cr3 = 0x5000,
					 .star = 0x23 + i,
					 .lstar = 0x77 + i,
					 .sysenter_cs = 0x10,
					 .none = 0xffff };
		for (unsigned j = 0; j < 16; j++)
			cpus[i].regs[j] = 100 * i + j;
	}
	list_cpus(2);
}

static void finish(struct vms_qemu *qemu)
{
	vms_vcpu_state_free(qemu->vcpu_state);
	vms_host_identity_close(&qemu->process);
}

/* As the stub tells them. */
static struct vms_regs stub_regs(unsigned cpu)
{
	static const unsigned order[] = { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI,
					  R8,  R9,  R10, R11, R12, R13, R14, R15 };
	struct vms_regs regs = { 0 };
	for (unsigned i = 0; i < 16; i++)
		vms_regs_set(&regs, order[i], cpus[cpu].regs[i]);
	vms_regs_set(&regs, RIP, cpus[cpu].eip);
	vms_regs_set(&regs, CR3, cpus[cpu].cr3);
	vms_regs_set(&regs, EFER, 0x500); /* this QEMU's table does not have it */
	return regs;
}

static void check_told(struct vms_qemu *qemu, unsigned cpu)
{
	struct vms_regs regs = stub_regs(cpu);
	vms_qemu_add_state_regs(qemu, cpu, &regs);
	g_assert_true(vms_regs_have(&regs, STAR));
	g_assert_cmphex(regs.value[STAR], ==, cpus[cpu].star);
	g_assert_cmphex(regs.value[LSTAR], ==, cpus[cpu].lstar);
	g_assert_cmphex(regs.value[SYSENTER_CS], ==, 0x10);
	g_assert_false(vms_regs_have(&regs, PAT));
	g_assert_false(vms_regs_have(&regs, XCR0));
}

static void check_untold(struct vms_qemu *qemu, unsigned cpu, unsigned changed)
{
	struct vms_regs regs = stub_regs(cpu);
	regs.value[changed]++;
	vms_qemu_add_state_regs(qemu, cpu, &regs);
	g_assert_false(vms_regs_have(&regs, STAR));
	g_assert_false(vms_regs_have(&regs, LSTAR));
}

static void test_told(void)
{
	struct vms_qemu qemu;
	start(&qemu);
	check_told(&qemu, 0);
	check_told(&qemu, 1);
	check_untold(&qemu, 0, R15);
	check_untold(&qemu, 0, RIP);
	check_untold(&qemu, 0, CR3);
	/* A vCPU is plugged. */
	list_cpus(3);
	check_told(&qemu, 2);
	check_told(&qemu, 0);
	finish(&qemu);
}

static void test_endless_list(void)
{
	struct vms_qemu qemu;
	start(&qemu);
	cpus[1].link.before = &cpus[0].link;
	check_untold(&qemu, 0, EFLAGS);
	cpus_queue.last = (void *)8;
	check_untold(&qemu, 0, EFLAGS);
	list_cpus(2);
	check_told(&qemu, 0);
	finish(&qemu);
}

static void test_other_tables(void)
{
	static const struct state_table tables[] = { { .name = "cpu" },
						     { .name = "cpu", .fields = (void *)16 },
						     { .name = "cpus", .fields = fields },
						     { .name = (void *)16, .fields = fields },
						     { .name = "cpu", .fields = fields + 1 } };
	for (size_t i = 0; i < G_N_ELEMENTS(tables); i++) {
		struct vms_qemu qemu;
		start(&qemu);
		vmstate_x86_cpu = tables[i];
		check_untold(&qemu, 0, EFLAGS);
		finish(&qemu);
	}
}

/* ---- all vCPUs at once -------------------------------------------------- */

enum { IN_64_BITS = 1 << 15 };

static void start_all(struct vms_qemu *qemu, struct state_field *table)
{
	start(qemu);
	vmstate_x86_cpu.fields = table;
	for (unsigned i = 0; i < G_N_ELEMENTS(cpus); i++) {
		struct cpu *cpu = &cpus[i];
		cpu->eflags = 0x202;
		cpu->cr0 = 0x80050033;
		cpu->cr2 = UINT64_C(0x7f0000001000) + i;
		cpu->cr4 = 0x3506f0;
		cpu->efer = 0xd01;
		cpu->kernelgsbase = UINT64_C(0xffff888000000000) + i;
		cpu->hflags = IN_64_BITS | 3;
		for (unsigned j = 0; j < 6; j++)
			cpu->segs[j] = (struct segment) { .selector = 0x10 + j,
							  .base = UINT64_C(0x700000000000) + j };
	}
	g_assert_true(vms_vcpu_state_find(qemu));
}

/* As the stub tells all of them. */
static struct vms_regs all_stub_regs(unsigned i)
{
	static const unsigned segments[] = { ES, CS, SS, DS, FS, GS };
	const struct cpu *cpu = &cpus[i];
	struct vms_regs regs = stub_regs(i);
	for (unsigned j = 0; j < G_N_ELEMENTS(segments); j++)
		vms_regs_set(&regs, segments[j], cpu->segs[j].selector);
	vms_regs_set(&regs, FS_BASE, cpu->segs[4].base);
	vms_regs_set(&regs, GS_BASE, cpu->segs[5].base);
	vms_regs_set(&regs, EFLAGS, cpu->eflags);
	vms_regs_set(&regs, CR0, cpu->cr0);
	vms_regs_set(&regs, CR2, cpu->cr2);
	vms_regs_set(&regs, CR4, cpu->cr4);
	vms_regs_set(&regs, CR8, 0);
	vms_regs_set(&regs, EFER, cpu->efer);
	vms_regs_set(&regs, K_GS_BASE, cpu->kernelgsbase);
	for (unsigned j = 0; !(cpu->hflags & IN_64_BITS) && j < N_REGS; j++)
		regs.value[j] &= UINT32_MAX;
	return regs;
}

static bool prove(struct vms_qemu *qemu, unsigned n)
{
	const struct vms_regs regs[] = { all_stub_regs(0), all_stub_regs(1), all_stub_regs(2) };
	return vms_vcpu_state_prove(qemu, regs, n);
}

static void check_read(struct vms_qemu *qemu, unsigned n)
{
	struct vms_regs read[G_N_ELEMENTS(cpus)];
	g_assert_true(vms_vcpu_state_read(qemu, read, n));
	for (unsigned i = 0; i < n; i++) {
		const struct vms_regs told = all_stub_regs(i);
		g_assert_false(vms_regs_have(&read[i], CR8)); /* the table does not have it */
		for (unsigned reg = 0; reg < CS_BASE; reg++) {
			g_assert_true(reg == CR8 || vms_regs_have(&read[i], reg));
			if (reg != CR8)
				g_assert_cmphex(read[i].value[reg], ==, told.value[reg]);
		}
	}
}

static void test_all(void)
{
	struct vms_qemu qemu;
	start_all(&qemu, all_fields);
	g_assert_true(prove(&qemu, 2));
	check_read(&qemu, 2);
	cpus[0].eip = UINT64_C(0xffffffff81000000);
	cpus[1].segs[5].base = 77;
	cpus[1].hflags = 0; /* 32-bit code: the stub tells so many bits */
	cpus[1].cr2 = UINT64_C(0x1234567890);
	check_read(&qemu, 2);
	g_assert_true(prove(&qemu, 2));
	/* A vCPU is plugged. */
	list_cpus(3);
	g_assert_false(prove(&qemu, 2));
	g_assert_true(prove(&qemu, 3));
	check_read(&qemu, 3);
	finish(&qemu);
}

/* The numbers of the machine are by the registers, not by the order of QEMU's list. */
static void test_order(void)
{
	struct vms_qemu qemu;
	start_all(&qemu, all_fields);
	const struct vms_regs regs[] = { all_stub_regs(1), all_stub_regs(0) };
	struct vms_regs read[2];
	g_assert_true(vms_vcpu_state_prove(&qemu, regs, 2));
	g_assert_true(vms_vcpu_state_read(&qemu, read, 2));
	g_assert_cmphex(read[0].value[RIP], ==, cpus[1].eip);
	g_assert_cmphex(read[1].value[RIP], ==, cpus[0].eip);
	finish(&qemu);
}

/* Nothing is read that was not proved. */
static void test_unproved(void)
{
	struct vms_qemu qemu;
	struct vms_regs read[2];
	start_all(&qemu, all_fields);
	g_assert_false(vms_vcpu_state_read(&qemu, read, 2));
	for (unsigned reg = 0; reg < CS_BASE; reg++) {
		struct vms_regs regs[] = { all_stub_regs(0), all_stub_regs(1) };
		regs[1].value[reg]++;
		g_assert_cmpint(vms_vcpu_state_prove(&qemu, regs, 2), ==, reg == CR8);
		g_assert_cmpint(vms_vcpu_state_read(&qemu, read, 2), ==, reg == CR8);
		regs[1] = all_stub_regs(1);
		vms_regs_forget(&regs[1], reg);
		g_assert_cmpint(vms_vcpu_state_prove(&qemu, regs, 2), ==, reg == CR8);
	}
	/* Two that cannot be told apart. */
	cpus[1] = cpus[0];
	list_cpus(2);
	g_assert_false(prove(&qemu, 2));
	finish(&qemu);
	/* A table that lacks one. */
	for (unsigned i = 1; all_fields[i].name; i++) {
		struct state_field fewer[G_N_ELEMENTS(all_fields)];
		memcpy(fewer, all_fields, sizeof(fewer));
		fewer[i].name = "env.none";
		start(&qemu);
		vmstate_x86_cpu.fields = fewer;
		vms_vcpu_state_find(&qemu);
		g_assert_false(prove(&qemu, 2));
		finish(&qemu);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/vcpu-state/told", test_told);
	g_test_add_func("/vcpu-state/endless-list", test_endless_list);
	g_test_add_func("/vcpu-state/other-tables", test_other_tables);
	g_test_add_func("/vcpu-state/all", test_all);
	g_test_add_func("/vcpu-state/order", test_order);
	g_test_add_func("/vcpu-state/unproved", test_unproved);
	return g_test_run();
}
