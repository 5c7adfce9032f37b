/* SPDX-License-Identifier: MIT */
/*
 * Lines of /proc's texts, of any content.
 *
 * Covers: src/base/proc_text.c, src/machine/kvm/thread_call.c.
 */
#include "base/proc_text.h"
#include "machine/kvm/thread_call.h"
#include "machine/kvm/vcpus.h"
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
	if (vms_proc_parse_tcp(line, &tcp)) {
		g_assert_cmpuint(strlen(tcp.local), <, sizeof(tcp.local));
		g_assert_cmpuint(strlen(tcp.remote), <, sizeof(tcp.remote));
	}
	if (vms_proc_parse_unix(line, &entry))
		g_assert_true(entry.path > line && entry.path < end && *entry.path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autofree char *text = g_strndup((const char *)data, size);
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++)
		parse(*line);
	return 0;
}
