/* SPDX-License-Identifier: MIT */
#include "syscall_collect.h"

#include <string.h>

#define REG_BYTES      8u
#define PATH_BYTES     256u  /* the limit for a path */
#define ITEMS_MAX      32u   /* the limit for an array, as in strace */
#define STRUCTS_MAX    2048u /* bytes of an array of structures */
#define SOCKET_BYTES   128u  /* struct sockaddr_storage */
#define FILES_BYTES    8192u /* entries of a directory */
#define SET_BYTES      128u  /* descriptors up to 1023 */
#define CONTROL_BYTES  256u  /* of a message */
#define POINTERS_BYTES 4096u /* environment */

/* Conditions at the return: the call has succeeded, or failed. */
#define IS_DONE	  "(retval < 0xfffffffffffff001)"
#define IS_FAILED "(retval >= 0xfffffffffffff001)"

void syscall_shape_init(struct syscall_shape *ret, const struct vms_arch *arch,
			const struct vms_types *types, const struct vms_syscall *call,
			unsigned string_size)
{
	unsigned end = 0;
	*ret = (struct syscall_shape) { .arch = arch,
					.call = call,
					.wide_name = syscall_wide_name(call),
					.string_size = string_size,
					.returns = strcmp(call->name, "exit") != 0 &&
						   strcmp(call->name, "exit_group") != 0 };
	for (unsigned i = 0; i < call->n_arguments; i++) {
		const unsigned offset = call->arguments[i].offset;
		ret->forms[i] = syscall_find_form(arch, types, call, i);
		ret->first = i ? MIN(ret->first, offset) : offset;
		end = MAX(end, offset + REG_BYTES);
	}
	ret->size = end - ret->first;
}

const struct syscall_message_layout *syscall_message_layout(const struct syscall_shape *shape)
{
	static const struct syscall_message_layout wide = { 0, 8, 16, 24, 32, 40, 48, 56 },
						   narrow = { 0, 4, 8, 12, 16, 20, 24, 28 };
	return shape->call->word_size == 8 ? &wide : &narrow;
}

/* ---- collecting values ------------------------------------------------------------- */

/* Adds the saved registers of the arguments. Later loads of them do not read memory again. */
static bool add_registers(struct vms_probe *probe, const struct syscall_shape *shape,
			  GError **error)
{
	if (shape->size == 0)
		return true;
	g_autofree char *at = g_strdup_printf("arg0+%u", shape->first);
	const struct vms_entry entry = {
		.kind = VMS_ENTRY_BYTES, .name = "registers", .expression = at, .size = shape->size
	};
	return vms_probe_add(probe, &entry, 1, error);
}

static char *describe_argument(const struct syscall_shape *shape, unsigned index)
{
	return g_strdup_printf("u%u(arg0+%u)", 8 * shape->call->word_size,
			       shape->call->arguments[index].offset);
}

/* Returns the expression for the number of elements. */
static char *count_elements(const struct syscall_shape *shape, const struct syscall_form *form)
{
	g_autofree char *number = NULL;
	switch (form->count) {
	case SYSCALL_ARGUMENT: return describe_argument(shape, form->number);
	case SYSCALL_BITS:
		number = describe_argument(shape, form->number);
		return g_strdup_printf("((%s+%u)/%u)", number, 8 * form->size - 1, 8 * form->size);
	case SYSCALL_POINTED:
		number = describe_argument(shape, form->number);
		return g_strdup_printf("u32(%s)", number);
	case SYSCALL_FIXED: return g_strdup_printf("%u", form->number);
	case SYSCALL_RESULT: return g_strdup("retval");
	case SYSCALL_ONE:
	default: return g_strdup("1");
	}
}

/*
 * Returns an expression that is `count`, or 0 if the address is NULL or the kernel has not written
 * there according to the result.
 */
static char *count_if_there(const struct syscall_form *form, const char *address, const char *count,
			    bool is_return)
{
	const char *condition = !is_return			 ? ""
				: form->when & SYSCALL_IF_DONE	 ? IS_DONE "*"
				: form->when & SYSCALL_IF_FAILED ? IS_FAILED "*"
								 : "";
	return g_strdup_printf("%s(%s != 0)*(%s)", condition, address, count);
}

/* Returns the limit of bytes to collect. */
static unsigned get_limit(const struct syscall_shape *shape, const struct syscall_form *form)
{
	static const unsigned limits[SYSCALL_N_KINDS] = {
		[SYSCALL_ADDRESS_OF_SOCKET] = SOCKET_BYTES, [SYSCALL_FILES] = FILES_BYTES,
		[SYSCALL_DESCRIPTORS] = SET_BYTES,	    [SYSCALL_CPUS] = SET_BYTES,
		[SYSCALL_VARIABLES] = POINTERS_BYTES,
	};
	const unsigned all = ITEMS_MAX * form->size;
	if (limits[form->kind])
		return limits[form->kind];
	if (form->kind == SYSCALL_STRUCTS)
		return MAX(MIN(all, STRUCTS_MAX), form->size);
	return form->size > 1 ? all : shape->string_size;
}

static bool add_memory(struct vms_probe *probe, const struct syscall_shape *shape, unsigned index,
		       bool is_return, GError **error)
{
	const struct syscall_form *form = &shape->forms[index];
	const unsigned limit = get_limit(shape, form);
	g_autofree char *address = describe_argument(shape, index);
	g_autofree char *elements = count_elements(shape, form);
	g_autofree char *bytes = form->kind == SYSCALL_VARIABLES
					 ? g_strdup_printf("%u", limit)
					 : g_strdup_printf("%s*%u", elements, form->size);
	g_autofree char *count = count_if_there(form, address, bytes, is_return);
	const struct vms_entry entry = { .kind = VMS_ENTRY_BYTES,
					 .name = shape->call->arguments[index].name,
					 .expression = address,
					 .size = limit,
					 .count = count };
	return vms_probe_add(probe, &entry, 1, error);
}

static bool add_pieces(struct vms_probe *probe, const struct syscall_shape *shape, unsigned index,
		       bool is_return, GError **error)
{
	const struct syscall_form *form = &shape->forms[index];
	g_autofree char *address = describe_argument(shape, index);
	g_autofree char *elements = count_elements(shape, form);
	g_autofree char *count = count_if_there(form, address, elements, is_return);
	const struct vms_entry entry = { .kind = VMS_ENTRY_PIECES,
					 .name = shape->call->arguments[index].name,
					 .expression = address,
					 .size = shape->string_size,
					 .count = count,
					 .limit = form->when & SYSCALL_IF_DONE ? "retval" : NULL,
					 .n_items = ITEMS_MAX,
					 .pointer_size = shape->call->word_size };
	return vms_probe_add(probe, &entry, 1, error);
}

/* Returns the expression for a member of the structure at an address. */
static char *describe_member(const char *address, unsigned size, unsigned offset)
{
	return g_strdup_printf("u%u(%s+%u)", 8 * size, address, offset);
}

/* Adds a struct user_msghdr; at the return also the memory that it points to. */
static bool add_message(struct vms_probe *probe, const struct syscall_shape *shape, unsigned index,
			bool is_return, GError **error)
{
	const struct syscall_form *form = &shape->forms[index];
	const bool is_received = form->when & SYSCALL_IF_DONE;
	const struct syscall_message_layout *at = syscall_message_layout(shape);
	const unsigned word = shape->call->word_size;
	g_autofree char *head = describe_argument(shape, index);
	g_autofree char *name = describe_member(head, word, at->name);
	g_autofree char *name_size = describe_member(head, sizeof(uint32_t), at->name_size);
	g_autofree char *name_count = count_if_there(form, name, name_size, is_return);
	g_autofree char *pieces = describe_member(head, word, at->pieces);
	g_autofree char *n_pieces = describe_member(head, word, at->n_pieces);
	g_autofree char *pieces_count = count_if_there(form, pieces, n_pieces, is_return);
	g_autofree char *control = describe_member(head, word, at->control);
	g_autofree char *control_size = describe_member(head, word, at->control_size);
	g_autofree char *control_count = count_if_there(form, control, control_size, is_return);
	const struct vms_entry entries[] = {
		[SYSCALL_MESSAGE_HEAD] = { .kind = VMS_ENTRY_BYTES,
					   .expression = head,
					   .size = at->size },
		[SYSCALL_MESSAGE_NAME] = { .kind = VMS_ENTRY_BYTES,
					   .expression = name,
					   .size = SOCKET_BYTES,
					   .count = name_count },
		[SYSCALL_MESSAGE_PIECES] = { .kind = VMS_ENTRY_PIECES,
					     .expression = pieces,
					     .size = shape->string_size,
					     .count = pieces_count,
					     .limit = is_received ? "retval" : NULL,
					     .n_items = ITEMS_MAX,
					     .pointer_size = word },
		[SYSCALL_MESSAGE_CONTROL] = { .kind = VMS_ENTRY_BYTES,
					      .expression = control,
					      .size = CONTROL_BYTES,
					      .count = control_count },
	};
	return vms_probe_add(probe, entries, is_return ? G_N_ELEMENTS(entries) : 1, error);
}

/* Adds the memory that an argument points to. */
static bool add_pointed(struct vms_probe *probe, const struct syscall_shape *shape, unsigned index,
			bool is_return, GError **error)
{
	const enum syscall_kind kind = shape->forms[index].kind;
	g_autofree char *address = describe_argument(shape, index);
	const struct vms_entry entry = {
		.kind = kind == SYSCALL_STRING ? VMS_ENTRY_STRING : VMS_ENTRY_STRINGS,
		.name = shape->call->arguments[index].name,
		.expression = address,
		.size = kind == SYSCALL_STRING ? PATH_BYTES : shape->string_size,
		.n_items = ITEMS_MAX,
		.pointer_size = shape->call->word_size
	};
	if (kind == SYSCALL_STRING || kind == SYSCALL_STRINGS)
		return vms_probe_add(probe, &entry, 1, error);
	if (kind == SYSCALL_PIECES)
		return add_pieces(probe, shape, index, is_return, error);
	if (kind == SYSCALL_MESSAGE)
		return add_message(probe, shape, index, is_return, error);
	return add_memory(probe, shape, index, is_return, error);
}

/* Adds the memory of all arguments that is read at the call, or at the return. */
static bool add_all_memory(struct vms_probe *probe, struct syscall_shape *shape, bool is_return,
			   GError **error)
{
	const unsigned moment = is_return ? SYSCALL_AT_RETURN : SYSCALL_AT_CALL;
	for (unsigned i = 0; i < shape->call->n_arguments; i++) {
		const unsigned at = (unsigned)vms_probe_entries(probe);
		if (!syscall_is_memory(shape->forms[i].kind) || !(shape->forms[i].when & moment))
			continue;
		*(is_return ? &shape->values[i].at_return : &shape->values[i].at_call) = at;
		if (!add_pointed(probe, shape, i, is_return, error))
			return false;
	}
	return true;
}

bool syscall_add_call_entries(struct vms_probe *probe, struct syscall_shape *shape, GError **error)
{
	return add_registers(probe, shape, error) && add_all_memory(probe, shape, false, error);
}

static bool reads_at_return(const struct syscall_shape *shape)
{
	for (unsigned i = 0; i < shape->call->n_arguments; i++)
		if (syscall_is_memory(shape->forms[i].kind) &&
		    shape->forms[i].when & SYSCALL_AT_RETURN)
			return true;
	return false;
}

bool syscall_add_return_entries(struct vms_probe *probe, struct syscall_shape *shape,
				GError **error)
{
	const struct vms_entry result = { .kind = VMS_ENTRY_EXPRESSION, .expression = "retval" };
	return vms_probe_add(probe, &result, 1, error) &&
	       (!reads_at_return(shape) ||
		(add_registers(probe, shape, error) && add_all_memory(probe, shape, true, error)));
}

/* ---- collected values -------------------------------------------------------------- */

/* Gets the register of an argument as it was at the call. */
static bool get_register(const struct syscall_shape *shape, const struct vms_flow_record *record,
			 unsigned index, uint64_t *ret)
{
	struct vms_flow_value value;
	const unsigned at = shape->call->arguments[index].offset - shape->first;
	if (!vms_flow_record_value(record, 0, &value) || value.status != VMS_FLOW_KNOWN ||
	    value.size < at + REG_BYTES)
		return false;
	*ret = 0;
	memcpy(ret, (const uint8_t *)value.bytes + at, shape->call->word_size);
	return true;
}

bool syscall_get_argument(const struct syscall_shape *shape, const struct vms_flow_record *record,
			  unsigned index, uint64_t *ret)
{
	const struct vms_syscall *call = shape->call;
	const struct vms_syscall_argument *argument = &call->arguments[index];
	uint64_t high;
	if (!get_register(shape, record, index, ret))
		return false;
	if (call->word_size == sizeof(uint64_t))
		return true;
	/* A number of 64 bits is in two registers. */
	const bool is_low = strcmp(argument->type, "u64") == 0 && index + 1 < call->n_arguments;
	const bool is_low_behind = strcmp(argument->name, "offset_low") == 0 && index > 0;
	if ((is_low || is_low_behind) &&
	    get_register(shape, record, is_low ? index + 1 : index - 1, &high))
		*ret |= high << 32;
	return true;
}

bool syscall_get_result(const struct vms_flow_record *record, uint64_t *ret)
{
	struct vms_flow_value value;
	*ret = 0;
	if (!vms_flow_record_returned_value(record, 0, &value) || value.status != VMS_FLOW_KNOWN)
		return false;
	memcpy(ret, value.bytes, MIN(value.size, sizeof(*ret)));
	return true;
}

bool syscall_has_failed(const struct vms_flow_record *record)
{
	uint64_t result;
	return syscall_get_result(record, &result) && result >= (uint64_t)0 - SYSCALL_ERROR_MAX;
}
