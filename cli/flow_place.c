/* SPDX-License-Identifier: MIT */
#include "flow_place.h"
#include "functions.h"

#include <vmscope/log.h>

#define KERNEL_MIN (UINT64_C(1) << 63)
#define CODE_MAX   65536u /* bytes of a function before its probe that are decoded */

/* The code of a function, up to a place in it. */
struct code {
	uint64_t begin, place;
	uint8_t *bytes;
	size_t size;
	uint64_t insn; /* the address of the instruction that contains the place */
};

static bool find_instruction(const struct vms_insn *insn, void *data)
{
	struct code *code = data;
	if (insn->va <= code->place)
		code->insn = insn->va;
	return insn->va + insn->size <= code->place;
}

static void check_instruction(struct session *session, struct code *code, const char *symbol)
{
	if (!vms_disassemble(vms_machine_arch(session->machine), 64, 0, code->begin, code->bytes,
			     code->size, find_instruction, code, NULL) ||
	    code->insn == code->place)
		return;
	vms_log(VMS_LOG_WARNING,
		"0x%" G_GINT64_MODIFIER "x lies inside the instruction at %s+0x%" G_GINT64_MODIFIER
		"x: it will never be hit",
		code->place, symbol, code->insn - code->begin);
}

struct named {
	uint64_t va;
	bool is_code, is_data;
};

static void note_type(const struct vms_symbol *symbol, const char *module, void *data)
{
	(void)module;
	struct named *named = data;
	if (symbol->va != named->va)
		return;
	named->is_code |= functions_is_code(symbol->type);
	named->is_data |= !functions_is_code(symbol->type);
}

/* True if the symbol is a variable, and no function has the same name and address. */
static bool is_data(struct session *session, const char *symbol, uint64_t va)
{
	struct named named = { .va = va };
	vms_guest_lookup(session->guest, symbol, note_type, &named);
	return named.is_data && !named.is_code;
}

void flow_place_check(struct session *session, uint64_t va)
{
	struct vms_location location = { 0 };
	const bool named = vms_guest_locate(session->guest, NULL, va, &location) &&
			   location.symbol && location.offset < CODE_MAX;
	struct code code = { .begin = named ? va - location.offset : va, .place = va };
	/* The page tables of user programs are not known here. */
	if (!named && va < KERNEL_MIN)
		return;
	code.size = va - code.begin + VMS_INSN_MAX;
	g_autofree uint8_t *bytes = g_malloc(code.size);
	code.bytes = bytes;
	code.size = session_read_first(session, false, 0, code.begin, bytes, code.size, NULL);
	if (code.size <= va - code.begin)
		vms_log(VMS_LOG_WARNING,
			"no memory is mapped at 0x%" G_GINT64_MODIFIER "x: it cannot be hit now",
			va);
	else if (named && is_data(session, location.symbol, code.begin))
		vms_log(VMS_LOG_WARNING,
			"0x%" G_GINT64_MODIFIER "x is in %s, which is data: it will never be hit",
			va, location.symbol);
	else if (named)
		check_instruction(session, &code, location.symbol);
}
