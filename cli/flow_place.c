/* SPDX-License-Identifier: MIT */
#include "flow_place.h"

#include <vmscope/log.h>

#define KERNEL_MIN (UINT64_C(1) << 63)
#define CODE_MAX   65536u /* bytes of a function before its probe that are decoded */

/* The code of a function up to a place in it. */
struct code {
	uint64_t begin, place;
	uint8_t *bytes;
	size_t size;
	uint64_t insn; /* the instruction that the place is in */
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
		"0x%" G_GINT64_MODIFIER "x is within the instruction at %s+0x%" G_GINT64_MODIFIER
		"x: no vCPU comes there",
		code->place, symbol, code->insn - code->begin);
}

void flow_place_check(struct session *session, uint64_t va)
{
	struct vms_location location = { 0 };
	const bool named = vms_guest_locate(session->guest, NULL, va, &location) &&
			   location.symbol && location.offset < CODE_MAX;
	struct code code = { .begin = named ? va - location.offset : va, .place = va };
	/* Programs have page tables of their own. */
	if (!named && va < KERNEL_MIN)
		return;
	code.size = va - code.begin + VMS_INSN_MAX;
	g_autofree uint8_t *bytes = g_malloc(code.size);
	code.bytes = bytes;
	code.size = session_read_first(session, false, 0, code.begin, bytes, code.size, NULL);
	if (code.size <= va - code.begin)
		vms_log(VMS_LOG_WARNING,
			"at 0x%" G_GINT64_MODIFIER "x no memory is mapped: no vCPU comes there now",
			va);
	else if (named)
		check_instruction(session, &code, location.symbol);
}
