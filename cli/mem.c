/* SPDX-License-Identifier: MIT */
/* vmscope mem: shows guest memory in hexadecimal. */
#include "commands.h"
#include "values.h"

#define DEFAULT_LENGTH 256
#define MAX_LENGTH     (UINT64_C(256) << 20)
#define LINE	       16

/* Adds one line: the bytes in hexadecimal with a gap in the middle, then as text. */
static void add_line(GString *out, uint64_t address, const uint8_t *bytes, size_t n)
{
	g_string_append_printf(out, "%016" G_GINT64_MODIFIER "x ", address);
	for (size_t i = 0; i < LINE; i++) {
		if (i < n)
			g_string_append_printf(out, "%s%02x", i == LINE / 2 ? "  " : " ", bytes[i]);
		else
			g_string_append(out, i == LINE / 2 ? "    " : "   ");
	}
	g_string_append(out, "  |");
	for (size_t i = 0; i < n; i++)
		g_string_append_c(out, g_ascii_isprint(bytes[i]) ? (char)bytes[i] : '.');
	g_string_append(out, "|\n");
}

static void add_row(struct vms_table *table, uint64_t address, const uint8_t *bytes, size_t n)
{
	char hex[2 * LINE + 1];
	for (size_t i = 0; i < n; i++)
		g_snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	vms_table_add(table, address, hex);
}

static void add_lines(struct session *session, uint64_t address, const uint8_t *bytes, size_t size)
{
	static const struct vms_column columns[] = { { "address", VMS_COLUMN_ADDRESS },
						     { "bytes", VMS_COLUMN_TEXT },
						     { NULL } };
	g_autoptr(vms_table) table = vms_table_new(columns);
	for (size_t i = 0; i < size; i += LINE) {
		if (session->json)
			add_row(table, address + i, bytes + i, MIN(LINE, size - i));
		else
			add_line(session->out, address + i, bytes + i, MIN(LINE, size - i));
	}
	if (session->json)
		session_table(session, table);
}

static bool parse_length(const char *text, uint64_t *ret, GError **error)
{
	if (value_in_c(text, ret) && *ret > 0 && *ret <= MAX_LENGTH)
		return true;
	usage_error(error, "LENGTH %s: it must be from 1 to %" G_GUINT64_FORMAT " bytes", text,
		    MAX_LENGTH);
	return false;
}

static bool run_mem(struct session *session, int argc, char **argv, GError **error)
{
	gboolean physical = FALSE, raw = FALSE;
	g_autofree char *cpu = NULL;
	const GOptionEntry options[] = {
		{ "physical", 0, 0, G_OPTION_ARG_NONE, &physical, "ADDRESS is guest-physical",
		  NULL },
		{ "cpu", 0, 0, G_OPTION_ARG_STRING, &cpu, "Use the page tables of vCPU N", "N" },
		{ "raw", 0, 0, G_OPTION_ARG_NONE, &raw, "Write the bytes themselves", NULL },
		{ NULL }
	};
	unsigned vcpu = 0;
	uint64_t address, length = DEFAULT_LENGTH;
	if (!session_parse(session, options, &argc, &argv, 1, 2, error))
		return false;
	if (raw && session->json) {
		usage_error(error, "give one of --raw and --json");
		return false;
	}
	if (physical && cpu) {
		usage_error(error, "give one of --physical and --cpu: all vCPUs have the same "
				   "guest-physical memory");
		return false;
	}
	if ((argc > 2 && !parse_length(argv[2], &length, error)) ||
	    !session_open_guest(session, error) || !session_vcpu(session, cpu, &vcpu, error) ||
	    !session_address(session, argv[1], &address, error))
		return false;
	g_autofree uint8_t *bytes = g_malloc(length);
	size_t n =
		session_read_first(session, physical, vcpu, address, bytes, length, &session->loss);
	if (n == 0) {
		g_propagate_error(error, g_steal_pointer(&session->loss));
		return false;
	}
	if (raw)
		g_string_append_len(session->out, (const char *)bytes, (gssize)n);
	else
		add_lines(session, address, bytes, n);
	return true;
}

const struct command command_mem = {
	.name = "mem",
	.arguments = "ADDRESS|SYMBOL [LENGTH]",
	.summary = "Guest memory in hexadecimal",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON,
	.run = run_mem,
};
