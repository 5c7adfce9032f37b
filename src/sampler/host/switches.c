/* SPDX-License-Identifier: MIT */
#include "sampler/host/switches.h"
#include <stdio.h>
#include <string.h>
#include <vmscope/error.h>

static const char *const folders[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };

/* Gets the number behind the first `name` in a line. */
static bool get_number(const char *line, const char *name, unsigned *ret)
{
	const char *at = strstr(line, name);
	return at && sscanf(at + strlen(name), "%u", ret) == 1;
}

bool vms_switches_parse(const char *format, struct vms_switches *ret)
{
	unsigned number = 0;
	bool has_state = false;
	g_auto(GStrv) lines = g_strsplit(format, "\n", 100);
	for (char **line = lines; *line; line++) {
		if (g_str_has_prefix(*line, "ID:"))
			get_number(*line, "ID:", &number);
		else if (strstr(*line, " prev_state;"))
			has_state = get_number(*line, "offset:", &ret->state_offset) &&
				    get_number(*line, "size:", &ret->state_size) &&
				    (ret->state_size == 4 || ret->state_size == 8);
	}
	ret->tracepoint = number;
	return number && has_state;
}

/* Without the right to see addresses they are all 0. */
static void find_sleep_code(struct vms_switches *switches)
{
	static const char *const bounds[][2] = { { "__sched_text_start", "__sched_text_end" },
						 { "__lock_text_start", "__lock_text_end" } };
	g_autofree char *text = NULL;
	if (!g_file_get_contents("/proc/kallsyms", &text, NULL, NULL))
		return;
	for (size_t i = 0; i < G_N_ELEMENTS(bounds); i++) {
		uint64_t values[2] = { 0 };
		for (size_t j = 0; j < 2; j++) {
			g_autofree char *name = g_strdup_printf(" %s\n", bounds[i][j]);
			const char *at = strstr(text, name);
			while (at && at > text && at[-1] != '\n')
				at--;
			values[j] = at ? g_ascii_strtoull(at, NULL, 16) : 0;
		}
		switches->sleep_code[i].begin = values[0];
		switches->sleep_code[i].end = values[1];
	}
}

bool vms_switches_read(struct vms_switches *ret, GError **error)
{
	g_autofree char *text = NULL;
	*ret = (struct vms_switches) { 0 };
	for (size_t i = 0; !text && i < G_N_ELEMENTS(folders); i++) {
		g_autofree char *path =
			g_strdup_printf("%s/events/sched/sched_switch/format", folders[i]);
		g_file_get_contents(path, &text, NULL, NULL);
	}
	if (text && vms_switches_parse(text, ret)) {
		find_sleep_code(ret);
		return true;
	}
	g_set_error(
		error, VMS_ERROR, text ? VMS_ERROR_UNSUPPORTED : VMS_ERROR_PERMISSION,
		text ? "the tracepoint sched:sched_switch of this kernel has another form: "
		       "record without --wall"
		     : "cannot read the tracepoint sched:sched_switch, which tells when threads "
		       "wait: that takes root, and tracefs at %s",
		folders[0]);
	return false;
}

/* Bits as include/trace/events/sched.h has them since 4.14; that beyond them is a preemption. */
char vms_switches_state(const struct vms_switches *switches, const void *raw, size_t size)
{
	uint64_t state = 0;
	if (switches->state_offset > size || switches->state_size > size - switches->state_offset)
		return '?';
	memcpy(&state, (const uint8_t *)raw + switches->state_offset, switches->state_size);
	const int bit = g_bit_nth_lsf(state & 0xff, -1);
	const char letter = bit < 0 ? 'R' : "SDTtXZPI"[bit];
	return letter == 'X' || letter == 'Z' ? 0 : letter;
}

bool vms_switches_is_sleep_code(const struct vms_switches *switches, uint64_t pc)
{
	for (size_t i = 0; i < G_N_ELEMENTS(switches->sleep_code); i++)
		if (pc >= switches->sleep_code[i].begin && pc < switches->sleep_code[i].end)
			return true;
	return false;
}
