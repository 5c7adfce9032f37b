/* SPDX-License-Identifier: MIT */
#include "flow/probe.h"
#include "base/text.h"
#include "flow/expression.h"
#include "flow/names.h"
#include "flow/stack.h"
#include "probe/program_writer.h"
#include <string.h>
#include <vmscope/arch.h>

#define SCALE_MAX      255u
#define CALLBACKS_MAX  32u
#define LIST_BYTES_MAX 8192u		   /* of all items of a list */
#define SAVED_MAX      VMS_PROGRAM_OPS_MAX /* entries of a probe that was saved */

struct entry {
	enum vms_entry_kind kind;
	char *name;
	vms_flow_callback callback;
	void *data;
	void (*free_data)(void *);
	struct vms_expression_value typed; /* of an entry of kind TYPED */
	char *saved_type;		   /* of a saved entry: the name of its type, or NULL */
	bool is_saved_text;		   /* of a saved entry: its values are text */
};

struct vms_probe {
	gatomicrefcount refs;
	gint is_frozen;
	const struct vms_arch *arch;
	struct vms_guest *guest;
	struct vms_known_types known;	   /* at its place */
	struct vms_symbolizer *symbolizer; /* names frames of stacks; NULL without a guest */
	char *description;
	GArray *entries;   /* struct entry */
	GArray *condition; /* struct vms_op; leaves a value on the stack, or is empty */
	GArray *values;	   /* struct vms_op: collects the values */
};

/* ---- what an entry collects ----------------------------------------------------------- */

static bool find_register(const struct vms_probe *probe, const char *name, struct vms_reg_part *ret,
			  GError **error)
{
	if (name && vms_arch_reg_part(probe->arch, name, ret))
		return true;
	g_autofree char *nearest = vms_flow_nearest(probe->arch, NULL, NULL, name ? name : "");
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT, "%s has no register \"%s\"%s",
		    probe->arch->name, name ? name : "", nearest);
	return false;
}

static char *add_register(const struct vms_probe *probe, const struct vms_entry *entry, GArray *ops,
			  GError **error)
{
	struct vms_reg_part part;
	struct vms_wide_register wide;
	if (entry->reg && vms_wide_find(probe->arch, entry->reg, &wide)) {
		vms_program_add(ops, VMS_OP_COLLECT_WIDE, wide.size, vms_op_wide(wide.number, 0));
		return g_strdup(entry->reg);
	}
	if (!find_register(probe, entry->reg, &part, error))
		return NULL;
	vms_flow_push_register(probe->arch, &part, ops);
	vms_program_add(ops, VMS_OP_COLLECT, (MIN(part.bits, 64) + 7) / 8, 0);
	return g_strdup(entry->reg);
}

static bool check_size(const struct vms_entry *entry, GError **error)
{
	if (entry->size > 0 && entry->size <= VMS_PROGRAM_OUTPUT_MAX)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "cannot collect %u bytes: the size must be 1 to %u", entry->size,
		    VMS_PROGRAM_OUTPUT_MAX);
	return false;
}

/* Leaves index × scale on the stack, and appends it to the name. */
static bool push_index(const struct vms_probe *probe, const struct vms_entry *entry, GArray *ops,
		       GString *name, GError **error)
{
	struct vms_reg_part part;
	if (entry->scale > SCALE_MAX) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot scale an index by %u: the scale must be 1 to %u", entry->scale,
			    SCALE_MAX);
		return false;
	}
	if (!find_register(probe, entry->index, &part, error))
		return false;
	vms_flow_push_register(probe->arch, &part, ops);
	vms_program_push(ops, MAX(entry->scale, 1));
	vms_program_do(ops, VMS_OP_MULTIPLY);
	g_string_append_printf(name, "%s%s*%u", name->len > 4 ? "+" : "", entry->index,
			       MAX(entry->scale, 1));
	return true;
}

static void append_offset(GString *name, int64_t offset, bool is_alone)
{
	const uint64_t size = offset < 0 ? 0 - (uint64_t)offset : (uint64_t)offset;
	if (is_alone)
		g_string_append_printf(name, "0x%" G_GINT64_MODIFIER "x", (uint64_t)offset);
	else if (offset)
		g_string_append_printf(name, "%c%" G_GINT64_MODIFIER "u", offset < 0 ? '-' : '+',
				       size);
}

static char *add_memory(const struct vms_probe *probe, const struct vms_entry *entry, GArray *ops,
			GError **error)
{
	struct vms_reg_part part;
	g_autoptr(GString) name = g_string_new("mem(");
	if (!check_size(entry, error))
		return NULL;
	vms_program_push(ops, (uint64_t)entry->offset);
	if (entry->base) {
		if (!find_register(probe, entry->base, &part, error))
			return NULL;
		vms_flow_push_register(probe->arch, &part, ops);
		vms_program_do(ops, VMS_OP_ADD);
		g_string_append(name, entry->base);
	}
	if (entry->index) {
		if (!push_index(probe, entry, ops, name, error))
			return NULL;
		vms_program_do(ops, VMS_OP_ADD);
	}
	vms_program_add(ops, VMS_OP_COLLECT_MEMORY, entry->size, 0);
	append_offset(name, entry->offset, !entry->base && !entry->index);
	g_string_append_printf(name, ",%u)", entry->size);
	return g_strdup(name->str);
}

/* Leaves the value of the expression on the stack: a number, or the address of a string. */
static bool push_expression(const struct vms_probe *probe, const char *text, bool is_string,
			    GArray *ops, GError **error)
{
	const struct vms_expression_scope scope = { probe->arch, probe->guest, &probe->known };
	if (text)
		return is_string ? vms_expression_compile_string(&scope, text, ops, error)
				 : vms_expression_compile(&scope, text, ops, error);
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT, "an expression is missing");
	return false;
}

/* Collects the bytes or the string at an address. */
static char *add_pointed(const struct vms_probe *probe, const struct vms_entry *entry, GArray *ops,
			 GError **error)
{
	const bool is_string = entry->kind == VMS_ENTRY_STRING;
	const bool is_counted = !is_string && entry->count;
	if (!check_size(entry, error) ||
	    !push_expression(probe, entry->expression, is_string, ops, error) ||
	    (is_counted && !push_expression(probe, entry->count, false, ops, error)))
		return NULL;
	vms_program_add(ops,
			is_string    ? VMS_OP_COLLECT_STRING
			: is_counted ? VMS_OP_COLLECT_COUNTED
				     : VMS_OP_COLLECT_MEMORY,
			entry->size, 0);
	return is_string ? g_strdup_printf("str(%s)", entry->expression)
			 : g_strdup_printf("mem(%s,%u)", entry->expression, entry->size);
}

static bool check_list(const struct vms_entry *entry, GError **error)
{
	if (entry->size >= 1 && entry->size <= VMS_LIST_BYTES_MAX && entry->n_items >= 1 &&
	    entry->n_items <= VMS_LIST_ITEMS_MAX &&
	    (entry->pointer_size == 0 || entry->pointer_size == 4 || entry->pointer_size == 8))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "a list must have 1 to %u items of 1 to %u bytes, and pointers of 4 or 8 bytes",
		    VMS_LIST_ITEMS_MAX, VMS_LIST_BYTES_MAX);
	return false;
}

/* Collects the memory at the pointers of an array. */
static char *add_list(const struct vms_probe *probe, const struct vms_entry *entry, GArray *ops,
		      GError **error)
{
	const bool is_pieces = entry->kind == VMS_ENTRY_PIECES;
	const unsigned pointer_size = entry->pointer_size ? entry->pointer_size : 8;
	const unsigned heads = is_pieces ? 2 * (pointer_size + sizeof(struct vms_value_head))
					 : sizeof(struct vms_value_head);
	if (!check_list(entry, error) ||
	    !push_expression(probe, entry->expression, false, ops, error) ||
	    (is_pieces && !push_expression(probe, entry->count, false, ops, error)))
		return NULL;
	if (is_pieces && !entry->limit)
		vms_program_push(ops, UINT64_MAX);
	else if (is_pieces && !push_expression(probe, entry->limit, false, ops, error))
		return NULL;
	vms_program_add(ops, is_pieces ? VMS_OP_COLLECT_PIECES : VMS_OP_COLLECT_STRINGS,
			MIN(entry->n_items * (entry->size + heads), LIST_BYTES_MAX),
			vms_op_list(entry->n_items, entry->size, pointer_size));
	return g_strdup_printf("%s(%s)", is_pieces ? "pieces" : "strs", entry->expression);
}

static char *add_expression(const struct vms_probe *probe, const struct vms_entry *entry,
			    GArray *ops, GError **error)
{
	if (!push_expression(probe, entry->expression, false, ops, error))
		return NULL;
	vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	return g_strdup(entry->expression);
}

static char *add_typed(const struct vms_probe *probe, const struct vms_entry *entry, GArray *ops,
		       struct vms_expression_value *typed, GError **error)
{
	const struct vms_expression_scope scope = { probe->arch, probe->guest, &probe->known };
	if (!entry->expression || entry->size > VMS_PROGRAM_OUTPUT_MAX) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "an expression is missing, or its size is more than %u bytes",
			    VMS_PROGRAM_OUTPUT_MAX);
		return NULL;
	}
	return vms_expression_collect(&scope, entry->expression, entry->size, ops, typed, error)
		       ? g_strdup(entry->expression)
		       : NULL;
}

static char *add_stack(const struct vms_probe *probe, const struct vms_entry *entry, GArray *ops,
		       GError **error)
{
	static const char *const names[] = {
		[VMS_STACK_BOTH] = "stack",
		[VMS_STACK_KERNEL] = "kstack",
		[VMS_STACK_USER] = "ustack",
	};
	if ((unsigned)entry->frames >= G_N_ELEMENTS(names)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "unknown frames of a stack");
		return NULL;
	}
	if (vms_stack_raw_count(probe->arch)) {
		vms_stack_raw_collect(probe->arch, probe->guest, entry->frames, ops);
		return g_strdup(names[entry->frames]);
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "cannot collect stacks at hits: not supported for %s", probe->arch->name);
	return NULL;
}

/* Appends operations that collect an entry. Returns its default name, newly allocated, or NULL. */
static char *add_entry(const struct vms_probe *probe, const struct vms_entry *entry, GArray *ops,
		       struct vms_expression_value *typed, GError **error)
{
	switch (entry->kind) {
	case VMS_ENTRY_REGISTER: return add_register(probe, entry, ops, error);
	case VMS_ENTRY_MEMORY: return add_memory(probe, entry, ops, error);
	case VMS_ENTRY_EXPRESSION: return add_expression(probe, entry, ops, error);
	case VMS_ENTRY_TYPED: return add_typed(probe, entry, ops, typed, error);
	case VMS_ENTRY_BYTES:
	case VMS_ENTRY_STRING: return add_pointed(probe, entry, ops, error);
	case VMS_ENTRY_STRINGS:
	case VMS_ENTRY_PIECES: return add_list(probe, entry, ops, error);
	case VMS_ENTRY_STACK: return add_stack(probe, entry, ops, error);
	case VMS_ENTRY_CALLBACK:
		if (entry->callback)
			return g_strdup("callback");
		break;
	case VMS_ENTRY_HALT: return g_strdup("break");
	case VMS_ENTRY_N_KINDS:
	default: break;
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "an entry has an unknown kind, or no callback");
	return NULL;
}

/* ---- probes --------------------------------------------------------------------------- */

static const struct entry *get_entry(const struct vms_probe *probe, size_t index)
{
	return &g_array_index(probe->entries, struct entry, index);
}

struct vms_probe *vms_probe_new(struct vms_machine *machine, struct vms_guest *guest,
				const char *description)
{
	struct vms_probe *probe = g_new0(struct vms_probe, 1);
	g_atomic_ref_count_init(&probe->refs);
	probe->arch = vms_machine_arch(machine);
	probe->guest = guest;
	probe->symbolizer = guest ? vms_symbolizer_ref(vms_guest_symbolizer(guest)) : NULL;
	probe->description = g_strdup(description);
	probe->entries = g_array_new(FALSE, FALSE, sizeof(struct entry));
	probe->condition = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	probe->values = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	return probe;
}

struct vms_probe *vms_probe_new_saved(const char *description)
{
	struct vms_probe *probe = g_new0(struct vms_probe, 1);
	g_atomic_ref_count_init(&probe->refs);
	probe->is_frozen = 1;
	probe->description = g_strdup(description);
	probe->entries = g_array_new(FALSE, FALSE, sizeof(struct entry));
	probe->condition = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	probe->values = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	return probe;
}

struct vms_probe *vms_probe_ref(struct vms_probe *probe)
{
	g_atomic_ref_count_inc(&probe->refs);
	return probe;
}

void vms_probe_unref(struct vms_probe *probe)
{
	if (!probe || !g_atomic_ref_count_dec(&probe->refs))
		return;
	for (guint i = 0; i < probe->entries->len; i++) {
		const struct entry *entry = get_entry(probe, i);
		if (entry->free_data)
			entry->free_data(entry->data);
		g_free(entry->name);
		g_free(entry->saved_type);
	}
	g_array_unref(probe->entries);
	g_array_unref(probe->condition);
	g_array_unref(probe->values);
	vms_symbolizer_unref(probe->symbolizer);
	vms_types_unref(probe->known.types);
	g_free(probe->known.why);
	g_free(probe->description);
	g_free(probe);
}

const char *vms_probe_description(const struct vms_probe *probe)
{
	return probe->description;
}

static bool check_not_frozen(const struct vms_probe *probe, GError **error)
{
	if (!g_atomic_int_get(&probe->is_frozen))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "cannot change the probe: it is already part of a flow");
	return false;
}

/* ---- its function ----------------------------------------------------------------------- */

static char *name_function(struct vms_guest *guest, uint64_t va, GError **error)
{
	struct vms_location location;
	if (vms_guest_locate(guest, NULL, va, &location) && location.symbol && location.offset == 0)
		return g_strdup(location.symbol);
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
		    "names of arguments are only known at the start of a function");
	return NULL;
}

/* Finds the types of the code at an address. Uses those of the kernel if it has none. */
static bool find_types(struct vms_probe *probe, uint64_t va, GError **error)
{
	probe->known.types = vms_guest_types(probe->guest, va, error);
	const bool found = probe->known.types;
	if (!found)
		probe->known.types =
			vms_guest_types(probe->guest, vms_guest_info(probe->guest)->text, NULL);
	return found;
}

static bool find_function(struct vms_probe *probe, uint64_t va, GError **error)
{
	struct vms_known_types *known = &probe->known;
	if (!find_types(probe, va, error))
		return false;
	g_autofree char *name = name_function(probe->guest, va, error);
	known->has_function =
		name && vms_types_find_function(known->types, name, &known->function, error);
	return known->has_function;
}

bool vms_probe_set_function(struct vms_probe *probe, uint64_t va, bool is_return, GError **error)
{
	GError *failure = NULL;
	if (!check_not_frozen(probe, error))
		return false;
	if (probe->entries->len || probe->condition->len || probe->known.types) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "cannot set the function of the probe: it already has entries, a "
			    "condition or a function");
		return false;
	}
	probe->known.is_return = is_return;
	if (find_function(probe, va, &failure))
		return true;
	probe->known.why = g_strdup(failure->message);
	g_propagate_error(error, failure);
	return false;
}

static bool add_argument(struct vms_probe *probe, uint32_t index, const char *name, GError **error)
{
	g_autofree char *expression = g_strdup_printf("arg%u", index);
	g_autofree char *usual = g_strdup_printf("(%s)", expression);
	const struct vms_entry entry = { .kind = VMS_ENTRY_TYPED,
					 .name = *name ? name : usual,
					 .expression = expression };
	return vms_probe_add(probe, &entry, 1, error);
}

bool vms_probe_has_argument(const struct vms_probe *probe, const char *name)
{
	struct vms_type_part part;
	if (!probe->known.has_function)
		return false;
	for (uint32_t i = 0; vms_type_get_part(probe->known.function, i, &part); i++)
		if (strcmp(part.name, name) == 0)
			return true;
	return false;
}

bool vms_probe_add_arguments(struct vms_probe *probe, GError **error)
{
	struct vms_type_part part;
	unsigned reg;
	if (!probe->known.has_function || probe->known.is_return) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "the arguments of the probe's function are not known");
		return false;
	}
	for (uint32_t i = 0; vms_type_get_part(probe->known.function, i, &part); i++)
		if (vms_type_argument(probe->known.function, i, probe->arch->n_arguments, &reg,
				      NULL) &&
		    !add_argument(probe, i, part.name, error))
			return false;
	return true;
}

bool vms_probe_add_result(struct vms_probe *probe, GError **error)
{
	const struct vms_entry entry = { .kind = VMS_ENTRY_TYPED, .expression = "retval" };
	struct vms_type_info function, result;
	if (probe->known.has_function) {
		vms_type_get_info(probe->known.function, &function);
		vms_type_get_info(vms_type_resolve(function.target), &result);
		if (result.kind == VMS_TYPE_VOID)
			return true;
	}
	return vms_probe_add(probe, &entry, 1, error);
}

/* ---- entries ----------------------------------------------------------------------------- */

static unsigned count_callbacks(const struct vms_probe *probe)
{
	unsigned n = 0;
	for (guint i = 0; i < probe->entries->len; i++)
		n += get_entry(probe, i)->kind == VMS_ENTRY_CALLBACK;
	return n;
}

/* Checks that one hit can hold all that is collected. */
static bool check_hit_size(const struct vms_probe *probe, const GArray *ops, unsigned n_callbacks,
			   GError **error)
{
	const struct vms_program program = { (const struct vms_op *)(const void *)ops->data,
					     ops->len };
	if (vms_program_check(&program, probe->arch->n_regs) && n_callbacks <= CALLBACKS_MAX)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "this is too much for one hit: the limits are %u bytes and %u callbacks",
		    VMS_PROGRAM_OUTPUT_MAX, CALLBACKS_MAX);
	return false;
}

bool vms_probe_add(struct vms_probe *probe, const struct vms_entry *entries, size_t n,
		   GError **error)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GArray) ops = g_array_copy(probe->values);
	g_autofree struct vms_expression_value *typed = g_new0(struct vms_expression_value, n);
	unsigned n_callbacks = count_callbacks(probe);
	if (!check_not_frozen(probe, error))
		return false;
	for (size_t i = 0; i < n; i++) {
		char *name = add_entry(probe, &entries[i], ops, &typed[i], error);
		if (!name)
			return false;
		g_ptr_array_add(names, name);
		n_callbacks += entries[i].kind == VMS_ENTRY_CALLBACK;
	}
	if (!check_hit_size(probe, ops, n_callbacks, error))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct entry entry = {
			.kind = entries[i].kind,
			.name = g_strdup(entries[i].name ? entries[i].name : names->pdata[i]),
			.callback = entries[i].callback,
			.data = entries[i].data,
			.free_data = entries[i].free_data,
			.typed = typed[i],
		};
		g_array_append_val(probe->entries, entry);
	}
	g_array_unref(probe->values);
	probe->values = g_steal_pointer(&ops);
	return true;
}

bool vms_probe_set_condition(struct vms_probe *probe, const char *expression, GError **error)
{
	g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(struct vms_op));
	if (!check_not_frozen(probe, error) ||
	    !push_expression(probe, expression, false, ops, error))
		return false;
	const struct vms_op drop = { .code = VMS_OP_DROP };
	g_autoptr(GArray) all = g_array_copy(ops);
	g_array_append_val(all, drop);
	if (!check_hit_size(probe, all, 0, error))
		return false;
	g_array_unref(probe->condition);
	probe->condition = g_steal_pointer(&ops);
	return true;
}

bool vms_probe_add_saved(struct vms_probe *probe, const struct vms_saved_entry *saved)
{
	if (saved->kind >= VMS_ENTRY_N_KINDS || probe->entries->len == SAVED_MAX ||
	    (saved->kind == VMS_ENTRY_CALLBACK && count_callbacks(probe) == CALLBACKS_MAX))
		return false;
	const struct entry entry = { .kind = (enum vms_entry_kind)saved->kind,
				     .name = g_strdup(saved->name),
				     .typed.is_text = saved->has_pointer,
				     .saved_type = g_strdup(saved->type),
				     .is_saved_text = saved->is_text };
	g_array_append_val(probe->entries, entry);
	return true;
}

size_t vms_probe_entries(const struct vms_probe *probe)
{
	return probe->entries->len;
}

const char *vms_probe_entry_name(const struct vms_probe *probe, size_t index)
{
	return get_entry(probe, index)->name;
}

enum vms_entry_kind vms_probe_entry_kind(const struct vms_probe *probe, size_t index)
{
	return get_entry(probe, index)->kind;
}

char *vms_probe_entry_type(const struct vms_probe *probe, size_t index)
{
	const struct entry *entry = get_entry(probe, index);
	const struct vms_expression_value *typed = &entry->typed;
	if (typed->is_wide)
		return vms_wide_part_type(&typed->wide);
	if (!typed->has_type)
		return g_strdup(entry->saved_type);
	g_autofree char *name = vms_type_name(typed->type);
	return g_strconcat(name, typed->is_pointer ? " *" : "", NULL);
}

bool vms_probe_entry_is_text(const struct vms_probe *probe, size_t index)
{
	const struct entry *entry = get_entry(probe, index);
	const struct vms_expression_value *typed = &entry->typed;
	return entry->kind == VMS_ENTRY_STRING || typed->is_text || entry->is_saved_text ||
	       (typed->has_type && !typed->is_pointer && vms_type_is_text(typed->type));
}

/* Appends a saved text. Its file may be malicious, so control characters are removed. */
static void append_saved(const struct vms_flow_value *value, GString *out)
{
	g_autofree char *text = g_strndup(value->text, value->text_size);
	vms_text_clean(text);
	g_string_append(out, text);
}

/* Appends the text at a pointer. */
static void append_text(const struct vms_flow_value *value, GString *out)
{
	g_autofree char *text = g_strndup(value->bytes, value->size);
	g_autofree char *escaped = g_strescape(text, NULL);
	g_string_append_printf(out, "\"%s\"%s", escaped, value->status == VMS_FLOW_CUT ? "…" : "");
}

/* Appends a value that is not text. */
static void append_value(const struct vms_expression_value *typed,
			 const struct vms_flow_value *value, GString *out)
{
	uint64_t number = 0;
	if (typed->is_wide && value->size == typed->wide.size) {
		vms_wide_part_format(&typed->wide, value->bytes, out);
		return;
	}
	if (typed->has_type && !typed->is_pointer) {
		vms_type_format(typed->type, value->bytes, value->size,
				typed->is_result ? VMS_TYPE_RESULT : 0, out);
		return;
	}
	memcpy(&number, value->bytes, MIN(value->size, sizeof(number)));
	g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x", number);
}

/* Appends a stack. False if the stack is not known. */
static bool append_stack(const struct vms_probe *probe, const struct vms_flow_value *value,
			 GString *out)
{
	struct vms_stack stack;
	const bool is_known = vms_flow_value_stack(value, &stack);
	if (is_known)
		vms_flow_stack_format(probe->symbolizer, &stack, out);
	return is_known;
}

void vms_probe_format_value(const struct vms_probe *probe, size_t index,
			    const struct vms_flow_value *value, GString *out)
{
	const struct entry *entry = get_entry(probe, index);
	const struct vms_expression_value *typed = &entry->typed;
	const bool is_known = value->status == VMS_FLOW_KNOWN || value->status == VMS_FLOW_CUT;
	if (value->text) {
		append_saved(value, out);
		return;
	}
	if (entry->kind == VMS_ENTRY_STACK) {
		if (!append_stack(probe, value, out))
			g_string_append(out, "(unreadable)");
		return;
	}
	if (is_known && typed->is_text)
		append_text(value, out);
	else if (is_known || value->size)
		append_value(typed, value, out);
	if (!is_known)
		g_string_append(out, value->size ? " (unreadable)" : "(unreadable)");
}

/* ---- for flows ------------------------------------------------------------------------- */

void vms_probe_freeze(struct vms_probe *probe)
{
	g_atomic_int_set(&probe->is_frozen, 1);
}

void vms_probe_add_condition(const struct vms_probe *probe, GArray *ops)
{
	g_array_append_vals(ops, probe->condition->data, probe->condition->len);
	if (probe->condition->len)
		vms_program_do(ops, VMS_OP_REQUIRE);
}

void vms_probe_add_values(const struct vms_probe *probe, GArray *ops)
{
	g_array_append_vals(ops, probe->values->data, probe->values->len);
}

static bool has_kind(const struct vms_probe *probe, enum vms_entry_kind kind)
{
	for (guint i = 0; i < probe->entries->len; i++)
		if (get_entry(probe, i)->kind == kind)
			return true;
	return false;
}

bool vms_probe_halts(const struct vms_probe *probe)
{
	return has_kind(probe, VMS_ENTRY_HALT);
}

bool vms_probe_has_callbacks(const struct vms_probe *probe)
{
	return has_kind(probe, VMS_ENTRY_CALLBACK);
}

static enum vms_value_place get_value_place(enum vms_entry_kind kind)
{
	return kind == VMS_ENTRY_HALT	    ? VMS_VALUE_NONE
	       : kind == VMS_ENTRY_CALLBACK ? VMS_VALUE_CALLED
					    : VMS_VALUE_COLLECTED;
}

/* Counts the values of an entry at one kind of place. */
static unsigned count_values(const struct entry *entry, enum vms_value_place place)
{
	return get_value_place(entry->kind) == place ? 1 + entry->typed.is_text : 0;
}

enum vms_value_place vms_probe_value_place(const struct vms_probe *probe, size_t index,
					   unsigned *number)
{
	const enum vms_value_place place = get_value_place(get_entry(probe, index)->kind);
	*number = 0;
	for (size_t i = 0; i < index; i++)
		*number += count_values(get_entry(probe, i), place);
	return place;
}

bool vms_probe_has_pointer(const struct vms_probe *probe, size_t index)
{
	return get_entry(probe, index)->typed.is_text;
}

bool vms_probe_has_text(const struct vms_probe *probe, size_t index)
{
	const struct entry *entry = get_entry(probe, index);
	return entry->typed.has_type || entry->typed.is_wide || entry->saved_type ||
	       entry->kind == VMS_ENTRY_STACK;
}

bool vms_probe_is_signed(const struct vms_probe *probe, size_t index)
{
	const struct vms_expression_value *typed = &get_entry(probe, index)->typed;
	struct vms_type_info info;
	if (typed->is_wide)
		return vms_wide_part_is_signed(&typed->wide);
	if (!typed->has_type || typed->is_pointer)
		return false;
	vms_type_get_info(vms_type_resolve(typed->type), &info);
	return info.is_signed;
}

bool vms_probe_get_float(const struct vms_probe *probe, size_t index,
			 const struct vms_flow_value *value, double *ret)
{
	const struct vms_expression_value *typed = &get_entry(probe, index)->typed;
	return typed->is_wide && value->size == typed->wide.size &&
	       vms_wide_part_float(&typed->wide, value->bytes, ret);
}

unsigned vms_probe_find_stacks(const struct vms_probe *probe, unsigned first, GArray *stacks)
{
	for (guint i = 0; i < probe->entries->len; i++) {
		const struct entry *entry = get_entry(probe, i);
		if (entry->kind == VMS_ENTRY_STACK) {
			g_array_append_val(stacks, first);
			first += vms_stack_raw_count(probe->arch);
		} else {
			first += count_values(entry, VMS_VALUE_COLLECTED);
		}
	}
	return first;
}

unsigned vms_probe_collected(const struct vms_probe *probe)
{
	unsigned n = 0;
	for (guint i = 0; i < probe->entries->len; i++)
		n += count_values(get_entry(probe, i), VMS_VALUE_COLLECTED);
	return n;
}

uint32_t vms_probe_call(const struct vms_probe *probe, const struct vms_flow_record *record,
			struct vms_memory *memory, GError **why)
{
	uint32_t failed = 0;
	unsigned number = 0;
	for (guint i = 0; i < probe->entries->len; i++) {
		const struct entry *entry = get_entry(probe, i);
		if (entry->kind != VMS_ENTRY_CALLBACK)
			continue;
		if (!entry->callback(record, memory, entry->data, failed ? NULL : why))
			failed |= UINT32_C(1) << number;
		number++;
	}
	return failed;
}
