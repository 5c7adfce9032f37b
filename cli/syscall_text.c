/* SPDX-License-Identifier: MIT */
#include "syscall_text.h"

#include "base/errno_name.h"
#include <fcntl.h>
#include <string.h>

#define ERROR_MAX  4095 /* a result from -ERROR_MAX to -1 is an error */
#define HIDDEN_MIN 512	/* errors inside the kernel that no program sees: ERESTARTSYS */
#define HIDDEN_MAX 519
#define SMALL_MAX  (1u << 31) /* results from here on are addresses */

/* ---- forms ------------------------------------------------------------------------ */

static bool is_one_of(const char *text, const char *const *words)
{
	return g_strv_contains(words, text);
}

/* True if the argument behind says how many bytes there are. */
static bool has_size_behind(const struct vms_syscall *call, unsigned index)
{
	return index + 1 < call->n_arguments &&
	       strcmp(call->arguments[index + 1].type, "size_t") == 0;
}

/* Those whose result says how many bytes there are. */
static bool is_filled(const struct vms_syscall *call, unsigned index)
{
	static const struct {
		const char *call;
		unsigned index;
	} filled[] = {
		{ "read", 1 },	    { "pread64", 1 },	 { "recvfrom", 1 }, { "getrandom", 0 },
		{ "readlink", 1 },  { "readlinkat", 2 }, { "getcwd", 0 },   { "getxattr", 2 },
		{ "lgetxattr", 2 }, { "fgetxattr", 2 },
	};
	for (unsigned i = 0; i < G_N_ELEMENTS(filled); i++)
		if (filled[i].index == index && strcmp(filled[i].call, call->name) == 0)
			return true;
	return false;
}

static enum syscall_kind kind_of_pointer(const struct vms_syscall *call, unsigned index)
{
	/* Values of extended attributes, keys and programs' data are no text. */
	static const char *const no_text[] = { "buf", "_payload", "value", "ubuf", NULL };
	const struct vms_syscall_argument *argument = &call->arguments[index];
	const bool is_text = strcmp(argument->type, "const char *") == 0;
	if (is_text && !is_one_of(argument->name, no_text))
		return SYSCALL_STRING;
	if (has_size_behind(call, index) && (is_text || strcmp(call->name, "sendto") == 0))
		return SYSCALL_DATA;
	return SYSCALL_HEX;
}

static bool is_flags(const struct vms_syscall_argument *argument)
{
	static const char *const flags[] = { "flags",	"flag",	   "mode",	    "cmd",
					     "prot",	"options", "how",	    "op",
					     "request", "mask",	   "event_f_flags", NULL };
	return is_one_of(argument->name, flags);
}

/* The form of a number by its type; that of others is hexadecimal, of 8 bytes. */
static struct syscall_form form_of_type(const char *type)
{
	static const struct {
		const char *type;
		enum syscall_kind kind;
		unsigned size; /* bytes */
	} types[] = {
		{ "int", SYSCALL_SIGNED, 4 },
		{ "pid_t", SYSCALL_SIGNED, 4 },
		{ "key_t", SYSCALL_SIGNED, 4 },
		{ "timer_t", SYSCALL_SIGNED, 4 },
		{ "s32", SYSCALL_SIGNED, 4 },
		{ "const clockid_t", SYSCALL_SIGNED, 4 },
		{ "clockid_t", SYSCALL_SIGNED, 4 },
		{ "key_serial_t", SYSCALL_SIGNED, 4 },
		{ "long", SYSCALL_SIGNED, 8 },
		{ "ssize_t", SYSCALL_SIGNED, 8 },
		{ "loff_t", SYSCALL_SIGNED, 8 },
		{ "off_t", SYSCALL_SIGNED, 8 },
		{ "unsigned int", SYSCALL_UNSIGNED, 4 },
		{ "unsigned", SYSCALL_UNSIGNED, 4 },
		{ "u32", SYSCALL_UNSIGNED, 4 },
		{ "uid_t", SYSCALL_UNSIGNED, 4 },
		{ "gid_t", SYSCALL_UNSIGNED, 4 },
		{ "qid_t", SYSCALL_UNSIGNED, 4 },
		{ "size_t", SYSCALL_UNSIGNED, 8 },
		{ "u64", SYSCALL_UNSIGNED, 8 },
		{ "umode_t", SYSCALL_MODE, 2 },
	};
	for (unsigned i = 0; i < G_N_ELEMENTS(types); i++)
		if (strcmp(types[i].type, type) == 0)
			return (struct syscall_form) { .kind = types[i].kind,
						       .size = types[i].size };
	return (struct syscall_form) { .kind = SYSCALL_HEX, .size = 8 };
}

static enum syscall_kind kind_of_number(const struct vms_syscall_argument *argument,
					enum syscall_kind by_type)
{
	if (strcmp(argument->type, "int") == 0 && g_str_has_suffix(argument->name, "dfd"))
		return SYSCALL_DIRECTORY;
	return by_type != SYSCALL_MODE && is_flags(argument) ? SYSCALL_HEX : by_type;
}

static struct syscall_form form_of(const struct vms_arch *arch, const struct vms_syscall *call,
				   unsigned index)
{
	const struct vms_syscall_argument *argument = &call->arguments[index];
	struct syscall_form form = form_of_type(argument->type);
	form.names = syscall_names_of(arch, call->name, index);
	if (form.names)
		form.kind = SYSCALL_NAMES;
	else if (is_filled(call, index))
		form.kind = SYSCALL_FILLED;
	else
		form.kind = strchr(argument->type, '*') ? kind_of_pointer(call, index)
							: kind_of_number(argument, form.kind);
	return form;
}

bool syscall_is_memory(enum syscall_kind kind)
{
	return kind == SYSCALL_STRING || kind == SYSCALL_DATA || kind == SYSCALL_FILLED;
}

void syscall_shape_init(struct syscall_shape *ret, const struct vms_arch *arch,
			const struct vms_syscall *call)
{
	/* These replace the program's memory. */
	const bool goes = g_str_has_prefix(call->name, "execve");
	unsigned n = 0;
	*ret = (struct syscall_shape) { .call = call };
	for (unsigned i = 0; i < call->n_arguments; i++) {
		ret->forms[i] = form_of(arch, call, i);
		if (syscall_is_memory(ret->forms[i].kind) && !goes)
			ret->forms[i].returned = ++n;
	}
}

/* ---- values ----------------------------------------------------------------------- */

static uint64_t number_of(const struct vms_flow_value *value)
{
	uint64_t number = 0;
	memcpy(&number, value->bytes, MIN(value->size, sizeof(number)));
	return number;
}

static int64_t with_sign(uint64_t number, unsigned size)
{
	const unsigned shift = 64 - 8 * size;
	return (int64_t)(number << shift) >> shift;
}

static uint64_t without_sign(uint64_t number, unsigned size)
{
	const unsigned shift = 64 - 8 * size;
	return number << shift >> shift;
}

static void append_number(GString *out, struct syscall_form form, uint64_t number)
{
	const int64_t value = with_sign(number, form.size);
	number = without_sign(number, form.size);
	switch (form.kind) {
	case SYSCALL_NAMES: syscall_append_names(out, form.names, number); break;
	case SYSCALL_SIGNED: g_string_append_printf(out, "%" G_GINT64_FORMAT, value); break;
	case SYSCALL_UNSIGNED: g_string_append_printf(out, "%" G_GUINT64_FORMAT, number); break;
	case SYSCALL_MODE: g_string_append_printf(out, "0%" G_GINT64_MODIFIER "o", number); break;
	case SYSCALL_DIRECTORY:
		if (value == AT_FDCWD)
			g_string_append(out, "AT_FDCWD");
		else
			g_string_append_printf(out, "%" G_GINT64_FORMAT, value);
		break;
	case SYSCALL_HEX:
	case SYSCALL_STRING:
	case SYSCALL_DATA:
	case SYSCALL_FILLED:
	default:
		g_string_append_printf(
			out, number ? "0x%" G_GINT64_MODIFIER "x" : "%" G_GINT64_MODIFIER "x",
			number);
	}
}

static void append_byte(GString *out, uint8_t byte, bool digit_follows)
{
	static const char letters[] = "abtnvfr"; /* from 7 on */
	if (byte == '"' || byte == '\\')
		g_string_append_printf(out, "\\%c", byte);
	else if (byte >= ' ' && byte < 0x7f)
		g_string_append_c(out, (char)byte);
	else if (byte >= '\a' && byte <= '\r')
		g_string_append_printf(out, "\\%c", letters[byte - '\a']);
	else
		g_string_append_printf(out, digit_follows ? "\\%03o" : "\\%o", byte);
}

/* Appends bytes in quotes. `cut`: there are more of them. */
static void append_bytes(GString *out, const uint8_t *bytes, size_t size, bool cut)
{
	g_string_append_c(out, '"');
	for (size_t i = 0; i < size; i++)
		append_byte(out, bytes[i], i + 1 < size && g_ascii_isdigit(bytes[i + 1]));
	g_string_append(out, cut ? "\"..." : "\"");
}

/* Takes the value of an argument that is a number; false: it is not known. */
static bool get_number(const struct vms_flow_record *record, unsigned index, uint64_t *ret)
{
	struct vms_flow_value value;
	if (!vms_flow_record_value(record, index, &value) || value.status != VMS_FLOW_KNOWN)
		return false;
	*ret = number_of(&value);
	return true;
}

/* Tells how many bytes a buffer has. False: it is not known, or nothing was filled in. */
static bool get_size(const struct vms_flow_record *record, struct syscall_form form, unsigned index,
		     uint64_t *ret)
{
	struct vms_flow_value result;
	if (form.kind != SYSCALL_FILLED)
		return get_number(record, index + 1, ret);
	if (!vms_flow_record_returned_value(record, 0, &result) || result.status != VMS_FLOW_KNOWN)
		return false;
	*ret = number_of(&result);
	return *ret < (uint64_t)-ERROR_MAX;
}

/* Appends what an argument leads to. False: that is not known. */
static bool append_memory(GString *out, struct syscall_form form, unsigned index,
			  const struct vms_flow_record *record)
{
	struct vms_flow_value value;
	uint64_t size;
	if (!(form.returned ? vms_flow_record_returned_value(record, form.returned, &value)
			    : vms_flow_record_value(record, index, &value)) ||
	    (value.status != VMS_FLOW_KNOWN && value.status != VMS_FLOW_CUT))
		return false;
	if (form.kind == SYSCALL_STRING)
		append_bytes(out, value.bytes, value.size, value.status == VMS_FLOW_CUT);
	else if (get_size(record, form, index, &size))
		append_bytes(out, value.bytes, MIN(value.size, size), size > value.size);
	else
		return false;
	return true;
}

static void append_argument(GString *out, const struct syscall_shape *shape, unsigned index,
			    const struct vms_flow_record *record)
{
	const struct syscall_form form = shape->forms[index];
	const bool is_memory = syscall_is_memory(form.kind);
	const bool is_pointer = strchr(shape->call->arguments[index].type, '*');
	uint64_t number;
	if (is_memory && append_memory(out, form, index, record))
		return;
	if (is_memory && !form.returned)
		g_string_append(out, "(unreadable)");
	else if (!get_number(record, index, &number))
		g_string_append_c(out, '?');
	else if ((is_pointer || is_memory) && number == 0)
		g_string_append(out, "NULL");
	else
		append_number(out, form, number);
}

void syscall_append_call(GString *out, const struct syscall_shape *shape,
			 const struct vms_flow_record *record)
{
	g_string_append_printf(out, "%s(", shape->call->name);
	for (unsigned i = 0; i < shape->call->n_arguments; i++) {
		g_string_append(out, i ? ", " : "");
		append_argument(out, shape, i, record);
	}
	g_string_append_c(out, ')');
}

/* True for system calls whose result is an address. */
static bool gives_address(const struct vms_syscall *call)
{
	static const char *const names[] = { "brk", "mmap", "mremap", "shmat", NULL };
	return is_one_of(call->name, names);
}

void syscall_append_result(GString *out, const struct vms_syscall *call, uint64_t result)
{
	if (result < (uint64_t)-ERROR_MAX) {
		g_string_append_printf(out,
				       !gives_address(call) && result < SMALL_MAX
					       ? "%" G_GUINT64_FORMAT
					       : "0x%" G_GINT64_MODIFIER "x",
				       result);
		return;
	}
	const int number = (int)-(int64_t)result;
	const char *name = vms_errno_name((uint64_t)number);
	if (number >= HIDDEN_MIN && number <= HIDDEN_MAX)
		g_string_append_printf(out, "? %s", name);
	else
		g_string_append_printf(out, "-1 %s (%s)", name ? name : "?", strerror(number));
}
