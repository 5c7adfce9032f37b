/* SPDX-License-Identifier: MIT */
#include "unwind/user_frame.h"

#include "arch/aarch64.h"
#include "unwind/go_stack.h"
#include "unwind/user_tables.h"

#define FRAME_LIMIT    (8u << 20) /* bytes of one frame; Linux's usual limit of a whole stack */
#define LOWEST_CODE    4096	  /* no code of user mode is at lower addresses */
#define USER_CODE_BITS 56	  /* no architecture has longer addresses in user mode */

/* True if `pc` may be code that calls, or is called by, the code at `near`. */
static bool is_plausible_code(const struct vms_arch *arch, uint64_t pc, uint64_t near)
{
	if (arch->is_kernel_address(near))
		return arch->is_kernel_address(pc);
	return pc >= LOWEST_CODE && pc >> USER_CODE_BITS == 0;
}

/* True if `va` is mapped, but not executable. Code that is paged out is not mapped. */
static bool is_data(struct vms_cursor *cursor, uint64_t va)
{
	struct vms_page page;
	return vms_memory_translate(cursor->memory, va, &page) && !page.executable;
}

static uint64_t get_offset(const struct vms_mapping *mapping, uint64_t va)
{
	return va - mapping->start + mapping->offset;
}

/* Reads code of the file that the cursor's frame is in. */
static bool read_user_code(const struct vms_cursor *cursor, uint64_t va, void *buf, size_t size)
{
	bool (*read)(struct vms_binary *, uint64_t, void *, size_t) =
		vms_memory_is_urgent(cursor->memory) ? vms_binary_read_now : vms_binary_read;
	for (unsigned i = 0; i < VMS_CURSOR_MAPPINGS; i++) {
		const struct vms_mapping *mapping = &cursor->mappings[i];
		if (mapping->binary && va >= mapping->start && va < mapping->end &&
		    size <= mapping->end - va)
			return read(mapping->binary, get_offset(mapping, va), buf, size);
	}
	return false;
}

/* ---- frame pointers --------------------------------------------------- */

static bool read_code_or_stack(void *data, uint64_t va, void *buf, size_t size)
{
	const struct vms_cursor *cursor = data;
	return cursor->virt.read(cursor->virt.data, va, buf, size) ||
	       read_user_code(cursor, va, buf, size);
}

/*
 * Code that is compiled without frame pointers may have any value in that register. So a value that
 * cannot be a frame pointer is VMS_WALK_NO_INFO, not VMS_WALK_BAD_FRAME.
 */
static bool step_by_frame_pointer(struct vms_cursor *cursor, unsigned bits,
				  const struct vms_reader *virt, enum vms_walk_end *end)
{
	const struct vms_arch *arch = cursor->arch;
	struct vms_regs *regs = &cursor->regs;
	const uint64_t sp = regs->value[arch->sp], fp = regs->value[arch->fp];
	uint64_t word;
	if (fp == 0)
		*end = VMS_WALK_ROOT;
	else if (fp % (bits / 8) != 0 || fp < sp || fp - sp > FRAME_LIMIT)
		*end = VMS_WALK_NO_INFO;
	else if (!cursor->virt.read(cursor->virt.data, fp, &word, bits / 8))
		*end = VMS_WALK_UNREADABLE;
	else if (!arch->step_frame_pointer(regs, virt))
		*end = VMS_WALK_ROOT;
	else
		return true;
	return false;
}

static bool step_frame_pointer(struct vms_cursor *cursor, enum vms_walk_end *end)
{
	const struct vms_arch *arch = cursor->arch;
	struct vms_regs *regs = &cursor->regs;
	const uint64_t pc = regs->value[arch->pc];
	const struct vms_reader virt = { read_code_or_stack, cursor };
	struct vms_code_mode mode;

	vms_arch_code_mode(arch, regs, &mode);
	*end = VMS_WALK_NO_INFO;
	if (mode.bits == 16) /* near and far calls leave frames of different sizes */
		return false;
	if ((cursor->is_return || !arch->step_frameless(regs, &virt)) &&
	    !step_by_frame_pointer(cursor, mode.bits, &virt, end))
		return false;
	if (!is_plausible_code(arch, regs->value[arch->pc], pc))
		*end = VMS_WALK_BAD_FRAME;
	else if (is_data(cursor, regs->value[arch->pc] - 1))
		*end = VMS_WALK_NO_INFO;
	else
		return cursor->is_return = true;
	return false;
}

/* ---- what is mapped --------------------------------------------------- */

/* Finds what is mapped at `va`, which may be the same as for the last frame. NULL: unknown. */
static const struct vms_mapping *find_mapping(struct vms_cursor *cursor, uint64_t va)
{
	struct vms_mapping *kept = cursor->mappings;
	for (unsigned i = 0; i < VMS_CURSOR_MAPPINGS; i++)
		if (va >= kept[i].start && va < kept[i].end)
			return &kept[i];
	const unsigned next = cursor->n_mappings % VMS_CURSOR_MAPPINGS;
	if (!vms_guest_user_code(cursor->guest, cursor->memory, cursor->process, va, &kept[next])) {
		kept[next] = (struct vms_mapping) { 0 };
		return NULL;
	}
	cursor->n_mappings++;
	return &kept[next];
}

/* ---- registers -------------------------------------------------------- */

/* What differs between architectures: how DWARF numbers registers, and what signals leave. */
struct user_arch {
	const struct vms_arch *arch;
	const uint8_t *regs; /* their indices, by DWARF's numbers */
	unsigned n_regs, sp;
	uint32_t kept;	      /* registers that a called function gives back as they were */
	const uint8_t *tramp; /* the code that a signal's handler returns to */
	size_t tramp_size;
	struct {
		uint8_t reg; /* by DWARF's numbers */
		uint16_t at;
	} saved[32];	   /* of the interrupted code: where it is above the stack pointer */
	uint16_t saved_pc; /* the same */
};

#define BIT(n) (UINT32_C(1) << (n))

/* rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, and the return address. */
static const uint8_t x86_64_regs[] = { 0, 3, 2, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
/* x0 to x30 and the stack pointer. */
static const uint8_t aarch64_regs[] = { 0,  1,	2,  3,	4,  5,	6,  7,	8,  9,	10,
					11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
					22, 23, 24, 25, 26, 27, 28, 29, 30, 31 };

/* mov $15,%rax; syscall */
static const uint8_t x86_64_tramp[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
/* mov x8, #139; svc #0 */
static const uint8_t aarch64_tramp[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4 };

enum { X86_64_SP = 7, AARCH64_SP = 31, AARCH64_X0_AT = 312 };

/* struct ucontext and struct sigcontext of both (asm/sigcontext.h), which Linux never changes. */
static const struct user_arch user_archs[] = {
	{ &vms_arch_x86_64,
	  x86_64_regs,
	  G_N_ELEMENTS(x86_64_regs),
	  X86_64_SP,
	  BIT(3) | BIT(6) | BIT(X86_64_SP) | BIT(12) | BIT(13) | BIT(14) | BIT(15) | BIT(16),
	  x86_64_tramp,
	  sizeof(x86_64_tramp),
	  { { 8, 40 },
	    { 9, 48 },
	    { 10, 56 },
	    { 11, 64 },
	    { 12, 72 },
	    { 13, 80 },
	    { 14, 88 },
	    { 15, 96 },
	    { 5, 104 },
	    { 4, 112 },
	    { 6, 120 },
	    { 3, 128 },
	    { 1, 136 },
	    { 0, 144 },
	    { 2, 152 },
	    { 7, 160 } },
	  168 },
	{ &vms_arch_aarch64,
	  aarch64_regs,
	  G_N_ELEMENTS(aarch64_regs),
	  AARCH64_SP,
	  0x3ff80000 | BIT(AARCH64_SP),
	  aarch64_tramp,
	  sizeof(aarch64_tramp),
	  { { 19, AARCH64_X0_AT + 19 * 8 },
	    { 20, AARCH64_X0_AT + 20 * 8 },
	    { 21, AARCH64_X0_AT + 21 * 8 },
	    { 22, AARCH64_X0_AT + 22 * 8 },
	    { 23, AARCH64_X0_AT + 23 * 8 },
	    { 24, AARCH64_X0_AT + 24 * 8 },
	    { 25, AARCH64_X0_AT + 25 * 8 },
	    { 26, AARCH64_X0_AT + 26 * 8 },
	    { 27, AARCH64_X0_AT + 27 * 8 },
	    { 28, AARCH64_X0_AT + 28 * 8 },
	    { 29, AARCH64_X0_AT + 29 * 8 },
	    { 30, AARCH64_X0_AT + 30 * 8 },
	    { 31, AARCH64_X0_AT + 31 * 8 } },
	  AARCH64_X0_AT + 32 * 8 },
};

static const struct user_arch *find_arch(const struct vms_arch *arch)
{
	for (size_t i = 0; i < G_N_ELEMENTS(user_archs); i++)
		if (user_archs[i].arch == arch)
			return &user_archs[i];
	return NULL;
}

static void get_regs(const struct user_arch *user, const struct vms_regs *from,
		     struct vms_cfi_regs *ret)
{
	*ret = (struct vms_cfi_regs) { 0 };
	for (unsigned i = 0; i < user->n_regs; i++) {
		ret->value[i] = from->value[user->regs[i]];
		ret->valid |= vms_regs_have(from, user->regs[i]) ? BIT(i) : 0;
	}
}

static void set_regs(const struct user_arch *user, const struct vms_cfi_regs *from,
		     struct vms_regs *ret)
{
	for (unsigned i = 0; i < user->n_regs; i++) {
		ret->value[user->regs[i]] = from->value[i];
		if (from->valid & BIT(i))
			vms_regs_set(ret, user->regs[i], from->value[i]);
		else
			vms_regs_forget(ret, user->regs[i]);
	}
}

/* ---- tables ----------------------------------------------------------- */

/*
 * Moves to the caller at `pc` with these registers. The address 0 is what programs put below their
 * first frame.
 */
static bool move_to(struct vms_cursor *cursor, const struct user_arch *user,
		    const struct vms_cfi_regs *regs, uint64_t pc, bool is_interrupted,
		    enum vms_walk_end *end)
{
	if (cursor->arch == &vms_arch_aarch64)
		pc = vms_aarch64_strip_pac(&cursor->regs, pc);
	set_regs(user, regs, &cursor->regs);
	vms_regs_set(&cursor->regs, cursor->arch->pc, pc);
	cursor->is_return = !is_interrupted;
	cursor->is_after_signal = is_interrupted;
	*end = pc == 0 ? VMS_WALK_ROOT : VMS_WALK_BAD_FRAME;
	return pc != 0 && is_plausible_code(cursor->arch, pc, LOWEST_CODE) &&
	       find_mapping(cursor, pc - !is_interrupted);
}

static const struct vms_cfi_rule *find_rule(const struct vms_cfi_row *row, unsigned reg)
{
	for (unsigned i = 0; i < row->n; i++)
		if (row->rules[i].reg == reg)
			return &row->rules[i];
	return NULL;
}

static bool step_by_row(struct vms_cursor *cursor, const struct user_arch *user,
			const struct vms_cfi_row *row, enum vms_walk_end *end)
{
	const struct vms_cfi_rule *rule = find_rule(row, row->return_reg);
	struct vms_cfi_regs regs;
	bool unread;
	get_regs(user, &cursor->regs, &regs);
	*end = VMS_WALK_ROOT;
	if (rule && rule->kind == VMS_CFI_UNDEFINED)
		return false;
	/* Without a rule the address is still in its register: not so once something was called. */
	const bool is_in_reg = !rule && cursor->arch == &vms_arch_aarch64 && !cursor->is_return &&
			       regs.valid & BIT(row->return_reg);
	*end = VMS_WALK_NO_INFO;
	if (!rule && !is_in_reg)
		return false;
	if (!vms_cfi_step(row, user->sp, &cursor->virt, &regs, &unread)) {
		*end = unread ? VMS_WALK_UNREADABLE : VMS_WALK_NO_INFO;
		return false;
	}
	const uint64_t pc = regs.value[row->return_reg];
	if (!row->is_signal)
		regs.valid &= user->kept;
	return move_to(cursor, user, &regs, pc, row->is_signal, end);
}

/*
 * True if the frame is the code that a signal's handler returns to. On aarch64 that is in the vDSO,
 * whose page a process has only once a handler has returned; but no other code of the vDSO calls a
 * program, so a return address there tells enough.
 */
static bool is_in_trampoline(const struct vms_cursor *cursor, const struct user_arch *user,
			     const struct vms_mapping *mapping)
{
	uint8_t code[16];
	if (read_user_code(cursor, cursor->regs.value[cursor->arch->pc], code, user->tramp_size))
		return memcmp(code, user->tramp, user->tramp_size) == 0;
	return cursor->arch == &vms_arch_aarch64 && cursor->is_return && !mapping->binary &&
	       g_strcmp0(mapping->name, "[vdso]") == 0;
}

static bool step_signal(struct vms_cursor *cursor, const struct user_arch *user,
			enum vms_walk_end *end)
{
	const uint64_t sp = cursor->regs.value[cursor->arch->sp];
	const struct vms_reader *virt = &cursor->virt;
	struct vms_cfi_regs regs = { 0 };
	uint64_t pc;
	*end = VMS_WALK_UNREADABLE;
	for (size_t i = 0; i < G_N_ELEMENTS(user->saved) && user->saved[i].at; i++) {
		const unsigned reg = user->saved[i].reg;
		if (!virt->read(virt->data, sp + user->saved[i].at, &regs.value[reg],
				sizeof(regs.value[reg])))
			return false;
		regs.valid |= BIT(reg);
	}
	return virt->read(virt->data, sp + user->saved_pc, &pc, sizeof(pc)) &&
	       move_to(cursor, user, &regs, pc, true, end);
}

/* Steps by a frame pointer. Nothing is known of other registers after that. */
static bool step_without_table(struct vms_cursor *cursor, const struct user_arch *user,
			       enum vms_walk_end *end)
{
	const struct vms_arch *arch = cursor->arch;
	const uint64_t fp = arch->fp;
	if (!step_frame_pointer(cursor, end))
		return false;
	for (unsigned i = 0; i < user->n_regs; i++)
		if (user->regs[i] != fp && user->regs[i] != arch->sp && user->regs[i] != arch->pc)
			vms_regs_forget(&cursor->regs, user->regs[i]);
	return true;
}

bool vms_step_user_frame(struct vms_cursor *cursor, enum vms_walk_end *end)
{
	const struct user_arch *user = find_arch(cursor->arch);
	const uint64_t pc = cursor->regs.value[cursor->arch->pc] - cursor->is_return;
	const bool waits = !vms_memory_is_urgent(cursor->memory);
	struct vms_cfi_row row;
	cursor->is_after_signal = false;
	if (!cursor->process || !user)
		return step_frame_pointer(cursor, end);
	const struct vms_mapping *mapping = find_mapping(cursor, pc);
	const enum vms_cfi_result result =
		mapping && mapping->binary
			? vms_user_tables_find(mapping->binary, cursor->arch,
					       get_offset(mapping, pc), waits, &row)
			: VMS_CFI_NONE;
	if (result == VMS_CFI_FOUND)
		return step_by_row(cursor, user, &row, end);
	if (result == VMS_CFI_MISSING) {
		*end = VMS_WALK_NO_TABLE;
		return false;
	}
	if (mapping && is_in_trampoline(cursor, user, mapping))
		return step_signal(cursor, user, end);
	if (mapping && mapping->binary &&
	    vms_go_stack_end(mapping->binary, get_offset(mapping, pc), waits, end))
		return false;
	return step_without_table(cursor, user, end);
}
