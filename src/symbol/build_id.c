/* SPDX-License-Identifier: MIT */
#include "symbol/build_id.h"
#include <elfutils/libdwelf.h>
#include <glib.h>

char *vms_build_id_read(int fd)
{
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	const void *bytes;
	const ssize_t size = elf ? dwelf_elf_gnu_build_id(elf, &bytes) : 0;
	g_autoptr(GString) text = g_string_new(NULL);
	for (ssize_t i = 0; i < MIN(size, 64); i++)
		g_string_append_printf(text, "%02x", ((const guint8 *)bytes)[i]);
	elf_end(elf);
	return text->len ? g_strdup(text->str) : NULL;
}
