/* SPDX-License-Identifier: MIT */
/*
 * Finds the frame of a function that the ORC tables leave out. The function's first instructions
 * tell how far they move the stack pointer. The tables leave out functions that objtool cannot
 * check (STACK_FRAME_NON_STANDARD of linux/objtool.h). One of them is __crash_kexec, in which a
 * crashing kernel stores its registers.
 */
#include "unwind/x86_64.h"

#define PROLOGUE_LIMIT 128 /* bytes of code to look at */
#define REX_B	       0x41
#define REX_W	       0x48
#define PUSH	       0x50 /* 0x50 to 0x57: the register is in the low bits */
#define PUSH_RBP       0x55
#define POP	       0x58

struct frame {
	int pushed; /* bytes on the stack so far */
	int rbp_at; /* `pushed` just after RBP was pushed; 0 if it was not */
};

static bool is_push_or_pop(const struct vms_insn *insn, uint8_t opcode)
{
	return (insn->size == 1 && (insn->bytes[0] & 0xf8) == opcode) ||
	       (insn->size == 2 && insn->bytes[0] == REX_B && (insn->bytes[1] & 0xf8) == opcode);
}

/* Returns N if the instruction is sub $N,%rsp; else 0. */
static int find_stack_growth(const struct vms_insn *insn)
{
	enum { SUB_IMM8 = 0x83, SUB_IMM32 = 0x81, FROM_RSP = 0xec };
	int32_t operand;
	if (insn->bytes[0] != REX_W || insn->bytes[2] != FROM_RSP)
		return 0;
	if (insn->size == 4 && insn->bytes[1] == SUB_IMM8)
		return (int8_t)insn->bytes[3];
	if (insn->size != 7 || insn->bytes[1] != SUB_IMM32)
		return 0;
	memcpy(&operand, insn->bytes + 3, sizeof(operand));
	return GINT32_FROM_LE(operand);
}

/*
 * Adds what an instruction puts on the stack. Returns false, which ends the search, when an
 * instruction takes something off the stack: there an epilogue begins.
 */
static bool add_instruction(const struct vms_insn *insn, void *data)
{
	struct frame *frame = data;
	if (insn->is_data)
		return false;
	if (is_push_or_pop(insn, PUSH)) {
		frame->pushed += 8;
		if (insn->bytes[0] == PUSH_RBP)
			frame->rbp_at = frame->pushed;
	} else {
		frame->pushed += CLAMP(find_stack_growth(insn), 0, G_MAXINT16);
	}
	return !is_push_or_pop(insn, POP) && !insn->is_return;
}

bool vms_x86_64_prologue(struct vms_cursor *cursor, struct vms_orc_entry *ret)
{
	const uint64_t pc = cursor->regs.value[RIP];
	uint8_t code[PROLOGUE_LIMIT];
	struct vms_location location;
	struct frame frame = { 0 };
	if (!vms_guest_locate(cursor->guest, NULL, pc, &location) || !location.symbol)
		return false;
	size_t size = MIN(location.offset, sizeof(code));
	if (!cursor->virt.read(cursor->virt.data, location.start, code, size))
		return false;
	/* Only an instruction at the limit may be cut off, and no prologue is that long. */
	vms_disassemble(cursor->arch, 64, 0, location.start, code, size, add_instruction, &frame,
			NULL);
	*ret = (struct vms_orc_entry) {
		.type = VMS_ORC_TYPE_CALL,
		.sp_reg = VMS_ORC_SP,
		.sp_offset = (int16_t)MIN(frame.pushed + 8, G_MAXINT16),
	};
	if (frame.rbp_at) {
		ret->bp_reg = VMS_ORC_PREV_SP;
		ret->bp_offset = (int16_t) - (frame.rbp_at + 8);
	}
	return true;
}
