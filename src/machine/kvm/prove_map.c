/* SPDX-License-Identifier: MIT */
#include "machine/kvm/prove_map.h"

#include "arch/x86_64.h"
#include <string.h>

#define LOW	   1U
#define HIGH	   2U
#define CR0_PAGING (UINT64_C(1) << 31)
/* How much of the stack to search for return addresses, in words. */
#define STACK_WORDS 64
/* The longest call instruction, and the shortest. */
#define CALL_MAX 7

/* Reads the guest's memory by a guess, and notes which parts it has read from. */
struct view {
	const struct vms_kvm_guess *guess;
	const struct vms_ram *ram;
	const struct vms_arch *arch;
	struct vms_regs regs;
	unsigned seen; /* parts */
};

static unsigned part_of(uint64_t pa)
{
	return pa < VMS_KVM_HIGH_PA ? LOW : HIGH;
}

unsigned vms_kvm_guess_parts(const struct vms_kvm_guess *guess)
{
	unsigned parts = 0;
	for (unsigned i = 0; i < guess->n; i++)
		parts |= part_of(guess->places[i].pa);
	return parts;
}

static bool read_phys(void *data, uint64_t pa, void *buf, size_t size)
{
	struct view *view = data;
	for (unsigned i = 0; i < view->guess->n; i++) {
		const struct vms_ram_place *place = &view->guess->places[i];
		if (pa < place->pa || pa - place->pa >= place->size ||
		    place->size - (pa - place->pa) < size)
			continue;
		view->seen |= part_of(pa);
		return vms_ram_read(view->ram, place->hva + (pa - place->pa), buf, size);
	}
	return false;
}

/* Reads up to `size` bytes, no further than the end of the page. Returns how many. */
static size_t read_virtual(struct view *view, uint64_t va, void *buf, size_t size, bool *executable)
{
	const struct vms_reader phys = { read_phys, view };
	struct vms_page page;
	if (!view->arch->translate(&view->regs, &phys, va, &page))
		return 0;
	const uint64_t offset = va - page.va;
	const size_t n = MIN(size, page.size - offset);
	*executable = page.executable;
	return read_phys(view, page.pa + offset, buf, n) ? n : 0;
}

static bool note_instruction(const struct vms_insn *insn, void *data)
{
	*(bool *)data = !insn->is_data;
	return false;
}

static bool is_all_zero(const uint8_t *bytes, size_t n)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0;
}

/* True if there is an instruction at `va`. */
static bool is_code(struct view *view, uint64_t va)
{
	uint8_t bytes[VMS_INSN_MAX];
	bool executable, is_instruction = false;
	size_t n = read_virtual(view, va, bytes, sizeof(bytes), &executable);
	return n > 0 && executable && !is_all_zero(bytes, n) &&
	       vms_disassemble(view->arch, 64, 0, va, bytes, n, note_instruction, &is_instruction,
			       NULL) &&
	       is_instruction;
}

/* True if a call ends at `va`: direct, or through a register or memory. */
static bool follows_call(struct view *view, uint64_t va)
{
	uint8_t bytes[CALL_MAX];
	bool executable;
	if (va < CALL_MAX ||
	    read_virtual(view, va - CALL_MAX, bytes, CALL_MAX, &executable) < CALL_MAX ||
	    !executable)
		return false;
	const uint8_t *end = bytes + CALL_MAX;
	if (end[-5] == 0xe8)
		return true;
	static const unsigned lengths[] = { 2, 3, 4, 6, 7 };
	for (size_t i = 0; i < G_N_ELEMENTS(lengths); i++)
		if (end[-(int)lengths[i]] == 0xff && (end[1 - (int)lengths[i]] >> 3 & 7) == 2)
			return true;
	return false;
}

/* True if the stack can be read. Notes its part if it holds a return address. */
static bool check_stack(struct view *view, unsigned *parts)
{
	uint64_t words[STACK_WORDS];
	bool executable;
	const unsigned before = view->seen;
	view->seen = 0;
	size_t n = read_virtual(view, view->regs.value[RSP] & ~UINT64_C(7), words, sizeof(words),
				&executable);
	const unsigned seen = view->seen;
	view->seen = before;
	for (size_t i = 0; i < n / sizeof(*words); i++) {
		unsigned kept = view->seen;
		bool is_return = words[i] > 0x1000 && follows_call(view, words[i]);
		view->seen = kept;
		if (is_return) {
			*parts |= seen;
			break;
		}
	}
	return n > 0;
}

/* True if a table of the processor's is in memory, or there is none. */
static bool check_table(struct view *view, unsigned base, unsigned limit)
{
	uint64_t word;
	bool executable;
	if (view->regs.value[base] == 0 || view->regs.value[limit] == 0)
		return true;
	const unsigned before = view->seen;
	bool read = read_virtual(view, view->regs.value[base], &word, sizeof(word), &executable);
	view->seen = before;
	return read;
}

enum vms_kvm_proof vms_kvm_prove(const struct vms_kvm_guess *guess, const struct vms_ram *ram,
				 const struct vms_arch *arch, const struct vms_regs *regs,
				 unsigned *parts)
{
	struct view view = { guess, ram, arch, *regs, 0 };
	if (!(regs->value[CR0] & CR0_PAGING) || !vms_x86_64_is_long_mode(regs))
		return VMS_KVM_NOTHING;
	if (!is_code(&view, regs->value[RIP]))
		return VMS_KVM_WRONG;
	*parts |= view.seen; /* what page tables and code were read from */
	if (!check_stack(&view, parts) || !check_table(&view, IDTR_BASE, IDTR_LIMIT) ||
	    !check_table(&view, GDTR_BASE, GDTR_LIMIT))
		return VMS_KVM_WRONG;
	return (*parts & vms_kvm_guess_parts(guess)) == vms_kvm_guess_parts(guess)
		       ? VMS_KVM_PROVED
		       : VMS_KVM_POSSIBLE;
}
