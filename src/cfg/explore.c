/* SPDX-License-Identifier: MIT */
#include "cfg/explore.h"
#include "base/keyed_hash.h"
#include "cfg/switch_table.h"

#define STEPS_LIMIT   (1u << 17)
#define ENTRIES_LIMIT 4096 /* of a switch table */
#define TARGETS_LIMIT (1u << 18)
#define PATH_LIMIT    64 /* instructions before a jump that are searched for its table */

/* An address to explore from, and the index of the step that leads there. */
struct place {
	uint64_t va;
	uint32_t before;
};

struct explorer {
	struct vms_function_code *function;
	const struct vms_cfg_options *options;
	struct vms_decoder decoder;
	struct vms_exploration *to;
	GArray *places;	  /* struct place: not explored yet */
	GArray *indirect; /* uint32_t steps: jumps whose targets are not known yet */
};

static struct vms_cfg_step *get_step(const struct explorer *explorer, uint32_t index)
{
	return &g_array_index(explorer->to->steps, struct vms_cfg_step, index);
}

uint32_t vms_exploration_find(const struct vms_exploration *exploration, uint64_t va)
{
	return GPOINTER_TO_UINT(g_hash_table_lookup(exploration->by_va, &va)) - 1;
}

static void add_place(struct explorer *explorer, uint64_t va, uint32_t before)
{
	const struct place place = { va, before };
	g_array_append_val(explorer->places, place);
}

/* ---- one instruction ------------------------------------------------------------ */

static void end_block(struct vms_cfg_step *step, enum vms_block_end end)
{
	step->ends_block = true;
	step->end = end;
}

/* Sets the target of a jump, which is in the function or outside. */
static void set_target(struct explorer *explorer, struct vms_cfg_step *step, uint64_t target)
{
	if (vms_function_code_part(explorer->function, target))
		step->target = target;
	else
		step->leaves_to = target;
}

/* Follows a jump. A jump out of the function may go to a thunk for returns or indirect jumps. */
static void follow_jump(struct explorer *explorer, struct vms_cfg_step *step, uint64_t target)
{
	set_target(explorer, step, target);
	if (step->target) {
		end_block(step, VMS_BLOCK_NEXT);
		return;
	}
	enum vms_code_role role = vms_function_code_role(explorer->function, target);
	if (role == VMS_CODE_RETURN || role == VMS_CODE_INDIRECT)
		step->leaves_to = 0;
	end_block(step, role == VMS_CODE_INDIRECT ? VMS_BLOCK_INDIRECT : VMS_BLOCK_EXIT);
}

static void follow_call(struct explorer *explorer, struct vms_cfg_step *step, uint64_t target)
{
	if (target && vms_function_code_role(explorer->function, target) == VMS_CODE_NO_RETURN) {
		end_block(step, VMS_BLOCK_EXIT);
		return;
	}
	step->goes_on = true;
	if (explorer->options->calls_end_blocks)
		end_block(step, VMS_BLOCK_NEXT);
}

static void follow_branch(struct explorer *explorer, struct vms_cfg_step *step,
			  const struct vms_branch *branch, const struct vms_code_part *part,
			  const struct vms_special_insn *special)
{
	switch (branch->kind) {
	case VMS_BRANCH_JUMP: follow_jump(explorer, step, branch->target); break;
	case VMS_BRANCH_CALL: follow_call(explorer, step, branch->target); break;
	case VMS_BRANCH_CONDITIONAL:
		step->goes_on = true;
		set_target(explorer, step, branch->target);
		end_block(step, VMS_BLOCK_CONDITIONAL);
		break;
	case VMS_BRANCH_INDIRECT: end_block(step, VMS_BLOCK_INDIRECT); break;
	case VMS_BRANCH_EXIT: end_block(step, VMS_BLOCK_EXIT); break;
	case VMS_BRANCH_TRAP:
		step->goes_on = special ? special->is_warning : !part->tells_warnings;
		if (!step->goes_on)
			end_block(step, VMS_BLOCK_EXIT);
		break;
	case VMS_BRANCH_NONE:
	default: step->goes_on = true;
	}
}

/* Describes an instruction that libcapstone does not know: its text shows its bytes. */
static bool describe_unknown(const struct explorer *explorer, uint64_t va, const uint8_t *code,
			     size_t n, struct vms_insn *ret)
{
	*ret = (struct vms_insn) {
		.va = va,
		.size = vms_branch_unknown_size(&explorer->decoder, code, n),
	};
	memcpy(ret->bytes, code, ret->size);
	g_strlcpy(ret->text, ".insn", sizeof(ret->text));
	for (unsigned i = 0; i < ret->size; i++) {
		const size_t length = strlen(ret->text);
		g_snprintf(ret->text + length, sizeof(ret->text) - length, " %02x", code[i]);
	}
	return ret->size;
}

/* Fills a step from the bytes at its address. */
static void decode_step(struct explorer *explorer, const struct vms_code_part *part, uint64_t va,
			struct vms_cfg_step *step)
{
	const uint64_t at = va - part->va;
	const size_t left = part->n_read > at ? part->n_read - at : 0;
	const struct vms_special_insn *special = vms_code_part_special(part, va);
	struct vms_branch branch = { .kind = VMS_BRANCH_NONE };
	if (vms_decoder_decode(&explorer->decoder, va, part->code + at, left)) {
		vms_decoder_describe(&explorer->decoder, &step->insn);
		branch = vms_branch_of(&explorer->decoder, &step->insn);
	} else if (!describe_unknown(explorer, va, part->code + at, left, &step->insn)) {
		step->insn = (struct vms_insn) { .va = va, .is_data = true };
		end_block(step, VMS_BLOCK_CUT);
		return;
	}
	if (special && special->fixup && vms_function_code_part(explorer->function, special->fixup))
		step->fixup = special->fixup;
	follow_branch(explorer, step, &branch, part, special);
}

/* Adds a step and the places that it leads to by jumps. Returns its index. */
static uint32_t add_step(struct explorer *explorer, const struct vms_code_part *part, uint64_t va,
			 uint32_t before)
{
	struct vms_cfg_step step = { .before = before };
	const uint32_t index = explorer->to->steps->len;
	decode_step(explorer, part, va, &step);
	if (index + 1 == STEPS_LIMIT) {
		end_block(&step, VMS_BLOCK_CUT);
		step.goes_on = false;
	}
	g_array_append_val(explorer->to->steps, step);
	g_hash_table_insert(explorer->to->by_va, g_memdup2(&va, sizeof(va)),
			    GUINT_TO_POINTER(index + 1));
	if (step.target)
		add_place(explorer, step.target, index);
	if (step.fixup)
		add_place(explorer, step.fixup, index);
	if (step.end == VMS_BLOCK_INDIRECT && step.ends_block)
		g_array_append_val(explorer->indirect, index);
	return index;
}

/* ---- sequences of instructions ----------------------------------------------------- */

/*
 * Ends the code behind a step that would continue at `next`, which is outside of the function. The
 * step is a call that does not return, which only the compiler knew, or the function continues in
 * the next one.
 */
static void end_at_border(struct vms_cfg_step *step, uint64_t next)
{
	const struct vms_insn *insn = &step->insn;
	const bool is_call = !step->ends_block && insn->branch_target;
	if (!is_call)
		step->leaves_to = step->leaves_to ? step->leaves_to : next;
	step->goes_on = false;
	if (!step->ends_block || step->end == VMS_BLOCK_NEXT)
		end_block(step, VMS_BLOCK_EXIT);
}

/* Explores from a place up to the end of its sequence, or to an instruction that is known. */
static void explore_sequence(struct explorer *explorer, struct place place)
{
	uint64_t va = place.va;
	uint32_t before = place.before;
	bool begins_block = true;
	while (explorer->to->steps->len < STEPS_LIMIT) {
		const struct vms_code_part *part = vms_function_code_part(explorer->function, va);
		uint32_t index = vms_exploration_find(explorer->to, va);
		const bool is_known = index != VMS_NO_STEP;
		if (!part) {
			end_at_border(get_step(explorer, before), va);
			return;
		}
		if (!is_known)
			index = add_step(explorer, part, va, before);
		struct vms_cfg_step *step = get_step(explorer, index);
		step->begins_block |= begins_block || is_known;
		if (is_known || !step->goes_on)
			return;
		begins_block = step->ends_block;
		before = index;
		va += step->insn.size;
	}
	/* The limit is reached: the next instruction is not in the graph. */
	if (before != VMS_NO_STEP && vms_exploration_find(explorer->to, va) == VMS_NO_STEP)
		end_block(get_step(explorer, before), VMS_BLOCK_CUT);
}

/* ---- switches ------------------------------------------------------------------------ */

static unsigned collect_path(const struct explorer *explorer, uint32_t from,
			     struct vms_path_step *ret)
{
	unsigned n = 0;
	uint64_t next = 0;
	for (uint32_t i = from; i != VMS_NO_STEP && n < PATH_LIMIT; n++) {
		const struct vms_cfg_step *step = get_step(explorer, i);
		ret[n] = (struct vms_path_step) {
			.va = step->insn.va,
			.code = step->insn.bytes,
			.size = step->insn.size,
			.jumped = n > 0 && next != step->insn.va + step->insn.size,
		};
		next = step->insn.va;
		i = step->before;
	}
	return n;
}

static bool read_entry(const struct explorer *explorer, const struct vms_switch_table *table,
		       uint64_t index, uint64_t *ret)
{
	uint8_t bytes[8] = { 0 };
	uint64_t entry;
	if (!vms_memory_read(explorer->function->memory, table->va + index * table->entry_size,
			     bytes, table->entry_size))
		return false;
	memcpy(&entry, bytes, sizeof(entry));
	entry = GUINT64_FROM_LE(entry);
	const unsigned unused = 64 - 8 * table->entry_size;
	if (table->is_signed)
		entry = (uint64_t)((int64_t)(entry << unused) >> unused);
	*ret = table->is_relative ? table->base + (entry << table->shift)
				  : explorer->decoder.base + entry;
	return true;
}

/* Reads all entries of a table. False if one cannot be read, or leads out of the function. */
static bool read_targets(struct explorer *explorer, const struct vms_switch_table *table)
{
	if (table->n > ENTRIES_LIMIT || table->entry_size > sizeof(uint64_t) ||
	    explorer->to->targets->len + table->n > TARGETS_LIMIT)
		return false;
	for (uint64_t i = 0; i < table->n; i++) {
		uint64_t target;
		if (!read_entry(explorer, table, i, &target) ||
		    !vms_function_code_part(explorer->function, target))
			return false;
		g_array_append_val(explorer->to->targets, target);
	}
	return true;
}

static void resolve_jump(struct explorer *explorer, uint32_t index)
{
	struct vms_path_step steps[PATH_LIMIT];
	struct vms_switch_table table;
	const struct vms_path path = { &explorer->decoder, steps,
				       collect_path(explorer, index, steps) };
	const guint first = explorer->to->targets->len;
	if (!vms_switch_table_find(&path, &table))
		return;
	if (!read_targets(explorer, &table)) {
		g_array_set_size(explorer->to->targets, first);
		return;
	}
	struct vms_cfg_step *step = get_step(explorer, index);
	step->table = table.va;
	step->n_entries = table.n;
	step->first_target = first;
	step->n_targets = (guint)table.n;
	for (guint i = 0; i < step->n_targets; i++)
		add_place(explorer, g_array_index(explorer->to->targets, uint64_t, first + i),
			  index);
}

/* ---- the whole function --------------------------------------------------------------- */

static void explore_places(struct explorer *explorer)
{
	while (explorer->places->len > 0) {
		guint last = explorer->places->len - 1;
		struct place place = g_array_index(explorer->places, struct place, last);
		g_array_set_size(explorer->places, last);
		explore_sequence(explorer, place);
	}
}

bool vms_explore(struct vms_function_code *function, uint64_t va,
		 const struct vms_cfg_options *options, struct vms_exploration *ret, GError **error)
{
	const struct vms_arch *arch = vms_machine_arch(vms_memory_machine(function->memory));
	struct explorer explorer = { .function = function, .options = options, .to = ret };
	if (!vms_decoder_open(&explorer.decoder, arch, options->bits, options->code_base, error))
		return false;
	ret->steps = g_array_new(false, false, sizeof(struct vms_cfg_step));
	ret->by_va = g_hash_table_new_full(vms_hash_int64, g_int64_equal, g_free, NULL);
	ret->targets = g_array_new(false, false, sizeof(uint64_t));
	explorer.places = g_array_new(false, false, sizeof(struct place));
	explorer.indirect = g_array_new(false, false, sizeof(uint32_t));
	add_place(&explorer, va, VMS_NO_STEP);
	explore_places(&explorer);
	for (guint i = 0; i < explorer.indirect->len; i++) { /* this may add further ones */
		resolve_jump(&explorer, g_array_index(explorer.indirect, uint32_t, i));
		explore_places(&explorer);
	}
	g_array_unref(explorer.places);
	g_array_unref(explorer.indirect);
	vms_decoder_close(&explorer.decoder);
	return true;
}

void vms_exploration_clear(struct vms_exploration *exploration)
{
	g_array_unref(exploration->steps);
	g_hash_table_unref(exploration->by_va);
	g_array_unref(exploration->targets);
}
