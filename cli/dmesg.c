/* SPDX-License-Identifier: MIT */
/* vmscope dmesg: shows the guest kernel's log. */
#include "commands.h"
#include <string.h>

struct output {
	GString *text;
	struct vms_table *table;
};

/* Adds a record as dmesg prints it: the time before each line. An empty record has one line. */
static void add_record(uint64_t time_ns, unsigned level, const char *text, void *data)
{
	struct output *output = data;
	uint64_t us = time_ns / 1000;
	vms_table_add(output->table, time_ns, (uint64_t)level, text);
	for (const char *line = text, *end; line; line = *end ? end + 1 : NULL) {
		end = strchrnul(line, '\n');
		g_string_append_printf(output->text,
				       "[%5" G_GUINT64_FORMAT ".%06" G_GUINT64_FORMAT "] %.*s\n",
				       us / 1000000, us % 1000000, (int)(end - line), line);
	}
}

static bool run_dmesg(struct session *session, int argc, char **argv, GError **error)
{
	static const struct vms_column columns[] = { { "time_ns", VMS_COLUMN_NUMBER },
						     { "level", VMS_COLUMN_NUMBER },
						     { "text", VMS_COLUMN_TEXT },
						     { NULL } };
	if (!session_parse(session, NULL, &argc, &argv, 0, 0, error) ||
	    !session_open_guest(session, error) || !vms_machine_observe(session->machine, error))
		return false;
	g_autoptr(vms_table) table = vms_table_new(columns);
	struct output output = { session->json ? g_string_new(NULL) : session->out, table };
	bool all = vms_guest_dmesg(session->guest, add_record, &output, &session->loss);
	if (session->json) {
		if (all || output.text->len > 0)
			session_table(session, table);
		g_string_free(output.text, TRUE);
	}
	return vms_machine_release(session->machine, VMS_ALL_VCPUS, error);
}

const struct command command_dmesg = {
	.name = "dmesg",
	.arguments = "",
	.summary = "The guest kernel's log",
	.options = SESSION_TARGET | SESSION_JSON,
	.run = run_dmesg,
};
