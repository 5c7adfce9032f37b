/* SPDX-License-Identifier: MIT */
#include "symbol/build_id.h"
#include <elfutils/libdwelf.h>
#include <glib.h>
#include <sys/stat.h>

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

uint64_t vms_file_stamp(int fd)
{
	struct stat status;
	if (fstat(fd, &status) != 0)
		return 0;
	const uint64_t facts[] = {
		status.st_dev,
		status.st_ino,
		(uint64_t)status.st_size,
		(uint64_t)status.st_mtim.tv_sec,
		(uint64_t)status.st_mtim.tv_nsec,
		(uint64_t)status.st_ctim.tv_sec,
		(uint64_t)status.st_ctim.tv_nsec,
	};
	uint64_t stamp = UINT64_C(0xcbf29ce484222325); /* FNV-1a, by words */
	for (size_t i = 0; i < G_N_ELEMENTS(facts); i++)
		stamp = (stamp ^ facts[i]) * UINT64_C(0x100000001b3);
	return MAX(stamp, 1);
}
