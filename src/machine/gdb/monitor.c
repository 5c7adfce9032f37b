/* SPDX-License-Identifier: MIT */
/* Commands of the monitor behind a stub. */
#include "machine/gdb/gdb-private.h"

#include "base/text.h"
#include <string.h>

/* Appends the text of a packet "O…", which is in hexadecimal. */
static bool append_console_text(struct vms_gdb *gdb, GString *text, GError **error)
{
	const GString *payload = gdb->payload;
	if (payload->len % 2 == 0 || text->len + payload->len / 2 > VMS_GDB_TEXT_MAX)
		return vms_gdb_fail_connection(gdb, "its monitor's text is malformed or too long",
					       error);
	for (size_t i = 1; i < payload->len; i += 2) {
		uint64_t byte;
		if (!vms_gdb_parse_register(payload->str + i, 1, &byte))
			return vms_gdb_fail_connection(gdb, "its monitor's text is not hexadecimal",
						       error);
		g_string_append_c(text, (char)byte);
	}
	return true;
}

/* Collects the text of the monitor from the packet that was received, and those after it. */
static char *collect_text(struct vms_gdb *gdb, uint64_t deadline_ns, GError **error)
{
	g_autoptr(GString) text = g_string_new(NULL);
	while (gdb->payload->str[0] == 'O' && gdb->payload->str[1] != 'K') {
		if (!append_console_text(gdb, text, error) ||
		    !vms_gdb_receive_packet(gdb, NULL, deadline_ns, error))
			return NULL;
	}
	if (!vms_gdb_is_ok(gdb)) {
		vms_gdb_fail(gdb, VMS_ERROR_UNSUPPORTED,
			     "it has no monitor (qRcmd), or its monitor refuses the command",
			     error);
		return NULL;
	}
	return vms_text_clean_lines(text->str);
}

char *vms_gdb_receive_text(struct vms_gdb *gdb, uint64_t deadline_ns, GError **error)
{
	return vms_gdb_receive_answer(gdb, deadline_ns, error)
		       ? collect_text(gdb, deadline_ns, error)
		       : NULL;
}

static char *encode_command(const char *command)
{
	GString *request = g_string_new("qRcmd,");
	for (const char *c = command; *c; c++)
		g_string_append_printf(request, "%02x", (uint8_t)*c);
	return g_string_free(request, FALSE);
}

void vms_gdb_append_command(GString *row, const char *command)
{
	g_autofree char *request = encode_command(command);
	vms_gdb_append_packet(row, request);
}

char *vms_gdb_monitor(struct vms_gdb *gdb, const char *command, GError **error)
{
	g_autofree char *request = encode_command(command);
	if (!vms_gdb_request(gdb, request, error))
		return NULL;
	return collect_text(gdb, vms_stream_deadline(&gdb->stream), error);
}
