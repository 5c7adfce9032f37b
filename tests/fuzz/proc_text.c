/* SPDX-License-Identifier: MIT */
/*
 * Lines of /proc's texts, and the description of a tracepoint, of any content.
 *
 * Covers: src/base/proc_text.c, src/machine/kvm/areas.c, src/machine/kvm/thread_call.c,
 * src/sampler/host/switches.c.
 */
#include "base/proc_text.h"
#include "machine/kvm/areas.h"
#include "machine/kvm/thread_call.h"
#include "machine/kvm/vcpus.h"
#include "sampler/host/switches.h"
#include <glib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(char *line)
{
	const char *end = line + strlen(line);
	struct vms_proc_mapping mapping;
	struct vms_proc_unix entry;
	struct vms_proc_tcp tcp;
	int fd = -1;
	if (vms_proc_parse_mapping(line, &mapping)) {
		g_assert_cmphex(mapping.start, <, mapping.end);
		g_assert_true(mapping.name > line && mapping.name <= end);
	}
	if (vms_thread_call_parse(line, &fd) == VMS_THREAD_IN_GUEST)
		g_assert_cmpint(fd, >=, 0);
	g_assert_cmpint(vms_kvm_parse_thread_name(line), >=, -1);
	const char *field = vms_proc_find_field(line, 39);
	g_assert_true(!field || (field > line && field <= end));
	if (vms_proc_parse_turns(line))
		g_assert_nonnull(strchr(line, ' '));
	if (vms_proc_parse_tcp(line, &tcp)) {
		g_assert_cmpuint(strlen(tcp.local), <, sizeof(tcp.local));
		g_assert_cmpuint(strlen(tcp.remote), <, sizeof(tcp.remote));
	}
	if (vms_proc_parse_unix(line, &entry))
		g_assert_true(entry.path > line && entry.path < end && *entry.path);
}

/* All lines together, as a process's mappings. */
static void guess_maps(const char *text)
{
	g_autoptr(GArray) areas = vms_kvm_list_areas(text);
	g_autoptr(GArray) guesses = vms_kvm_list_guesses(areas);
	for (guint i = 0; i < guesses->len; i++) {
		const struct vms_kvm_guess *guess =
			&g_array_index(guesses, struct vms_kvm_guess, i);
		g_assert_cmpuint(guess->n, >, 0);
		g_assert_cmpuint(guess->n, <=, G_N_ELEMENTS(guess->places));
		for (unsigned j = 0; j < guess->n; j++)
			g_assert_cmpuint(guess->places[j].size, >, 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autofree char *text = g_strndup((const char *)data, size);
	struct vms_switches switches = { 0 };
	if (vms_switches_parse(text, &switches))
		vms_switches_state(&switches, data, size);
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	guess_maps(text);
	for (char **line = lines; *line; line++)
		parse(*line);
	return 0;
}
