/* SPDX-License-Identifier: MIT */
#include "flow_spec.h"
#include "flow_place.h"
#include "functions.h"
#include "probe/wide_registers.h"
#include "symbol/source_line.h"
#include "task_functions.h"
#include "values.h"
#include <string.h>

#define STRING_BYTES 128 /* of a string without a size */
#define COMM_BYTES   16

char *flow_spec_explain(void)
{
	return g_strdup(
		"SPEC is WHERE[:before|:after|:both][=ENTRY,…], or WHERE:call[=ENTRY,…[;ENTRY,…]] "
		"to\n"
		"follow a function's calls until they return, with what is collected at the call\n"
		"and then at the return (default: retval). WHERE is a symbol, a symbol with an\n"
		"offset (vfs_read+8), an address, a pattern of functions (tcp_*), or a line of a\n"
		"source (tcp.c:1234), if a file with lines is given by --symbols. With --task it "
		"may be\n"
		"a function of the process's programs and libraries, too (malloc, "
		"libc.so.6:str*).\n"
		"Without ENTRY, a function's arguments are shown. ENTRY is one of:\n"
		"  rdi              a register, or a part of one; also xmm0, ymm0, st0, gdtr, v0: "
		"as\n"
		"                   numbers by xmm0.f32, .f64, .u8 to .u64, .s8 to .s64, st0.f80; "
		"as\n"
		"                   one of them by xmm0.f64[0]\n"
		"  EXPRESSION       a value, as \"count\", \"file->f_path.dentry->d_name.name\",\n"
		"                   \"*sk\", \"u32(rsi+8)\", \"pid\"\n"
		"  comm             the name of the current process\n"
		"  stack            the call stack: of the kernel, and of the program\n"
		"  kstack, ustack   only one of both\n"
		"  mem(ADDRESS,N)   N bytes of memory, as \"mem(rsi+rcx*8+16,32)\"\n"
		"  str(ADDRESS[,N]) a string, of 128 bytes at most or N\n"
		"  break            stop the machine at the hit, and leave it so\n"
		"Expressions are those of C over a function's arguments by their names, or "
		"arg0 to\n"
		"arg5, registers, retval, cpu, pid, tid, current, symbols and enumerators. "
		". -> [] *\n"
		"& and casts follow types; u8 to u64 and s8 to s64 read memory; comm == "
		"\"bash\"\n"
		"compares strings.\n"
		"KEY is an ENTRY, or \"function\". With --count, --sum and the like nothing "
		"is\n"
		"recorded but a table, where the hit happens: SPECs have no entries then, and "
		"in KEYs\n"
		"and numbers arguments are arg0 to arg5, with casts where types matter.\n");
}

const char *flow_spec_find_outside(const char *text, char sign, bool first)
{
	const char *found = NULL;
	unsigned depth = 0;
	char quote = 0;
	for (const char *at = text; *at; at++) {
		if (quote)
			quote = *at == quote ? 0 : quote;
		else if (*at == '"' || *at == '\'')
			quote = *at;
		else if (*at == '(')
			depth++;
		else if (*at == ')')
			depth -= depth > 0;
		else if (*at == sign && depth == 0) {
			found = at;
			if (first)
				break;
		}
	}
	return found;
}

/* ---- entries ----------------------------------------------------------------------------- */

/*
 * Splits "mem(ADDRESS,N)". Without N, *size stays unchanged. Returns the address, newly allocated.
 */
static char *split_call(const char *entry, const char *inner, unsigned *size, GError **error)
{
	const size_t length = strlen(inner);
	if (!length || inner[length - 1] != ')') {
		usage_error(error, "\"%s\": \")\" is missing", entry);
		return NULL;
	}
	g_autofree char *arguments = g_strndup(inner, length - 1);
	char *comma = (char *)flow_spec_find_outside(arguments, ',', false);
	if (comma) {
		*comma = 0;
		if (!value_unsigned("the size in an entry", g_strstrip(comma + 1), 1, 4096, size,
				    error))
			return NULL;
	}
	return g_strdup(arguments);
}

static bool add_pointed(struct vms_probe *probe, const char *entry, const char *inner,
			enum vms_entry_kind kind, GError **error)
{
	unsigned size = kind == VMS_ENTRY_STRING ? STRING_BYTES : 0;
	g_autofree char *address = split_call(entry, inner, &size, error);
	if (!address)
		return false;
	if (!size) {
		usage_error(error, "\"%s\": the number of bytes is missing: write mem(ADDRESS,N)",
			    entry);
		return false;
	}
	const struct vms_entry made = {
		.kind = kind, .name = entry, .expression = address, .size = size
	};
	return vms_probe_add(probe, &made, 1, error);
}

/* True for str(ADDRESS) as a whole, and not for str(ADDRESS) == "text". */
static bool is_call(const char *entry, const char *function)
{
	return g_str_has_prefix(entry, function) && g_str_has_suffix(entry, ")") &&
	       !flow_spec_find_outside(entry, '=', true);
}

/* True for registers that are one number: a descriptor table is none. */
static bool is_register(const struct vms_arch *arch, const char *name)
{
	struct vms_reg_part part;
	struct vms_wide_register wide;
	return vms_arch_reg_part(arch, name, &part) ||
	       (vms_wide_find(arch, name, &wide) && wide.kind != VMS_WIDE_TABLE);
}

/* True for "stack", "kstack" and "ustack". */
static bool find_stack(const char *entry, enum vms_stack_frames *ret)
{
	static const char *const names[] = {
		[VMS_STACK_BOTH] = "stack",
		[VMS_STACK_KERNEL] = "kstack",
		[VMS_STACK_USER] = "ustack",
	};
	for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
		*ret = (enum vms_stack_frames)i;
		if (g_str_equal(entry, names[i]))
			return true;
	}
	return false;
}

bool flow_spec_add_entry(struct session *session, struct vms_probe *probe, const char *entry,
			 GError **error)
{
	struct vms_entry made = { .kind = VMS_ENTRY_TYPED, .expression = entry };
	if (is_call(entry, "mem("))
		return add_pointed(probe, entry, entry + strlen("mem("), VMS_ENTRY_BYTES, error);
	if (is_call(entry, "str("))
		return add_pointed(probe, entry, entry + strlen("str("), VMS_ENTRY_STRING, error);
	if (strcmp(entry, "break") == 0)
		made = (struct vms_entry) { .kind = VMS_ENTRY_HALT };
	else if (!vms_probe_has_argument(probe, entry) &&
		 is_register(vms_machine_arch(session->machine), entry))
		made = (struct vms_entry) { .kind = VMS_ENTRY_REGISTER, .reg = entry };
	else if (find_stack(entry, &made.frames) && !vms_probe_has_argument(probe, entry))
		made = (struct vms_entry) { .kind = VMS_ENTRY_STACK, .frames = made.frames };
	else if (g_str_equal(entry, "comm"))
		made = (struct vms_entry) { .kind = VMS_ENTRY_STRING,
					    .name = entry,
					    .expression = entry,
					    .size = COMM_BYTES };
	return vms_probe_add(probe, &made, 1, error);
}

static bool refuse_empty_entry(const char *text, GError **error)
{
	usage_error(error, "\"%s\": an entry is empty: write entries as \"arg0,comm,u32(rsi+8)\"",
		    text);
	return false;
}

GPtrArray *flow_spec_split(const char *entries, GError **error)
{
	g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(g_free);
	const char *whole = entries;
	while (entries) {
		const char *comma = flow_spec_find_outside(entries, ',', true);
		char *entry =
			comma ? g_strndup(entries, (gsize)(comma - entries)) : g_strdup(entries);
		g_ptr_array_add(list, entry);
		if (!*g_strstrip(entry)) {
			refuse_empty_entry(whole, error);
			return NULL;
		}
		entries = comma ? comma + 1 : NULL;
	}
	return g_steal_pointer(&list);
}

/* Adds entries, "ENTRY,…". The text may be empty. */
static bool add_entries(struct session *session, struct vms_probe *probe, const char *entries,
			GError **error)
{
	if (!*entries)
		return true;
	g_autoptr(GPtrArray) list = flow_spec_split(entries, error);
	for (guint i = 0; list && i < list->len; i++)
		if (!flow_spec_add_entry(session, probe, list->pdata[i], error))
			return false;
	return list;
}

/* What the user wants to collect at a place. */
struct wanted_entries {
	const char *entries; /* "": none; NULL: the function's arguments, or its result */
	const char *condition;
	bool is_return; /* at the return of the function */
};

/* Adds the default entries: a function's arguments, or its result. */
static bool add_default_entries(struct vms_probe *probe, const struct wanted_entries *wanted,
				bool is_typed, GError **error)
{
	if (wanted->is_return)
		return vms_probe_add_result(probe, error);
	return !is_typed || vms_probe_add_arguments(probe, error);
}

static struct vms_probe *make_probe(struct session *session, uint64_t va,
				    const struct wanted_entries *wanted, GError **error)
{
	g_autoptr(vms_probe) probe =
		vms_probe_new(session->machine, session->guest, wanted->entries);
	g_autoptr(GError) untyped = NULL;
	const bool is_typed = vms_probe_set_function(probe, va, wanted->is_return, &untyped);
	if (!is_typed && !wanted->entries)
		vms_log(VMS_LOG_INFO, "0x%" G_GINT64_MODIFIER "x is probed without types: %s", va,
			untyped->message);
	if (!(wanted->entries ? add_entries(session, probe, wanted->entries, error)
			      : add_default_entries(probe, wanted, is_typed, error)) ||
	    (wanted->condition && !vms_probe_set_condition(probe, wanted->condition, error)))
		return NULL;
	return g_steal_pointer(&probe);
}

struct vms_probe *flow_spec_probe(struct session *session, const char *entries, GError **error)
{
	const struct wanted_entries wanted = { .entries = entries };
	return make_probe(session, 0, &wanted, error);
}

bool flow_spec_has_arguments(const struct vms_probe *probe)
{
	return !vms_probe_description(probe) && vms_probe_entries(probe) > 0;
}

/* ---- places ------------------------------------------------------------------------------ */

#define CALL 0U /* instead of an enum vms_flow_moment: follows calls */

/*
 * Cuts ":before", ":after", ":both" or ":call" off the end of WHERE, in the SPEC `text`. Other
 * colons are those of FILE:LINE, or in a process's functions those of FILE:FUNCTION or
 * ns::function.
 */
static bool cut_moments(char *where, const char *text, bool has_task, unsigned *moments,
			GError **error)
{
	static const struct choice choices[] = { { "before", VMS_FLOW_BEFORE },
						 { "after", VMS_FLOW_AFTER },
						 { "both", VMS_FLOW_BEFORE | VMS_FLOW_AFTER },
						 { "call", CALL },
						 { NULL } };
	int chosen = VMS_FLOW_BEFORE;
	char *colon = strrchr(where, ':');
	if (colon && value_choose("", colon + 1, choices, &chosen, NULL)) {
		*colon = 0;
		colon = strrchr(where, ':');
	}
	if (colon && !has_task && !g_ascii_isdigit(colon[1])) {
		usage_error(error,
			    "\"%s\": \":\" must be followed by before, after, both or call; "
			    "functions of programs need --task",
			    text);
		return false;
	}
	*moments = (unsigned)chosen;
	return true;
}

/* A parsed SPEC: where its probes are, and what they collect. */
struct spec {
	const char *where;
	unsigned moments;     /* enum vms_flow_moment, or CALL */
	const char *entries;  /* "": none; NULL: the arguments */
	const char *returned; /* CALL: entries at the return; NULL: the result */
	const struct flow_conditions *conditions;
};

static bool add_place(struct session *session, struct vms_flow *flow, const struct spec *spec,
		      uint64_t va, GError **error)
{
	const struct wanted_entries at_place = { spec->entries, spec->conditions->at_place, false };
	const struct wanted_entries at_return = { spec->returned, spec->conditions->at_return,
						  true };
	g_autoptr(vms_probe) probe = make_probe(session, va, &at_place, error);
	if (!probe)
		return false;
	if (spec->moments != CALL)
		return vms_flow_add(flow, va, spec->moments, probe, error);
	g_autoptr(vms_probe) returned = make_probe(session, va, &at_return, error);
	return returned && vms_flow_add_call(flow, va, probe, returned, error);
}

/* Returns the colon of FILE:LINE, or NULL. */
static const char *find_line_colon(const char *where)
{
	const char *colon = strchr(where, ':');
	return colon && g_ascii_isdigit(colon[1]) ? colon : NULL;
}

static GArray *find_line(struct session *session, const char *where, const char *colon,
			 GError **error)
{
	unsigned line;
	g_autofree char *source = g_strndup(where, (gsize)(colon - where));
	return value_unsigned("the line", colon + 1, 1, INT_MAX, &line, error)
		       ? vms_symbolizer_line_addresses(vms_guest_symbolizer(session->guest), source,
						       line, error)
		       : NULL;
}

/* Returns the addresses of "[FILE:]FUNCTION[+OFFSET]" in the programs of a process. */
static GArray *find_in_process(struct session *session, const struct vms_task *task,
			       const char *where, GError **error)
{
	if (!task) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "the process of %s is not there",
			    where);
		return NULL;
	}
	uint64_t offset = 0;
	const char *colon = strchr(where, ':');
	const bool has_file = colon && colon[1] != ':';
	g_autofree char *file = has_file ? g_strndup(where, (gsize)(colon - where)) : NULL;
	g_autofree char *function = g_strdup(has_file ? colon + 1 : where);
	char *plus = strrchr(function, '+');
	if (plus && value_in_c(plus + 1, &offset))
		*plus = 0;
	GArray *vas = task_functions_find(session, task, file, function, error);
	for (guint i = 0; vas && i < vas->len; i++)
		g_array_index(vas, uint64_t, i) += offset;
	return vas;
}

/*
 * Returns the addresses of WHERE in a new array of uint64_t. If the kernel has a symbol of that
 * name, it is used, and not one of the process.
 */
static GArray *find_places(struct session *session, const char *where, const struct vms_task *task,
			   bool *in_process, GError **error)
{
	uint64_t va;
	GError *failure = NULL;
	const char *line = find_line_colon(where);
	*in_process = !line && strchr(where, ':');
	if (line)
		return find_line(session, where, line, error);
	if (*in_process)
		return find_in_process(session, task, where, error);
	if (functions_is_pattern(where))
		return functions_match(session, where, error);
	if (session_address(session, where, &va, &failure)) {
		GArray *vas = g_array_new(FALSE, FALSE, sizeof(uint64_t));
		g_array_append_val(vas, va);
		return vas;
	}
	if (!task || !g_error_matches(failure, VMS_ERROR, VMS_ERROR_NOT_FOUND)) {
		g_propagate_error(error, failure);
		return NULL;
	}
	g_error_free(failure);
	*in_process = true;
	return find_in_process(session, task, where, error);
}

/* Adds all places, each with its own probe, because functions have different arguments. */
static bool add_places(struct session *session, struct vms_flow *flow, const struct spec *spec,
		       const GArray *vas, GError **error)
{
	const bool is_pattern = functions_is_pattern(spec->where);
	for (guint i = 0; i < vas->len; i++) {
		const uint64_t va = g_array_index(vas, uint64_t, i);
		struct vms_location location;
		if (!is_pattern)
			flow_place_check(session, va);
		if (add_place(session, flow, spec, va, error))
			continue;
		if (is_pattern && vms_guest_locate(session->guest, NULL, va, &location))
			g_prefix_error(error, "%s: ", location.symbol);
		return false;
	}
	return true;
}

/* Parses WHERE and its moments: the part of a SPEC before the entries. */
static bool parse_where(char *where, const char *text, bool has_task, unsigned *moments,
			GError **error)
{
	if (!cut_moments(g_strstrip(where), text, has_task, moments, error))
		return false;
	if (*g_strchomp(where))
		return true;
	usage_error(error,
		    "\"%s\": the place is missing: write a symbol, an address, a line or a "
		    "pattern, as \"vfs_read\", \"vfs_read:call\", \"tcp.c:1234\" or \"tcp_*=comm\"",
		    text);
	return false;
}

/*
 * Parses the entries of a SPEC. A ";" separates those of the call from those of the return:
 * "vfs_read:call=;retval" collects nothing at the call.
 */
static bool parse_entries(struct spec *spec, char *entries, const char *text, GError **error)
{
	char *semicolon = (char *)flow_spec_find_outside(entries, ';', true);
	spec->entries = entries;
	if (semicolon && spec->moments != CALL) {
		usage_error(error,
			    "\"%s\": entries after \";\" are for returns: write WHERE:call=…",
			    text);
		return false;
	}
	if (semicolon) {
		*semicolon = 0;
		spec->returned = semicolon + 1;
		g_strchomp(entries);
	}
	return semicolon || *entries || refuse_empty_entry(text, error);
}

/* A SPEC whose parts were cut out of a copy. */
struct parsed_spec {
	char *where, *entries; /* `spec` points into them */
	struct spec spec;
};

static void clear_parsed(struct parsed_spec *parsed)
{
	g_free(parsed->where);
	g_free(parsed->entries);
}

/* Parses a SPEC. `ret` must be cleared, also after an error. */
static bool parse_spec(const char *text, const struct flow_conditions *conditions,
		       struct parsed_spec *ret, GError **error)
{
	const char *equals = flow_spec_find_outside(text, '=', true);
	const char *usual = conditions->adds_up ? "" : NULL;
	ret->where = equals ? g_strndup(text, (gsize)(equals - text)) : g_strdup(text);
	ret->entries = equals ? g_strstrip(g_strdup(equals + 1)) : NULL;
	ret->spec = (struct spec) {
		.where = ret->where, .entries = usual, .returned = usual, .conditions = conditions
	};
	if (!parse_where(ret->where, text, conditions->has_process, &ret->spec.moments, error))
		return false;
	if (conditions->at_return && ret->spec.moments != CALL) {
		usage_error(error, "--if-return is for calls: write WHERE:call");
		return false;
	}
	if (ret->spec.moments == CALL && find_line_colon(ret->where)) {
		usage_error(error, "\"%s\" is a line: \":call\" is for functions", ret->where);
		return false;
	}
	return !ret->entries || parse_entries(&ret->spec, ret->entries, text, error);
}

GArray *flow_spec_find(struct session *session, const char *text,
		       const struct flow_conditions *conditions, bool *in_process, GError **error)
{
	struct parsed_spec parsed;
	GArray *vas = NULL;
	*in_process = false;
	if (parse_spec(text, conditions, &parsed, error))
		vas = find_places(session, parsed.where, conditions->task, in_process, error);
	clear_parsed(&parsed);
	return vas;
}

bool flow_spec_add(struct session *session, struct vms_flow *flow, const char *text,
		   const struct flow_conditions *conditions, const GArray *vas, GError **error)
{
	struct parsed_spec parsed;
	const bool done = parse_spec(text, conditions, &parsed, error) &&
			  add_places(session, flow, &parsed.spec, vas, error);
	clear_parsed(&parsed);
	return done;
}
