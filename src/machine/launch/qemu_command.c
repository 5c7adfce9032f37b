/* SPDX-License-Identifier: MIT */
#include "machine/launch/qemu_command.h"

#include "machine/qemu/qemu_process.h"
#include <glib.h>

size_t vms_qemu_command_count_leading_words(const char *const *command)
{
	for (size_t i = 0; command[i]; i++) {
		g_autofree char *name = g_path_get_basename(command[i]);
		if (vms_host_process_is_qemu(name))
			return i + 1;
	}
	return 1;
}

char *vms_qemu_command_escape(const char *text)
{
	g_auto(GStrv) parts = g_strsplit(text, ",", -1);
	return g_strjoinv(",,", parts);
}
