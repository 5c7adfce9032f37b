/* SPDX-License-Identifier: MIT */
#include "flow_spec.h"
#include "functions.h"
#include "values.h"
#include <string.h>

#define STRING_BYTES 128 /* of a string without a size */

char *flow_spec_explain(void)
{
	return g_strdup(
		"SPEC is WHERE[:before|:after|:both][=ENTRY,…], or WHERE:call[=ENTRY,…[;ENTRY,…]] "
		"to\n"
		"follow a function's calls until they return, with what is collected at the call\n"
		"and then at the return (default: retval). WHERE is a symbol, a symbol with an\n"
		"offset (vfs_read+8), an address, or a pattern of functions (tcp_*).\n"
		"ENTRY is one of:\n"
		"  rdi              a register, or a part of one\n"
		"  EXPRESSION       a number, as \"arg2\", \"u32(rsi+8)\", \"pid\"\n"
		"  mem(ADDRESS,N)   N bytes of memory, as \"mem(rsi+rcx*8+16,32)\"\n"
		"  str(ADDRESS[,N]) a string, of 128 bytes at most or N\n"
		"Expressions are those of C over registers, arg0 to arg5, retval, cpu, "
		"pid, tid and\n"
		"symbols; u8 to u64 and s8 to s64 read memory; comm == \"bash\" compares "
		"strings.\n");
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

/* Splits "mem(ADDRESS,N)". *size stays if there is no N. Returns the address newly allocated. */
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
		usage_error(error, "\"%s\": mem(ADDRESS,N) needs a number of bytes", entry);
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

static bool add_entry(struct session *session, struct vms_probe *probe, const char *entry,
		      GError **error)
{
	struct vms_reg_part part;
	struct vms_entry made = { .kind = VMS_ENTRY_EXPRESSION, .expression = entry };
	if (is_call(entry, "mem("))
		return add_pointed(probe, entry, entry + strlen("mem("), VMS_ENTRY_BYTES, error);
	if (is_call(entry, "str("))
		return add_pointed(probe, entry, entry + strlen("str("), VMS_ENTRY_STRING, error);
	if (vms_arch_reg_part(vms_machine_arch(session->machine), entry, &part))
		made = (struct vms_entry) { .kind = VMS_ENTRY_REGISTER, .reg = entry };
	return vms_probe_add(probe, &made, 1, error);
}

static bool add_entries(struct session *session, struct vms_probe *probe, const char *entries,
			GError **error)
{
	while (entries) {
		const char *comma = flow_spec_find_outside(entries, ',', true);
		g_autofree char *entry =
			comma ? g_strndup(entries, (gsize)(comma - entries)) : g_strdup(entries);
		if (!*g_strstrip(entry)) {
			usage_error(error, "an entry is empty");
			return false;
		}
		if (!add_entry(session, probe, entry, error))
			return false;
		entries = comma ? comma + 1 : NULL;
	}
	return true;
}

struct vms_probe *flow_spec_probe(struct session *session, const char *entries,
				  const char *condition, GError **error)
{
	g_autoptr(vms_probe) probe = vms_probe_new(session->machine, session->guest, entries);
	if (!add_entries(session, probe, entries, error) ||
	    (condition && !vms_probe_set_condition(probe, condition, error)))
		return NULL;
	return g_steal_pointer(&probe);
}

/* ---- places ------------------------------------------------------------------------------ */

#define CALL 0U /* instead of enum vms_flow_moment: calls are followed */

/* Takes ":before", ":after", ":both" or ":call" off the end of WHERE. */
static bool take_moments(char *where, unsigned *moments, GError **error)
{
	static const struct choice choices[] = { { "before", VMS_FLOW_BEFORE },
						 { "after", VMS_FLOW_AFTER },
						 { "both", VMS_FLOW_BEFORE | VMS_FLOW_AFTER },
						 { "call", CALL },
						 { NULL } };
	int chosen = VMS_FLOW_BEFORE;
	char *colon = strchr(where, ':');
	if (colon)
		*colon = 0;
	if (!value_choose("what follows \":\"", colon ? colon + 1 : NULL, choices, &chosen, error))
		return false;
	*moments = (unsigned)chosen;
	return true;
}

/* What is collected where. */
struct wish {
	unsigned moments; /* enum vms_flow_moment, or CALL */
	struct vms_probe *probe;
	struct vms_probe *returned; /* of a call; or NULL */
};

static void clear_wish(struct wish *wish)
{
	vms_probe_unref(wish->probe);
	vms_probe_unref(wish->returned);
}

/* Makes the probes of "ENTRY,…[;ENTRY,…]", or of NULL. */
static bool make_probes(struct session *session, struct wish *wish, const char *entries,
			const struct flow_conditions *conditions, GError **error)
{
	const bool is_call = wish->moments == CALL;
	const char *semicolon =
		entries && is_call ? flow_spec_find_outside(entries, ';', true) : NULL;
	g_autofree char *at_call =
		semicolon ? g_strndup(entries, (gsize)(semicolon - entries)) : g_strdup(entries);
	if (conditions->at_return && !is_call) {
		usage_error(error, "--if-return is for calls: write WHERE:call");
		return false;
	}
	/* "vfs_read:call=;retval" collects nothing at the call. */
	wish->probe = flow_spec_probe(session, at_call && *g_strstrip(at_call) ? at_call : NULL,
				      conditions->at_place, error);
	if (wish->probe && is_call)
		wish->returned = flow_spec_probe(session, semicolon ? semicolon + 1 : "retval",
						 conditions->at_return, error);
	return wish->probe && (!is_call || wish->returned);
}

static bool add_place(struct vms_flow *flow, uint64_t va, const struct wish *wish, GError **error)
{
	return wish->moments == CALL
		       ? vms_flow_add_call(flow, va, wish->probe, wish->returned, error)
		       : vms_flow_add(flow, va, wish->moments, wish->probe, error);
}

/* Adds all functions that match. */
static bool add_matching(struct session *session, struct vms_flow *flow, const char *pattern,
			 const struct wish *wish, GError **error)
{
	g_autoptr(GArray) vas = functions_match(session, pattern, error);
	for (guint i = 0; vas && i < vas->len; i++)
		if (!add_place(flow, g_array_index(vas, uint64_t, i), wish, error))
			return false;
	return vas;
}

static bool add_places(struct session *session, struct vms_flow *flow, const char *where,
		       const struct wish *wish, GError **error)
{
	uint64_t va;
	if (functions_is_pattern(where))
		return add_matching(session, flow, where, wish, error);
	return session_address(session, where, &va, error) && add_place(flow, va, wish, error);
}

bool flow_spec_add(struct session *session, struct vms_flow *flow, const char *spec,
		   const struct flow_conditions *conditions, GError **error)
{
	const char *equals = flow_spec_find_outside(spec, '=', true);
	g_autofree char *where = equals ? g_strndup(spec, (gsize)(equals - spec)) : g_strdup(spec);
	struct wish wish = { 0 };
	if (!take_moments(g_strstrip(where), &wish.moments, error))
		return false;
	const bool done =
		make_probes(session, &wish, equals ? equals + 1 : NULL, conditions, error) &&
		add_places(session, flow, where, &wish, error);
	clear_wish(&wish);
	return done;
}
