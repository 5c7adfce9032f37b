/* SPDX-License-Identifier: MIT */
#include "self_section.h"
#include <fcntl.h>
#include <gelf.h>
#include <glib.h>
#include <string.h>
#include <unistd.h>

uint8_t *self_section(const char *name, size_t *size)
{
	elf_version(EV_CURRENT);
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	g_assert_cmpint(fd, >=, 0);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	size_t strings;
	g_assert_cmpint(elf_getshdrstrndx(elf, &strings), ==, 0);
	uint8_t *bytes = NULL;
	for (Elf_Scn *section = NULL; !bytes && (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		g_assert_nonnull(gelf_getshdr(section, &header));
		if (strcmp(elf_strptr(elf, strings, header.sh_name), name) != 0)
			continue;
		const Elf_Data *data = elf_getdata(section, NULL);
		bytes = g_memdup2(data->d_buf, data->d_size);
		*size = data->d_size;
	}
	elf_end(elf);
	close(fd);
	g_assert_nonnull(bytes);
	return bytes;
}
