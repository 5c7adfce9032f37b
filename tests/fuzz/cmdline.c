/* SPDX-License-Identifier: MIT */
/*
 * The command line of a process that says it is QEMU; arguments end by NUL.
 *
 * Covers: src/machine/qemu/cmdline.c.
 */
#include "machine/qemu/cmdline.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autofree char *text = g_strndup("", size);
	g_autoptr(GPtrArray) args = g_ptr_array_new();
	struct vms_cmdline cmdline;
	memcpy(text, data, size);
	for (size_t at = 0; at < size; at += strlen(text + at) + 1)
		g_ptr_array_add(args, text + at);
	g_ptr_array_add(args, NULL);
	vms_cmdline_parse((char **)args->pdata, &cmdline);
	vms_cmdline_clear(&cmdline);
	return 0;
}
