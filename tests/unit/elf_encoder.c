/* SPDX-License-Identifier: MIT */
#include "elf_encoder.h"
#include <elf.h>
#include <glib.h>
#include <string.h>

#define NAME_SIZE 64

void elf_encoder_write(const char *path, const char *function, uint64_t va, uint64_t size)
{
	static const char sections[] = "\0.text\0.symtab\0.strtab";
	struct {
		Elf64_Ehdr header;
		Elf64_Phdr segment;
		Elf64_Shdr section[4];
		Elf64_Sym symbol[2];
		char names[sizeof(sections) + NAME_SIZE];
	} file = {
		.header = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				     EV_CURRENT },
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_phoff = sizeof(file.header),
			.e_shoff = offsetof(__typeof__(file), section),
			.e_ehsize = sizeof(file.header),
			.e_phentsize = sizeof(file.segment),
			.e_phnum = 1,
			.e_shentsize = sizeof(file.section[0]),
			.e_shnum = G_N_ELEMENTS(file.section),
			.e_shstrndx = 3,
		},
		.segment = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = va + size,
			     .p_memsz = va + size },
		.section[1] = { .sh_name = 1, .sh_type = SHT_NOBITS,
				.sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_size = va + size },
		.section[2] = { .sh_name = 7, .sh_type = SHT_SYMTAB,
				.sh_offset = offsetof(__typeof__(file), symbol),
				.sh_size = sizeof(file.symbol), .sh_link = 3, .sh_info = 1,
				.sh_entsize = sizeof(file.symbol[0]) },
		.section[3] = { .sh_name = 15, .sh_type = SHT_STRTAB,
				.sh_offset = offsetof(__typeof__(file), names),
				.sh_size = sizeof(file.names) },
		.symbol[1] = { .st_name = sizeof(sections),
			       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1,
			       .st_value = va, .st_size = size },
	};
	g_autoptr(GError) error = NULL;
	memcpy(file.names, sections, sizeof(sections));
	g_strlcpy(file.names + sizeof(sections), function, NAME_SIZE);
	g_file_set_contents(path, (const char *)&file, sizeof(file), &error);
	g_assert_no_error(error);
}
