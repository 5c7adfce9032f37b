/* SPDX-License-Identifier: MIT */
#include "syscall_struct.h"

#include "syscall_bytes.h"
#include "syscall_names.h"
#include "syscall_signal.h"
#include <string.h>
#include <sys/sysmacros.h>

#define DEPTH_MAX    4
#define MEMBERS_MAX  64	 /* of a structure */
#define ELEMENTS_MAX 16	 /* of an array */
#define VALUES_MAX   256 /* in a value */
#define OUTPUT_MAX   4096u

struct printer {
	const struct vms_arch *arch;
	const uint8_t *bytes;
	size_t size;
	bool is_after;
	unsigned depth, n_values;
	size_t end; /* of the output */
	GString *out;
};

static void print_value(struct printer *printer, const char *name, struct vms_type type, size_t at);

/* ---- members with a special form ---------------------------------------------------- */

enum member_form {
	MEMBER_NAMED,	  /* by the names of its numbers */
	MEMBER_FILE_MODE, /* type and permissions of a file */
	MEMBER_DEVICE,
	MEMBER_LIMIT, /* of a resource: in units of 1024, or none */
	MEMBER_HEX,
	MEMBER_ADDRESS,
	MEMBER_TICKS, /* of a clock, 100 in a second */
	MEMBER_FILE_SYSTEM,
	MEMBER_DATA, /* of an epoll event: the same number in two sizes */
	MEMBER_SIGNAL_SET,
	MEMBER_HANDLER,
};

static const struct member {
	const char *structures; /* words */
	const char *name;
	enum member_form form;
} members[] = {
	{ "stat", "st_mode", MEMBER_FILE_MODE },
	{ "stat", "st_rdev", MEMBER_DEVICE },
	{ "statx", "stx_mask", MEMBER_NAMED },
	{ "statx", "stx_mode", MEMBER_FILE_MODE },
	{ "statx", "stx_attributes", MEMBER_NAMED },
	{ "rlimit rlimit64", "rlim_cur", MEMBER_LIMIT },
	{ "rlimit rlimit64", "rlim_max", MEMBER_LIMIT },
	{ "pollfd", "events", MEMBER_NAMED },
	{ "pollfd", "revents", MEMBER_NAMED },
	{ "epoll_event", "events", MEMBER_NAMED },
	{ "epoll_event", "data", MEMBER_DATA },
	{ "statfs", "f_type", MEMBER_NAMED },
	{ "statfs", "f_flags", MEMBER_NAMED },
	{ "statfs", "f_fsid", MEMBER_FILE_SYSTEM },
	{ "tms", "tms_utime", MEMBER_TICKS },
	{ "tms", "tms_stime", MEMBER_TICKS },
	{ "tms", "tms_cutime", MEMBER_TICKS },
	{ "tms", "tms_cstime", MEMBER_TICKS },
	{ "sigaction", "sa_handler", MEMBER_HANDLER },
	{ "sigaction", "sa_mask", MEMBER_SIGNAL_SET },
	{ "sigaction", "sa_flags", MEMBER_NAMED },
	{ "sigaction", "sa_restorer", MEMBER_ADDRESS },
	{ "open_how", "flags", MEMBER_NAMED },
	{ "open_how", "resolve", MEMBER_NAMED },
	{ "sigaltstack", "ss_flags", MEMBER_NAMED },
	{ "clone_args", "flags", MEMBER_NAMED },
	{ "clone_args", "exit_signal", MEMBER_NAMED },
	{ "clone_args", "pidfd", MEMBER_ADDRESS },
	{ "clone_args", "child_tid", MEMBER_ADDRESS },
	{ "clone_args", "parent_tid", MEMBER_ADDRESS },
	{ "clone_args", "stack", MEMBER_ADDRESS },
	{ "clone_args", "stack_size", MEMBER_HEX },
	{ "clone_args", "tls", MEMBER_ADDRESS },
};

/* The members to show, in order. A member with ":" is only shown if it is not 0. */
static const struct shown {
	const char *structure, *members;
	bool has_more;
} shown[] = {
	{ "stat", "st_mode st_size", true },
	{ "statx", "stx_mask stx_attributes stx_mode stx_size", true },
	{ "rusage", "ru_utime ru_stime", true },
	{ "new_utsname", "sysname nodename", true },
	{ "sysinfo",
	  "uptime loads totalram freeram sharedram bufferram totalswap freeswap procs totalhigh "
	  "freehigh mem_unit",
	  false },
	{ "statfs",
	  "f_type f_bsize f_blocks f_bfree f_bavail f_files f_ffree f_fsid f_namelen f_frsize "
	  "f_flags",
	  false },
	{ "sigaction", "sa_handler sa_mask sa_flags :sa_restorer", false },
	{ "clone_args", "flags :pidfd :child_tid :parent_tid exit_signal stack stack_size :tls",
	  false },
	{ "open_how", "flags :mode resolve", false },
};

static const struct member *find_member(const char *structure, const char *name)
{
	for (size_t i = 0; i < G_N_ELEMENTS(members); i++)
		if (strcmp(members[i].name, name) == 0 &&
		    syscall_has_word(members[i].structures, structure))
			return &members[i];
	return NULL;
}

static void print_limit(GString *out, uint64_t limit, size_t size)
{
	if (size == sizeof(uint32_t) && limit == UINT32_MAX)
		g_string_append(out, "RLIM_INFINITY");
	else if (limit == UINT64_MAX)
		g_string_append(out, "RLIM64_INFINITY");
	else if (limit > 1024 && limit % 1024 == 0)
		g_string_append_printf(out, "%" G_GUINT64_FORMAT "*1024", limit / 1024);
	else
		g_string_append_printf(out, "%" G_GUINT64_FORMAT, limit);
}

static void print_ticks(GString *out, uint64_t ticks)
{
	g_string_append_printf(out, "%" G_GUINT64_FORMAT, ticks);
	if (ticks)
		g_string_append_printf(out, " /* %.2f s */", (double)ticks / 100);
}

static void print_names(struct printer *printer, const char *structure, const char *name,
			uint64_t number)
{
	const bool is_open = strcmp(structure, "open_how") == 0 && strcmp(name, "flags") == 0;
	const struct syscall_names *names = is_open ? syscall_names_of(printer->arch, "open", 1)
						    : syscall_names_of_member(structure, name);
	if (names)
		syscall_append_names(printer->out, names, number);
	else
		g_string_append_printf(printer->out, "0x%" G_GINT64_MODIFIER "x", number);
}

static void print_member(struct printer *printer, const char *structure,
			 const struct member *member, size_t at, size_t size)
{
	GString *out = printer->out;
	const uint64_t number = syscall_read_number(printer->bytes, printer->size, at, size);
	switch (member->form) {
	case MEMBER_NAMED: print_names(printer, structure, member->name, number); break;
	case MEMBER_FILE_MODE: syscall_append_file_mode(out, number); break;
	case MEMBER_DEVICE:
		g_string_append_printf(out, "makedev(0x%x, 0x%x)", major(number), minor(number));
		break;
	case MEMBER_LIMIT: print_limit(out, number, size); break;
	case MEMBER_HEX: g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x", number); break;
	case MEMBER_ADDRESS: syscall_append_address(out, number); break;
	case MEMBER_DATA:
		g_string_append_printf(out, "{u32=%u, u64=%" G_GUINT64_FORMAT "}", (uint32_t)number,
				       number);
		break;
	case MEMBER_TICKS: print_ticks(out, number); break;
	case MEMBER_FILE_SYSTEM:
		g_string_append_printf(out, "{val=[%#x, %#x]}", (uint32_t)number,
				       (uint32_t)(number >> 32));
		break;
	case MEMBER_SIGNAL_SET: syscall_append_signal_set(out, number); break;
	case MEMBER_HANDLER:
	default: syscall_append_signal_handler(out, number); break;
	}
}

/* ---- any value ------------------------------------------------------------------------- */

static bool is_full(const struct printer *printer)
{
	return printer->n_values >= VALUES_MAX || printer->out->len >= printer->end;
}

/* True if the bytes of a value were collected. */
static bool is_collected(const struct printer *printer, size_t at, uint64_t size)
{
	return at <= printer->size && size <= printer->size - at;
}

static void print_array(struct printer *printer, const struct vms_type_info *info, size_t at)
{
	struct vms_type_info element;
	vms_type_get_info(vms_type_resolve(info->target), &element);
	g_string_append_c(printer->out, '[');
	for (uint32_t i = 0; i < info->n_elements; i++) {
		g_string_append(printer->out, i ? ", " : "");
		if (i == ELEMENTS_MAX || is_full(printer)) {
			g_string_append(printer->out, "...");
			break;
		}
		print_value(printer, "", info->target, at + i * element.size);
	}
	g_string_append_c(printer->out, ']');
}

/* Appends one member. False if it is not shown. */
static bool print_part(struct printer *printer, const char *structure, const char *before,
		       const struct vms_type_part *part, size_t at, bool unless_zero)
{
	struct vms_type_info info;
	const struct member *member = find_member(structure, part->name);
	const size_t place = at + part->bit_offset / 8;
	vms_type_get_info(vms_type_resolve(part->type), &info);
	if (unless_zero &&
	    syscall_read_number(printer->bytes, printer->size, place, info.size) == 0)
		return false;
	g_string_append_printf(printer->out, "%s%s%s", before, part->name, *part->name ? "=" : "");
	if (member && is_collected(printer, place, info.size) && info.size <= sizeof(uint64_t))
		print_member(printer, structure, member, place, info.size);
	else if (part->bits)
		g_string_append(printer->out, "...");
	else
		print_value(printer, part->name, part->type, place);
	return true;
}

/* Appends the members of these names. */
static void print_listed(struct printer *printer, struct vms_type type, const char *structure,
			 const char *names, size_t at)
{
	g_auto(GStrv) words = g_strsplit(names, " ", -1);
	const char *before = "";
	struct vms_type_part part;
	for (char **word = words; *word; word++) {
		const bool unless_zero = **word == ':';
		if (vms_type_find_member(type, *word + unless_zero, &part, NULL) &&
		    print_part(printer, structure, before, &part, at, unless_zero))
			before = ", ";
	}
}

/* Returns the members of a struct stat to show: a device file has no size, but a device. */
static const char *get_stat_members(const struct printer *printer, struct vms_type type, size_t at)
{
	struct vms_type_part part;
	uint64_t mode = 0;
	if (vms_type_find_member(type, "st_mode", &part, NULL))
		mode = syscall_read_number(printer->bytes, printer->size, at + part.bit_offset / 8,
					   2);
	return (mode & 0170000) == 0020000 || (mode & 0170000) == 0060000 ? "st_mode st_rdev"
									  : "st_mode st_size";
}

static void print_poll(struct printer *printer, struct vms_type type, size_t at)
{
	print_listed(printer, type, "pollfd", printer->is_after ? "fd revents" : "fd events", at);
}

static const struct shown *find_shown(const char *structure)
{
	for (size_t i = 0; i < G_N_ELEMENTS(shown); i++)
		if (strcmp(shown[i].structure, structure) == 0)
			return &shown[i];
	return NULL;
}

static bool is_padding(const char *name)
{
	return g_str_has_prefix(name, "__unused") || g_str_has_prefix(name, "__pad") ||
	       strcmp(name, "pad") == 0 || strcmp(name, "_pad") == 0;
}

static void print_all_members(struct printer *printer, struct vms_type type, const char *structure,
			      size_t at)
{
	struct vms_type_part part;
	const char *before = "";
	for (uint32_t i = 0; vms_type_get_part(type, i, &part); i++) {
		if (is_padding(part.name))
			continue;
		if (i >= MEMBERS_MAX || is_full(printer)) {
			g_string_append_printf(printer->out, "%s...", before);
			break;
		}
		print_part(printer, structure, before, &part, at, false);
		before = ", ";
	}
}

/*
 * Returns the name of the 64-bit structure with the same members as a structure of 32-bit programs.
 */
static const char *get_wide_name(const char *structure)
{
	if (strcmp(structure, "stat64") == 0)
		return "stat";
	if (strcmp(structure, "compat_statfs64") == 0)
		return "statfs";
	return g_str_has_prefix(structure, "compat_") ? structure + strlen("compat_") : structure;
}

static void print_structure(struct printer *printer, struct vms_type type,
			    const struct vms_type_info *info, size_t at)
{
	const char *name = get_wide_name(info->name);
	const struct shown *chosen = find_shown(name);
	g_string_append_c(printer->out, '{');
	if (strcmp(name, "pollfd") == 0)
		print_poll(printer, type, at);
	else if (chosen)
		print_listed(printer, type, name,
			     strcmp(name, "stat") == 0 ? get_stat_members(printer, type, at)
						       : chosen->members,
			     at);
	else
		print_all_members(printer, type, name, at);
	g_string_append(printer->out, chosen && chosen->has_more ? ", ...}" : "}");
}

/* Appends a structure, a union or an array. */
static void print_compound(struct printer *printer, struct vms_type type,
			   const struct vms_type_info *info, size_t at)
{
	if (printer->depth == DEPTH_MAX) {
		g_string_append(printer->out, "...");
		return;
	}
	printer->depth++;
	if (info->kind != VMS_TYPE_ARRAY)
		print_structure(printer, type, info, at);
	else if (vms_type_is_text(type) && is_collected(printer, at, info->size))
		syscall_append_string(printer->out, printer->bytes + at, info->size);
	else
		print_array(printer, info, at);
	printer->depth--;
}

static void print_number(struct printer *printer, const char *name,
			 const struct vms_type_info *info, size_t at)
{
	const uint64_t number = syscall_read_number(printer->bytes, printer->size, at, info->size);
	if (info->kind == VMS_TYPE_POINTER)
		syscall_append_address(printer->out, number);
	else if (g_str_has_suffix(name, "flags"))
		g_string_append_printf(
			printer->out,
			number ? "0x%" G_GINT64_MODIFIER "x" : "%" G_GINT64_MODIFIER "x", number);
	else if (info->is_signed)
		syscall_append_signed(printer->out,
				      syscall_extend_sign(number, (unsigned)info->size));
	else
		g_string_append_printf(printer->out, "%" G_GUINT64_FORMAT, number);
}

static void print_value(struct printer *printer, const char *name, struct vms_type type, size_t at)
{
	struct vms_type_info info;
	const struct vms_type resolved = vms_type_resolve(type);
	vms_type_get_info(resolved, &info);
	printer->n_values++;
	if (info.kind == VMS_TYPE_STRUCT || info.kind == VMS_TYPE_UNION ||
	    info.kind == VMS_TYPE_ARRAY)
		print_compound(printer, resolved, &info, at);
	else if (info.size >= 1 && info.size <= sizeof(uint64_t) &&
		 is_collected(printer, at, info.size))
		print_number(printer, name, &info, at);
	else
		g_string_append(printer->out, "...");
}

void syscall_append_struct(GString *out, const struct vms_arch *arch, struct vms_type type,
			   const void *bytes, size_t size, bool is_after)
{
	struct printer printer = { .arch = arch,
				   .bytes = bytes,
				   .size = size,
				   .is_after = is_after,
				   .end = out->len + OUTPUT_MAX,
				   .out = out };
	print_value(&printer, "", type, 0);
}
