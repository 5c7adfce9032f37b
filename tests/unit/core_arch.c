/* SPDX-License-Identifier: MIT */
/*
 * Layouts of notes against those of others: the system's struct elf_prstatus, a note that QEMU
 * wrote beside what its monitor showed, and VirtualBox's structures as its headers have them.
 */
#include "machine/core/core_arch.h"
#include "arch/x86_64.h"
#include <stddef.h>
#include <sys/procfs.h>
#include <sys/user.h>

/* Each register another value that fits into it. */
static struct vms_regs all_registers(void)
{
	struct vms_regs regs = { 0 };
	for (unsigned i = 0; i < N_REGS; i++) {
		uint64_t value = UINT64_C(0xf1e2d3c4b5a69700) + i;
		unsigned bits = vms_arch_x86_64.regs[i].bits;
		vms_regs_set(&regs, i, bits < 64 ? value & ((UINT64_C(1) << bits) - 1) : value);
	}
	return regs;
}

static struct vms_bytes bytes_of(enum vms_note_kind kind, const uint8_t *content)
{
	return (struct vms_bytes) { content, vms_core_x86_64.notes[kind].size };
}

static void test_known(void)
{
	g_assert_true(vms_core_arch_of(&vms_arch_x86_64) == &vms_core_x86_64);
	g_assert_true(vms_core_arch_of_elf(62) == &vms_core_x86_64);
	g_assert_null(vms_core_arch_of_elf(3));
}

static void test_prstatus(void)
{
	struct vms_regs regs = all_registers(), read = { 0 };
	g_autofree uint8_t *content = vms_note_encode(&vms_core_x86_64, VMS_NOTE_PRSTATUS, &regs);
	struct elf_prstatus status;
	struct user_regs_struct user;
	g_assert_cmpuint(vms_core_x86_64.notes[VMS_NOTE_PRSTATUS].size, ==, sizeof(status));
	g_assert_cmpuint(vms_core_x86_64.prstatus_pid, ==, offsetof(struct elf_prstatus, pr_pid));
	memcpy(&status, content, sizeof(status));
	memcpy(&user, &status.pr_reg, sizeof(user));
	const struct {
		unsigned reg;
		uint64_t value;
	} expected[] = {
		{ R15, user.r15 },	   { R14, user.r14 }, { R13, user.r13 },
		{ R12, user.r12 },	   { RBP, user.rbp }, { RBX, user.rbx },
		{ R11, user.r11 },	   { R10, user.r10 }, { R9, user.r9 },
		{ R8, user.r8 },	   { RAX, user.rax }, { RCX, user.rcx },
		{ RDX, user.rdx },	   { RSI, user.rsi }, { RDI, user.rdi },
		{ RIP, user.rip },	   { CS, user.cs },   { EFLAGS, user.eflags },
		{ RSP, user.rsp },	   { SS, user.ss },   { FS_BASE, user.fs_base },
		{ GS_BASE, user.gs_base }, { DS, user.ds },   { ES, user.es },
		{ FS, user.fs },	   { GS, user.gs },
	};
	g_assert_true(vms_note_decode(&vms_core_x86_64, VMS_NOTE_PRSTATUS,
				      bytes_of(VMS_NOTE_PRSTATUS, content), &read));
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
		g_assert_cmphex(regs.value[expected[i].reg], ==, expected[i].value);
		/* A Linux kernel's core has the user's there. */
		bool is_told = expected[i].reg != GS_BASE;
		g_assert_true(vms_regs_have(&read, expected[i].reg) == is_told);
		if (is_told)
			g_assert_cmphex(read.value[expected[i].reg], ==, expected[i].value);
	}
	g_assert_cmphex(user.orig_rax, ==, UINT64_MAX);
	g_assert_false(vms_regs_have(&read, CR3));
}

/* By QEMU 10.0.2, of a vCPU in user mode of a Linux guest. */
static const char qemu_note[] =
	"01000000b8010000287b770500000000987a770500000000287b770500000000287b77050000000000000000"
	"000000000000000000000000000b98f2fe7f0000f07677050000000000000000000000000000000000000000"
	"00000000000000000000000000000000587a7705000000000400000000000000681098f2fe7f0000107b7705"
	"000000005ae6520000000000460200000000000033000000ffffffff00fbaf00000000000000000000000000"
	"0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	"0000000000000000000000000000000000000000c06377050000000000000000000000000000000000000000"
	"00000000000000002b000000ffffffff00f3cf00000000000000000000000000000000000000000000820000"
	"0000000000000000000000004000000087400000038900000000000000e0030000feffff000000007f000000"
	"000000000000000000c0030000feffff00000000ff0f000000000000000000000000000000feffff33000580"
	"00000000000000000000000015024f00000000000060770200000000a01e7500000000000000700f3e3c15ff";

/* What `info registers` showed. */
static const struct {
	unsigned reg;
	uint64_t value;
} qemu_shown[] = {
	{ RAX, 0x5777b28 },
	{ RBX, 0x5777a98 },
	{ RCX, 0x5777b28 },
	{ RDX, 0x5777b28 },
	{ RBP, 0x57776f0 },
	{ RSP, 0x7ffef2980b00 },
	{ R8, 0 },
	{ R12, 0x5777a58 },
	{ R13, 4 },
	{ R14, 0x7ffef2981068 },
	{ R15, 0x5777b10 },
	{ RIP, 0x52e65a },
	{ EFLAGS, 0x246 },
	{ ES, 0 },
	{ CS, 0x33 },
	{ CS_LIMIT, 0xffffffff },
	{ CS_ATTR, 0xa0fb },
	{ SS, 0x2b },
	{ SS_LIMIT, 0xffffffff },
	{ SS_ATTR, 0xc0f3 },
	{ DS, 0 },
	{ FS, 0 },
	{ FS_BASE, 0x57763c0 },
	{ GS_BASE, 0 },
	{ LDTR, 0 },
	{ LDTR_ATTR, 0x82 },
	{ TR, 0x40 },
	{ TR_BASE, 0xfffffe000003e000 },
	{ TR_LIMIT, 0x4087 },
	{ TR_ATTR, 0x89 },
	{ GDTR_BASE, 0xfffffe000003c000 },
	{ GDTR_LIMIT, 0x7f },
	{ IDTR_BASE, 0xfffffe0000000000 },
	{ IDTR_LIMIT, 0xfff },
	{ CR0, 0x80050033 },
	{ CR2, 0x4f0215 },
	{ CR3, 0x2776000 },
	{ CR4, 0x751ea0 },
};

static GByteArray *from_hex(const char *hex)
{
	GByteArray *bytes = g_byte_array_new();
	for (; *hex; hex += 2) {
		uint8_t byte =
			(uint8_t)(g_ascii_xdigit_value(hex[0]) << 4 | g_ascii_xdigit_value(hex[1]));
		g_byte_array_append(bytes, &byte, 1);
	}
	return bytes;
}

static void test_qemu(void)
{
	g_autoptr(GByteArray) note = from_hex(qemu_note);
	struct vms_regs regs = { 0 };
	g_assert_cmpuint(note->len, ==, vms_core_x86_64.notes[VMS_NOTE_QEMU].size);
	g_assert_true(vms_note_decode(&vms_core_x86_64, VMS_NOTE_QEMU,
				      (struct vms_bytes) { note->data, note->len }, &regs));
	for (size_t i = 0; i < G_N_ELEMENTS(qemu_shown); i++) {
		g_assert_true(vms_regs_have(&regs, qemu_shown[i].reg));
		g_assert_cmphex(regs.value[qemu_shown[i].reg], ==, qemu_shown[i].value);
	}
	g_assert_cmphex(regs.value[K_GS_BASE], ==, 0xff153c3e0f700000);
	g_assert_false(vms_regs_have(&regs, EFER));
	g_assert_true(vms_x86_64_is_long_mode(&regs));

	/* Written again it is the same, but for what QEMU has of a descriptor besides rights. */
	g_autofree uint8_t *again = vms_note_encode(&vms_core_x86_64, VMS_NOTE_QEMU, &regs);
	for (size_t at = 152; at < 392; at += 24) {
		note->data[at + 8] = again[at + 8] = 0;
		note->data[at + 10] &= 0xf0;
	}
	g_assert_cmpmem(again, note->len, note->data, note->len);
}

static void test_qemu_refused(void)
{
	g_autoptr(GByteArray) note = from_hex(qemu_note);
	struct vms_regs regs = { 0 };
	struct vms_bytes content = { note->data, 431 };
	g_assert_false(vms_note_decode(&vms_core_x86_64, VMS_NOTE_QEMU, content, &regs));
	content.size = 432; /* before QEMU 3.0 */
	g_assert_true(vms_note_decode(&vms_core_x86_64, VMS_NOTE_QEMU, content, &regs));
	g_assert_cmphex(regs.value[CR4], ==, 0x751ea0);
	g_assert_false(vms_regs_have(&regs, K_GS_BASE));
	note->data[0] = 2; /* another version */
	g_assert_false(vms_note_decode(&vms_core_x86_64, VMS_NOTE_QEMU, content, &regs));
}

/* VirtualBox's dbgfcorefmt.h. */
struct selector {
	uint64_t base;
	uint32_t limit, attr;
	uint16_t sel, pad0;
	uint32_t pad1;
};
struct xdtr {
	uint64_t addr;
	uint32_t cb, pad;
};
struct vbox_start {
	uint64_t rax, rbx, rcx, rdx, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rip, rsp, rbp, rflags;
	struct selector cs, ds, es, fs, gs, ss;
	uint64_t cr0, cr2, cr3, cr4;
	uint64_t dr[8];
	struct xdtr gdtr, idtr;
	struct selector ldtr, tr;
	uint64_t sysenter_cs, sysenter_eip, sysenter_esp;
	uint64_t efer, star, pat, lstar, cstar, sfmask, kgsbase, apicbase;
};
struct vbox_end {
	uint64_t xcr[2];
	uint32_t ext_size, pad;
	uint8_t ext[8192];
};
struct vbox_6 {
	struct vbox_start start;
	uint64_t tsc_aux;
	struct vbox_end end;
};
struct vbox_5 {
	struct vbox_start start;
	struct vbox_end end;
};

#define CHECK(reg, field) g_assert_cmphex(regs->value[reg], ==, field)
#define CHECK_SEGMENT(reg, field)                                                                  \
	CHECK(reg, (field).sel);                                                                   \
	CHECK(reg##_BASE, (field).base);                                                           \
	CHECK(reg##_LIMIT, (field).limit);                                                         \
	CHECK(reg##_ATTR, (field).attr)

static void check_vbox(const struct vms_regs *regs, const struct vbox_start *start,
		       const struct vbox_end *end)
{
	CHECK(RAX, start->rax);
	CHECK(RBX, start->rbx);
	CHECK(RCX, start->rcx);
	CHECK(RDX, start->rdx);
	CHECK(RSI, start->rsi);
	CHECK(RDI, start->rdi);
	CHECK(R8, start->r8);
	CHECK(R9, start->r9);
	CHECK(R10, start->r10);
	CHECK(R11, start->r11);
	CHECK(R12, start->r12);
	CHECK(R13, start->r13);
	CHECK(R14, start->r14);
	CHECK(R15, start->r15);
	CHECK(RIP, start->rip);
	CHECK(RSP, start->rsp);
	CHECK(RBP, start->rbp);
	CHECK(EFLAGS, start->rflags);
	CHECK_SEGMENT(CS, start->cs);
	CHECK_SEGMENT(DS, start->ds);
	CHECK_SEGMENT(ES, start->es);
	CHECK_SEGMENT(FS, start->fs);
	CHECK_SEGMENT(GS, start->gs);
	CHECK_SEGMENT(SS, start->ss);
	CHECK(CR0, start->cr0);
	CHECK(CR2, start->cr2);
	CHECK(CR3, start->cr3);
	CHECK(CR4, start->cr4);
	CHECK(DR0, start->dr[0]);
	CHECK(DR1, start->dr[1]);
	CHECK(DR2, start->dr[2]);
	CHECK(DR3, start->dr[3]);
	CHECK(DR6, start->dr[6]);
	CHECK(DR7, start->dr[7]);
	CHECK(GDTR_BASE, start->gdtr.addr);
	CHECK(GDTR_LIMIT, start->gdtr.cb);
	CHECK(IDTR_BASE, start->idtr.addr);
	CHECK(IDTR_LIMIT, start->idtr.cb);
	CHECK_SEGMENT(LDTR, start->ldtr);
	CHECK_SEGMENT(TR, start->tr);
	CHECK(SYSENTER_CS, start->sysenter_cs);
	CHECK(SYSENTER_EIP, start->sysenter_eip);
	CHECK(SYSENTER_ESP, start->sysenter_esp);
	CHECK(EFER, start->efer);
	CHECK(STAR, start->star);
	CHECK(PAT, start->pat);
	CHECK(LSTAR, start->lstar);
	CHECK(CSTAR, start->cstar);
	CHECK(SFMASK, start->sfmask);
	CHECK(K_GS_BASE, start->kgsbase);
	CHECK(APIC_BASE, start->apicbase);
	CHECK(XCR0, end->xcr[0]);
	/* An initialised FPU: FNINIT's control word, MXCSR's value after reset. */
	g_assert_cmpuint(end->ext_size, ==, 512);
	g_assert_cmphex(end->ext[0] | end->ext[1] << 8, ==, 0x37f);
	g_assert_cmphex(end->ext[24] | end->ext[25] << 8, ==, 0x1f80);
}

/* What was written is read again: every register but one that has no place. */
static void check_read_again(enum vms_note_kind kind, const uint8_t *content,
			     const struct vms_regs *regs, bool has_tsc_aux)
{
	struct vms_regs read = { 0 };
	g_assert_true(vms_note_decode(&vms_core_x86_64, kind, bytes_of(kind, content), &read));
	for (unsigned i = 0; i < N_REGS; i++) {
		bool has_place = i != CR8 && (i != TSC_AUX || has_tsc_aux);
		g_assert_true(vms_regs_have(&read, i) == has_place);
		if (has_place)
			g_assert_cmphex(read.value[i], ==, regs->value[i]);
	}
}

static void test_vbox(void)
{
	struct vms_regs all = all_registers(), *regs = &all;
	g_autofree uint8_t *six = vms_note_encode(&vms_core_x86_64, VMS_NOTE_VBOX_6, regs);
	struct vbox_6 v6;
	g_assert_cmpuint(vms_core_x86_64.notes[VMS_NOTE_VBOX_6].size, ==, sizeof(v6));
	g_assert_cmpuint(sizeof(v6), ==, 8776);
	memcpy(&v6, six, sizeof(v6));
	check_vbox(regs, &v6.start, &v6.end);
	CHECK(TSC_AUX, v6.tsc_aux);
	check_read_again(VMS_NOTE_VBOX_6, six, regs, true);

	g_autofree uint8_t *five = vms_note_encode(&vms_core_x86_64, VMS_NOTE_VBOX_5, regs);
	struct vbox_5 v5;
	g_assert_cmpuint(vms_core_x86_64.notes[VMS_NOTE_VBOX_5].size, ==, sizeof(v5));
	memcpy(&v5, five, sizeof(v5));
	check_vbox(regs, &v5.start, &v5.end);
	check_read_again(VMS_NOTE_VBOX_5, five, regs, false);
}

/* A gdb stub tells selectors only: the rest is as 64-bit operating systems have it. */
static void test_assumed(void)
{
	struct vms_regs regs = { 0 };
	vms_regs_set(&regs, CS, 0x33);
	vms_regs_set(&regs, SS, 0x18);
	vms_regs_set(&regs, DS, 0);
	g_autofree uint8_t *content = vms_note_encode(&vms_core_x86_64, VMS_NOTE_VBOX_6, &regs);
	struct vbox_6 v6;
	memcpy(&v6, content, sizeof(v6));
	/* Intel SDM: type 11, S, DPL 3, P, L, G; type 3, S, P, D/B, G; bit 16: unusable. */
	g_assert_cmphex(v6.start.cs.attr, ==, 0xa0fb);
	g_assert_cmphex(v6.start.cs.limit, ==, 0xffffffff);
	g_assert_cmphex(v6.start.ss.attr, ==, 0xc093);
	g_assert_cmphex(v6.start.ds.attr, ==, 0x10000);
	g_assert_cmphex(v6.start.ds.limit, ==, 0);
	g_assert_cmphex(v6.start.tr.attr, ==, 0x8b);
	g_assert_cmphex(v6.start.ldtr.attr, ==, 0x10000);

	/* Not where the machine is in another mode. */
	vms_regs_set(&regs, EFER, 0);
	g_autofree uint8_t *other = vms_note_encode(&vms_core_x86_64, VMS_NOTE_VBOX_6, &regs);
	memcpy(&v6, other, sizeof(v6));
	g_assert_cmphex(v6.start.cs.attr, ==, 0);
}

/* struct CPUMCTX of VirtualBox 3.1 to 4.1. */
struct hidden {
	uint64_t base;
	uint32_t limit, attr;
};
struct __attribute__((packed)) cpumctx {
	uint8_t fpu[512];
	uint64_t rdi, rsi, rbp, rax, rbx, rdx, rcx, rsp;
	uint32_t lss_esp;
	uint16_t ss, ss_pad, gs, gs_pad, fs, fs_pad, es, es_pad, ds, ds_pad, cs, cs_pad[3];
	uint64_t rflags, rip, r8, r9, r10, r11, r12, r13, r14, r15;
	struct hidden es_hidden, cs_hidden, ss_hidden, ds_hidden, fs_hidden, gs_hidden;
	uint64_t cr0, cr2, cr3, cr4, dr[8];
	uint16_t gdtr_limit;
	uint64_t gdtr_base;
	uint16_t gdtr_pad, idtr_limit;
	uint64_t idtr_base;
	uint16_t idtr_pad, ldtr, ldtr_pad, tr, tr_pad;
	uint64_t sysenter_cs, sysenter_eip, sysenter_esp;
	uint64_t efer, star, pat, lstar, cstar, sfmask, kgsbase;
	struct hidden ldtr_hidden, tr_hidden;
};

#define CHECK_HIDDEN(reg, name)                                                                    \
	CHECK(reg, ctx.name);                                                                      \
	CHECK(reg##_BASE, ctx.name##_hidden.base);                                                 \
	CHECK(reg##_LIMIT, ctx.name##_hidden.limit);                                               \
	CHECK(reg##_ATTR, ctx.name##_hidden.attr)

static void test_vbox_2010(void)
{
	struct vms_regs read = { 0 }, *regs = &read;
	uint8_t content[1024];
	struct cpumctx ctx;
	g_assert_cmpuint(sizeof(ctx), ==, sizeof(content));
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)(i * 7 + i / 256);
	memcpy(&ctx, content, sizeof(ctx));
	g_assert_true(vms_note_decode(&vms_core_x86_64, VMS_NOTE_VBOX_2010,
				      bytes_of(VMS_NOTE_VBOX_2010, content), regs));
	CHECK(RAX, ctx.rax);
	CHECK(RBX, ctx.rbx);
	CHECK(RCX, ctx.rcx);
	CHECK(RDX, ctx.rdx);
	CHECK(RSI, ctx.rsi);
	CHECK(RDI, ctx.rdi);
	CHECK(RBP, ctx.rbp);
	CHECK(RSP, ctx.rsp);
	CHECK(R8, ctx.r8);
	CHECK(R9, ctx.r9);
	CHECK(R10, ctx.r10);
	CHECK(R11, ctx.r11);
	CHECK(R12, ctx.r12);
	CHECK(R13, ctx.r13);
	CHECK(R14, ctx.r14);
	CHECK(R15, ctx.r15);
	CHECK(RIP, ctx.rip);
	CHECK(EFLAGS, ctx.rflags);
	CHECK_HIDDEN(CS, cs);
	CHECK_HIDDEN(DS, ds);
	CHECK_HIDDEN(ES, es);
	CHECK_HIDDEN(FS, fs);
	CHECK_HIDDEN(GS, gs);
	CHECK_HIDDEN(SS, ss);
	CHECK_HIDDEN(LDTR, ldtr);
	CHECK_HIDDEN(TR, tr);
	CHECK(CR0, ctx.cr0);
	CHECK(CR2, ctx.cr2);
	CHECK(CR3, ctx.cr3);
	CHECK(CR4, ctx.cr4);
	CHECK(DR0, ctx.dr[0]);
	CHECK(DR3, ctx.dr[3]);
	CHECK(DR6, ctx.dr[6]);
	CHECK(DR7, ctx.dr[7]);
	CHECK(GDTR_BASE, ctx.gdtr_base);
	CHECK(GDTR_LIMIT, ctx.gdtr_limit);
	CHECK(IDTR_BASE, ctx.idtr_base);
	CHECK(IDTR_LIMIT, ctx.idtr_limit);
	CHECK(SYSENTER_CS, ctx.sysenter_cs);
	CHECK(SYSENTER_EIP, ctx.sysenter_eip);
	CHECK(SYSENTER_ESP, ctx.sysenter_esp);
	CHECK(EFER, ctx.efer);
	CHECK(STAR, ctx.star);
	CHECK(PAT, ctx.pat);
	CHECK(LSTAR, ctx.lstar);
	CHECK(CSTAR, ctx.cstar);
	CHECK(SFMASK, ctx.sfmask);
	CHECK(K_GS_BASE, ctx.kgsbase);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/core_arch/known", test_known);
	g_test_add_func("/core_arch/prstatus", test_prstatus);
	g_test_add_func("/core_arch/qemu", test_qemu);
	g_test_add_func("/core_arch/qemu-refused", test_qemu_refused);
	g_test_add_func("/core_arch/vbox", test_vbox);
	g_test_add_func("/core_arch/assumed", test_assumed);
	g_test_add_func("/core_arch/vbox-2010", test_vbox_2010);
	return g_test_run();
}
