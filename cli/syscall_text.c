/* SPDX-License-Identifier: MIT */
#include "syscall_text.h"

#include "base/errno_name.h"
#include "syscall_arguments.h"
#include "syscall_bytes.h"
#include "syscall_signal.h"
#include "syscall_socket.h"
#include "syscall_struct.h"
#include <fcntl.h>
#include <string.h>

#define HIDDEN_MIN   512 /* errors inside the kernel that no program sees: ERESTARTSYS */
#define HIDDEN_MAX   519
#define SMALL_MAX    (1u << 31) /* larger results are addresses */
#define NONE	     UINT32_MAX /* no user, or no group */
#define PAGE_OFFSETS 4096	/* mmap2 counts offsets in these */

/* An argument of a recorded call. */
struct argument {
	const struct syscall_shape *shape;
	const struct syscall_form *form;
	const struct vms_flow_record *record;
	unsigned index;
	bool is_after;	 /* the memory was collected at the return */
	uint64_t number; /* its register at the call */
};

/* ---- numbers ------------------------------------------------------------------------- */

/* Appends a number without sign. */
static void append_unsigned(GString *out, const struct syscall_form *form, uint64_t number)
{
	if (form->size == sizeof(uint32_t) && number == NONE)
		g_string_append(out, "-1");
	else
		g_string_append_printf(out, "%" G_GUINT64_FORMAT, number);
}

static void append_number(GString *out, const struct syscall_form *form, uint64_t number)
{
	const int64_t value = syscall_extend_sign(number, form->size);
	const unsigned shift = 64 - 8 * form->size;
	number = number << shift >> shift;
	if (form->kind == SYSCALL_NAMED)
		syscall_append_names(out, form->names, number);
	else if (form->kind == SYSCALL_DIRECTORY && value == AT_FDCWD)
		g_string_append(out, "AT_FDCWD");
	else if (form->kind == SYSCALL_SIGNED || form->kind == SYSCALL_DIRECTORY)
		syscall_append_signed(out, value);
	else if (form->kind == SYSCALL_UNSIGNED)
		append_unsigned(out, form, number);
	else if (form->kind == SYSCALL_OCTAL)
		g_string_append_printf(out, "%#03o", (unsigned)number);
	else if (form->kind == SYSCALL_FILE_MODE)
		syscall_append_file_mode(out, number);
	else if (form->kind == SYSCALL_ADDRESS)
		syscall_append_address(out, number);
	else
		g_string_append_printf(
			out, number ? "0x%" G_GINT64_MODIFIER "x" : "%" G_GINT64_MODIFIER "x",
			number);
}

/* ---- values --------------------------------------------------------------------------- */

/* Gets the n-th value of an argument's memory. False if it is not known. */
static bool get_value(const struct argument *argument, bool is_return, unsigned n,
		      struct vms_flow_value *ret)
{
	const struct syscall_values *values = &argument->shape->values[argument->index];
	const unsigned at = is_return ? values->at_return : values->at_call;
	return at &&
	       (is_return ? vms_flow_record_returned_value(argument->record, at + n, ret)
			  : vms_flow_record_value(argument->record, at + n, ret)) &&
	       (ret->status == VMS_FLOW_KNOWN || ret->status == VMS_FLOW_CUT);
}

static void append_bytes(GString *out, const struct argument *argument,
			 const struct vms_flow_value *value)
{
	(void)argument;
	syscall_append_bytes(out, value->bytes, value->size, value->status == VMS_FLOW_CUT);
}

static void append_random(GString *out, const struct argument *argument,
			  const struct vms_flow_value *value)
{
	(void)argument;
	syscall_append_hex_bytes(out, value->bytes, value->size, value->status == VMS_FLOW_CUT);
}

static void append_bits(GString *out, const struct argument *argument,
			const struct vms_flow_value *value)
{
	(void)argument;
	syscall_append_bits(out, value->bytes, value->size, " ");
}

static void append_signals(GString *out, const struct argument *argument,
			   const struct vms_flow_value *value)
{
	syscall_append_signal_set(
		out, syscall_read_number(value->bytes, value->size, 0, argument->form->size));
}

static void append_status(GString *out, const struct argument *argument,
			  const struct vms_flow_value *value)
{
	(void)argument;
	syscall_append_status(out, (uint32_t)syscall_read_number(value->bytes, value->size, 0, 4));
}

static void append_socket_address(GString *out, const struct argument *argument,
				  const struct vms_flow_value *value)
{
	if (value->size >= sizeof(uint16_t))
		syscall_append_socket_address(out, value->bytes, value->size);
	else
		syscall_append_address(out, argument->number);
}

static void append_structs(GString *out, const struct argument *argument,
			   const struct vms_flow_value *value)
{
	const struct syscall_form *form = argument->form;
	const bool is_array = form->count != SYSCALL_ONE;
	g_string_append(out, is_array ? "[" : "");
	for (size_t at = 0; at + form->size <= value->size; at += form->size) {
		g_string_append(out, at ? ", " : "");
		syscall_append_struct(out, argument->shape->arch, form->type,
				      (const uint8_t *)value->bytes + at, form->size,
				      argument->is_after);
	}
	g_string_append(out, value->status == VMS_FLOW_CUT ? ", ..." : "");
	g_string_append(out, is_array ? "]" : "");
}

static void append_numbers(GString *out, const struct argument *argument,
			   const struct vms_flow_value *value)
{
	const struct syscall_form *form = argument->form;
	g_string_append_c(out, '[');
	for (size_t at = 0; at + form->size <= value->size; at += form->size) {
		g_string_append(out, at ? ", " : "");
		syscall_append_signed(
			out, syscall_extend_sign(
				     syscall_read_number(value->bytes, value->size, at, form->size),
				     form->size));
	}
	g_string_append(out, value->status == VMS_FLOW_CUT ? ", ...]" : "]");
}

/* Appends the number of pointers before the null pointer. */
static void append_variables(GString *out, const struct argument *argument,
			     const struct vms_flow_value *value)
{
	const size_t word = argument->shape->call->word_size;
	unsigned n = 0;
	while ((n + 1) * word <= value->size &&
	       syscall_read_number(value->bytes, value->size, n * word, word))
		n++;
	const bool is_all = (n + 1) * word <= value->size;
	syscall_append_address(out, argument->number);
	g_string_append_printf(out, " /* %u%s var%s */", n, is_all ? "" : "+",
			       n == 1 && is_all ? "" : "s");
}

/* Appends the number of struct linux_dirent64. */
static void append_files(GString *out, const struct argument *argument,
			 const struct vms_flow_value *value)
{
	const size_t length_at = 16;
	unsigned n = 0;
	uint64_t length = 1;
	for (size_t at = 0; at + length_at < value->size && length; at += length, n++)
		length = syscall_read_number(value->bytes, value->size, at + length_at, 2);
	syscall_append_address(out, argument->number);
	g_string_append_printf(out, " /* %u%s entr%s */", n,
			       value->status == VMS_FLOW_CUT ? "+" : "", n == 1 ? "y" : "ies");
}

static void append_strings(GString *out, const struct argument *argument,
			   const struct vms_flow_value *value)
{
	(void)argument;
	struct vms_flow_value item;
	g_string_append_c(out, '[');
	for (unsigned i = 0; vms_flow_value_item(value, i, &item); i++) {
		g_string_append(out, i ? ", " : "");
		if (item.status == VMS_FLOW_UNREADABLE)
			g_string_append_c(out, '?');
		else
			syscall_append_bytes(out, item.bytes, item.size,
					     item.status == VMS_FLOW_CUT);
	}
	g_string_append(out, value->status == VMS_FLOW_CUT ? ", ...]" : "]");
}

static void append_pieces(GString *out, const struct argument *argument,
			  const struct vms_flow_value *value)
{
	const size_t word = argument->shape->call->word_size;
	struct vms_flow_value pair, item;
	g_string_append_c(out, '[');
	for (unsigned i = 0;
	     vms_flow_value_item(value, i, &pair) && vms_flow_value_item(value, i + 1, &item);
	     i += 2) {
		const uint64_t address = syscall_read_number(pair.bytes, pair.size, 0, word);
		const uint64_t size = syscall_read_number(pair.bytes, pair.size, word, word);
		g_string_append(out, i ? ", {iov_base=" : "{iov_base=");
		if (item.status == VMS_FLOW_UNREADABLE || address == 0)
			syscall_append_address(out, address);
		else
			syscall_append_bytes(out, item.bytes, item.size,
					     item.status == VMS_FLOW_CUT);
		g_string_append_printf(out, ", iov_len=%" G_GUINT64_FORMAT "}", size);
	}
	g_string_append(out, value->status == VMS_FLOW_CUT ? ", ...]" : "]");
}

/* Appends a socket option: as a number if it has the size of an int. */
static void append_option(GString *out, const struct argument *argument,
			  const struct vms_flow_value *value)
{
	(void)argument;
	if (value->size == sizeof(int))
		g_string_append_printf(out, "[%d]",
				       (int)syscall_read_number(value->bytes, value->size, 0, 4));
	else
		syscall_append_bytes(out, value->bytes, value->size, value->status == VMS_FLOW_CUT);
}

/* ---- messages --------------------------------------------------------------------------- */

/* The members of a struct user_msghdr. */
struct message {
	uint64_t name, name_size, pieces, n_pieces, control, control_size, flags;
};

static struct message read_message(const struct argument *argument,
				   const struct vms_flow_value *value)
{
	const struct syscall_message_layout *at = syscall_message_layout(argument->shape);
	const unsigned word = argument->shape->call->word_size;
#define MEMBER(offset, n) syscall_read_number(value->bytes, value->size, offset, n)
	return (struct message) {
		.name = MEMBER(at->name, word),
		.name_size = MEMBER(at->name_size, sizeof(uint32_t)),
		.pieces = MEMBER(at->pieces, word),
		.n_pieces = MEMBER(at->n_pieces, word),
		.control = MEMBER(at->control, word),
		.control_size = MEMBER(at->control_size, word),
		.flags = MEMBER(at->flags, sizeof(uint32_t)),
	};
#undef MEMBER
}

static void append_message_name(GString *out, const struct argument *argument,
				const struct message *message)
{
	struct vms_flow_value head, name;
	g_string_append(out, "{msg_name=");
	if (message->name && get_value(argument, true, SYSCALL_MESSAGE_NAME, &name) &&
	    name.size >= sizeof(uint16_t))
		syscall_append_socket_address(out, name.bytes, name.size);
	else
		syscall_append_address(out, message->name);
	g_string_append(out, ", msg_namelen=");
	if (get_value(argument, false, SYSCALL_MESSAGE_HEAD, &head)) {
		const struct message before = read_message(argument, &head);
		if (before.name_size != message->name_size)
			g_string_append_printf(out, "%" G_GUINT64_FORMAT " => ", before.name_size);
	}
	g_string_append_printf(out, "%" G_GUINT64_FORMAT, message->name_size);
}

static void append_message_control(GString *out, const struct argument *argument,
				   const struct message *message)
{
	struct vms_flow_value control;
	if (message->control && message->control_size) {
		g_string_append(out, ", msg_control=");
		if (get_value(argument, true, SYSCALL_MESSAGE_CONTROL, &control) && control.size)
			syscall_append_control(out, control.bytes, control.size,
					       message->control_size,
					       argument->shape->call->word_size);
		else
			syscall_append_address(out, message->control);
	}
	g_string_append_printf(out, ", msg_controllen=%" G_GUINT64_FORMAT, message->control_size);
}

/* Appends a message of a receive that failed. False if it is not known. */
static bool append_failed_message(GString *out, const struct argument *argument)
{
	struct vms_flow_value head;
	if (!get_value(argument, false, SYSCALL_MESSAGE_HEAD, &head))
		return false;
	g_string_append_printf(out, "{msg_namelen=%" G_GUINT64_FORMAT "}",
			       read_message(argument, &head).name_size);
	return true;
}

/* Appends a struct user_msghdr. False if it is not known. */
static bool append_message(GString *out, const struct argument *argument)
{
	struct vms_flow_value head, pieces;
	if (argument->form->when & SYSCALL_IF_DONE && syscall_has_failed(argument->record))
		return append_failed_message(out, argument);
	if (!get_value(argument, true, SYSCALL_MESSAGE_HEAD, &head))
		return false;
	const struct message message = read_message(argument, &head);
	append_message_name(out, argument, &message);
	g_string_append(out, ", msg_iov=");
	if (get_value(argument, true, SYSCALL_MESSAGE_PIECES, &pieces))
		append_pieces(out, argument, &pieces);
	else
		syscall_append_address(out, message.pieces);
	g_string_append_printf(out, ", msg_iovlen=%" G_GUINT64_FORMAT, message.n_pieces);
	append_message_control(out, argument, &message);
	g_string_append(out, ", msg_flags=");
	syscall_append_names(out, syscall_names_of_member("user_msghdr", "msg_flags"),
			     message.flags);
	g_string_append_c(out, '}');
	return true;
}

/* ---- arguments -------------------------------------------------------------------------- */

/* Appends the known memory of an argument. */
static void append_value(GString *out, const struct argument *argument,
			 const struct vms_flow_value *value)
{
	static void (*const appenders[SYSCALL_N_KINDS])(GString * out,
							const struct argument *argument,
							const struct vms_flow_value *value) = {
		[SYSCALL_STRING] = append_bytes,
		[SYSCALL_BYTES] = append_bytes,
		[SYSCALL_RANDOM] = append_random,
		[SYSCALL_STRUCTS] = append_structs,
		[SYSCALL_NUMBERS] = append_numbers,
		[SYSCALL_OPTION] = append_option,
		[SYSCALL_SIGNALS] = append_signals,
		[SYSCALL_DESCRIPTORS] = append_bits,
		[SYSCALL_CPUS] = append_bits,
		[SYSCALL_STATUS] = append_status,
		[SYSCALL_ADDRESS_OF_SOCKET] = append_socket_address,
		[SYSCALL_FILES] = append_files,
		[SYSCALL_STRINGS] = append_strings,
		[SYSCALL_VARIABLES] = append_variables,
		[SYSCALL_PIECES] = append_pieces,
	};
	appenders[argument->form->kind](out, argument, value);
}

/* Appends numbers that the kernel has changed, as [128 => 16]. */
static bool append_change(GString *out, const struct argument *argument)
{
	struct vms_flow_value before, after;
	if (!get_value(argument, false, 0, &before))
		return false;
	if (!get_value(argument, true, 0, &after) || after.size != before.size)
		after = before;
	const bool is_same = memcmp(before.bytes, after.bytes, before.size) == 0;
	append_numbers(out, argument, &before);
	if (is_same)
		return true;
	const bool is_length = argument->form->size == sizeof(uint32_t);
	if (is_length)
		g_string_truncate(out, out->len - 1);
	g_string_append(out, " => ");
	g_autoptr(GString) changed = g_string_new(NULL);
	append_numbers(changed, argument, &after);
	g_string_append(out, changed->str + is_length);
	return true;
}

/* True if the kernel has not written to the memory, according to the result. */
static bool is_unwritten(const struct argument *argument)
{
	const unsigned when = argument->form->when;
	const bool has_failed = syscall_has_failed(argument->record);
	return (when & SYSCALL_IF_DONE && has_failed) || (when & SYSCALL_IF_FAILED && !has_failed);
}

/* Appends the memory that an argument points to. False if it is not known. */
static bool append_memory(GString *out, struct argument *argument)
{
	const struct syscall_form *form = argument->form;
	const bool is_both = form->when & SYSCALL_AT_CALL && form->when & SYSCALL_AT_RETURN;
	struct vms_flow_value value;
	if (argument->number == 0)
		return false;
	if (form->kind == SYSCALL_MESSAGE)
		return append_message(out, argument);
	if (is_both && form->kind == SYSCALL_NUMBERS)
		return append_change(out, argument);
	argument->is_after = !(form->when & SYSCALL_AT_CALL);
	if ((argument->is_after && is_unwritten(argument)) ||
	    !get_value(argument, argument->is_after, 0, &value))
		return false;
	append_value(out, argument, &value);
	return true;
}

static void append_argument(GString *out, const struct syscall_shape *shape, unsigned index,
			    const struct vms_flow_record *record)
{
	struct argument argument = {
		.shape = shape, .form = &shape->forms[index], .record = record, .index = index
	};
	struct syscall_form form = *argument.form;
	if (!syscall_get_argument(shape, record, index, &argument.number)) {
		g_string_append_c(out, '?');
		return;
	}
	syscall_change_form(shape, record, index, &form);
	argument.form = &form;
	if (strcmp(shape->call->name, "mmap2") == 0 && index == 5)
		argument.number *= PAGE_OFFSETS;
	if (!syscall_is_memory(form.kind))
		append_number(out, &form, argument.number);
	else if (!append_memory(out, &argument))
		syscall_append_address(out, argument.number);
}

void syscall_append_call(GString *out, const struct syscall_shape *shape,
			 const struct vms_flow_record *record)
{
	unsigned order[VMS_SYSCALL_ARGUMENTS];
	const char *labels[VMS_SYSCALL_ARGUMENTS];
	const unsigned n = syscall_choose_arguments(shape, record, order, labels);
	g_string_append_printf(out, "%s(", shape->call->name);
	for (unsigned i = 0; i < n; i++) {
		g_string_append_printf(out, "%s%s", i ? ", " : "", labels[i]);
		append_argument(out, shape, order[i], record);
	}
	g_string_append_c(out, ')');
}

/* ---- results ----------------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *words)
{
	return g_strv_contains(words, text);
}

/* True for system calls whose result is an address. */
static bool gives_address(const struct vms_syscall *call)
{
	static const char *const names[] = { "brk", "mmap", "mremap", "shmat", NULL };
	return is_one_of(syscall_wide_name(call), names);
}

/* Appends an argument's memory after the call. False if there is none. */
static bool append_memory_after(GString *out, const char *label, const struct syscall_shape *shape,
				unsigned index, const struct vms_flow_record *record)
{
	const struct argument argument = { .shape = shape,
					   .form = &shape->forms[index],
					   .record = record,
					   .index = index,
					   .is_after = true };
	struct vms_flow_value value;
	if (!get_value(&argument, true, 0, &value) || value.size == 0)
		return false;
	g_string_append(out, label);
	append_value(out, &argument, &value);
	return true;
}

/* Appends the descriptors that are ready. */
static void append_ready(GString *out, const struct syscall_shape *shape,
			 const struct vms_flow_record *record)
{
	static const char *const labels[] = { "in ", "out ", "except " };
	const size_t begin = out->len;
	for (unsigned i = 0; i < G_N_ELEMENTS(labels); i++) {
		g_autoptr(GString) set = g_string_new(NULL);
		if (!append_memory_after(set, "", shape, i + 1, record) ||
		    strcmp(set->str, "[]") == 0)
			continue;
		g_string_append_printf(out, "%s%s%s", out->len == begin ? " (" : ", ", labels[i],
				       set->str);
	}
	append_memory_after(out, out->len == begin ? " (left " : ", left ", shape, 4, record);
	g_string_append(out, out->len == begin ? "" : ")");
}

/* Appends the polled descriptors that are ready. */
static void append_polled(GString *out, const struct syscall_shape *shape,
			  const struct vms_flow_record *record)
{
	const struct argument argument = { .shape = shape,
					   .form = &shape->forms[0],
					   .record = record };
	const struct syscall_form *form = argument.form;
	struct vms_flow_value value;
	const char *between = " ([";
	if (!get_value(&argument, true, 0, &value) || form->kind != SYSCALL_STRUCTS)
		return;
	for (size_t at = 0; at + form->size <= value.size; at += form->size) {
		if (syscall_read_number(value.bytes, value.size, at + 6, 2) == 0) /* revents */
			continue;
		g_string_append(out, between);
		syscall_append_struct(out, shape->arch, form->type,
				      (const uint8_t *)value.bytes + at, form->size, true);
		between = ", ";
	}
	g_string_append(out, *between == ',' ? "]" : "");
	if (*between == ',' && shape->call->n_arguments > 4)
		append_memory_after(out, ", left ", shape, 2, record);
	g_string_append(out, *between == ',' ? ")" : "");
}

/* Appends the meaning of the result of poll and select. */
static void append_meaning(GString *out, const struct syscall_shape *shape,
			   const struct vms_flow_record *record, uint64_t result)
{
	static const char *const polls[] = { "poll", "ppoll", NULL };
	static const char *const selects[] = { "select", "pselect6", NULL };
	const char *name = shape->wide_name;
	const bool polled = is_one_of(name, polls), selected = is_one_of(name, selects);
	if ((polled || selected) && result == 0)
		g_string_append(out, " (Timeout)");
	else if (polled)
		append_polled(out, shape, record);
	else if (selected)
		append_ready(out, shape, record);
}

/* Appends a result that is not an error. */
static void append_success(GString *out, const struct syscall_shape *shape,
			   const struct vms_flow_record *record, uint64_t result)
{
	const struct syscall_names *names = syscall_names_of_result(shape, record);
	const bool is_octal = strcmp(shape->call->name, "umask") == 0;
	if (gives_address(shape->call) || result >= SMALL_MAX)
		g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x", result);
	else if (is_octal)
		g_string_append_printf(out, "%#03o", (unsigned)result);
	else if (names && result) {
		g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x (flags ", result);
		syscall_append_names(out, names, result);
		g_string_append_c(out, ')');
	} else
		g_string_append_printf(out, "%" G_GUINT64_FORMAT, result);
	append_meaning(out, shape, record, result);
}

void syscall_append_result(GString *out, const struct syscall_shape *shape,
			   const struct vms_flow_record *record)
{
	uint64_t result;
	if (!syscall_get_result(record, &result)) {
		g_string_append_c(out, '?');
		return;
	}
	if (!syscall_has_failed(record)) {
		append_success(out, shape, record, result);
		return;
	}
	const int number = (int)-(int64_t)result;
	const char *name = vms_errno_name((uint64_t)number);
	if (number >= HIDDEN_MIN && number <= HIDDEN_MAX)
		g_string_append_printf(out, "? %s", name);
	else
		g_string_append_printf(out, "-1 %s (%s)", name ? name : "?", strerror(number));
}
