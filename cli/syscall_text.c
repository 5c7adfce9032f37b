/* SPDX-License-Identifier: MIT */
#include "syscall_text.h"

#include "base/errno_name.h"
#include <fcntl.h>
#include <string.h>

#define ERROR_MAX  4095 /* a result from -ERROR_MAX to -1 is an error */
#define HIDDEN_MIN 512	/* errors inside the kernel that no program sees: ERESTARTSYS */
#define HIDDEN_MAX 519
#define SMALL_MAX  (1u << 31) /* results from here on are addresses */
#define DATA_SHOWN 32u	      /* bytes of what is written */

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

static struct syscall_form form_of_pointer(const struct vms_syscall *call, unsigned index)
{
	/* Values of extended attributes, keys and programs' data are no text. */
	static const char *const no_text[] = { "buf", "_payload", "value", "ubuf", NULL };
	const struct vms_syscall_argument *argument = &call->arguments[index];
	const bool is_text = strcmp(argument->type, "const char *") == 0;
	if (is_text && !is_one_of(argument->name, no_text))
		return (struct syscall_form) { SYSCALL_STRING, 0 };
	if (is_text && has_size_behind(call, index))
		return (struct syscall_form) { SYSCALL_DATA, 0 };
	return (struct syscall_form) { SYSCALL_HEX, 8 };
}

static struct syscall_form form_of_number(const struct vms_syscall_argument *argument)
{
	static const char *const wide[] = { "long", "ssize_t", "loff_t", "off_t", NULL };
	static const char *const narrow[] = { "int",	   "pid_t",	   "key_t",
					      "timer_t",   "s32",	   "const clockid_t",
					      "clockid_t", "key_serial_t", NULL };
	static const char *const counts[] = { "size_t", "unsigned int", "unsigned", "u32", "u64",
					      "uid_t",	"gid_t",	"qid_t",    NULL };
	static const char *const flags[] = { "flags",	"flag",	   "mode",	    "cmd",
					     "prot",	"options", "how",	    "op",
					     "request", "mask",	   "event_f_flags", NULL };
	const char *type = argument->type;
	if (strcmp(type, "umode_t") == 0)
		return (struct syscall_form) { SYSCALL_MODE, 2 };
	if (strcmp(type, "int") == 0 && g_str_has_suffix(argument->name, "dfd"))
		return (struct syscall_form) { SYSCALL_DIRECTORY, 4 };
	if (is_one_of(argument->name, flags))
		return (struct syscall_form) { SYSCALL_HEX,
					       g_str_has_suffix(type, "long") ? 8 : 4 };
	if (is_one_of(type, narrow))
		return (struct syscall_form) { SYSCALL_SIGNED, 4 };
	if (is_one_of(type, wide))
		return (struct syscall_form) { SYSCALL_SIGNED, 8 };
	if (strcmp(type, "size_t") == 0)
		return (struct syscall_form) { SYSCALL_UNSIGNED, 8 };
	if (is_one_of(type, counts))
		return (struct syscall_form) { SYSCALL_UNSIGNED, 4 };
	return (struct syscall_form) { SYSCALL_HEX, 8 };
}

struct syscall_form syscall_form(const struct vms_syscall *call, unsigned index)
{
	const struct vms_syscall_argument *argument = &call->arguments[index];
	if (strchr(argument->type, '*'))
		return form_of_pointer(call, index);
	return form_of_number(argument);
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
	const int64_t value = with_sign(number, form.size ? form.size : 8);
	number = without_sign(number, form.size ? form.size : 8);
	if (form.kind == SYSCALL_DIRECTORY && value == AT_FDCWD)
		g_string_append(out, "AT_FDCWD");
	else if (form.kind == SYSCALL_SIGNED || form.kind == SYSCALL_DIRECTORY)
		g_string_append_printf(out, "%" G_GINT64_FORMAT, value);
	else if (form.kind == SYSCALL_UNSIGNED)
		g_string_append_printf(out, "%" G_GUINT64_FORMAT, number);
	else if (form.kind == SYSCALL_MODE)
		g_string_append_printf(out, "0%" G_GINT64_MODIFIER "o", number);
	else if (number)
		g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x", number);
	else
		g_string_append_c(out, '0');
}

/* Appends bytes in quotes. `cut`: there are more of them. */
static void append_bytes(GString *out, const void *bytes, size_t size, bool cut)
{
	g_autofree char *raw = g_strndup(bytes, size);
	g_autofree char *text = g_strescape(raw, NULL);
	g_string_append_printf(out, "\"%s\"%s", text, cut ? "..." : "");
}

/* The number in a later argument; 0: it is not known. */
static uint64_t next_number(const struct vms_flow_record *record, unsigned index)
{
	struct vms_flow_value value;
	return vms_flow_record_value(record, index + 1, &value) && value.status == VMS_FLOW_KNOWN
		       ? number_of(&value)
		       : 0;
}

static void append_argument(GString *out, const struct vms_syscall *call, unsigned index,
			    const struct vms_flow_record *record)
{
	const struct syscall_form form = syscall_form(call, index);
	const bool is_data = form.kind == SYSCALL_DATA;
	const bool is_pointer = strchr(call->arguments[index].type, '*');
	struct vms_flow_value value;
	if (!vms_flow_record_value(record, index, &value) ||
	    (value.status != VMS_FLOW_KNOWN && value.status != VMS_FLOW_CUT))
		g_string_append(out, form.kind == SYSCALL_STRING || is_data ? "(unreadable)" : "?");
	else if (is_data)
		append_bytes(out, value.bytes,
			     MIN(MIN(value.size, DATA_SHOWN), next_number(record, index)),
			     next_number(record, index) > MIN(value.size, DATA_SHOWN));
	else if (form.kind == SYSCALL_STRING)
		append_bytes(out, value.bytes, value.size, value.status == VMS_FLOW_CUT);
	else if (is_pointer && number_of(&value) == 0)
		g_string_append(out, "NULL");
	else
		append_number(out, form, number_of(&value));
}

void syscall_append_call(GString *out, const struct vms_syscall *call,
			 const struct vms_flow_record *record)
{
	g_string_append_printf(out, "%s(", call->name);
	for (unsigned i = 0; i < call->n_arguments; i++) {
		g_string_append(out, i ? ", " : "");
		append_argument(out, call, i, record);
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
