/* SPDX-License-Identifier: MIT */
#include "symbol/go_functions.h"
#include "symbol/file_table.h"
#include <string.h>

#define TABLE_LIMIT	  (UINT64_C(64) << 20) /* bytes of functions, and of names */
#define FUNCTIONS_LIMIT	  (UINT64_C(1) << 20)
#define RELOCATIONS_LIMIT (UINT64_C(64) << 20) /* bytes */
#define NAME_LIMIT	  4096
#define MAGIC_1_18	  0xfffffff0u
#define MAGIC_1_20	  0xfffffff1u

/* The begin of the table (runtime.pcHeader), of programs with addresses of 64 bits. */
struct go_header {
	uint32_t magic;
	uint8_t pad[2], instruction_step, address_size;
	uint64_t n_functions, n_files;
	uint64_t text;					       /* address; moved by relocations */
	uint64_t names, units, files, instructions, functions; /* offsets in the table */
};

/* A line of the list of functions. */
struct go_line {
	uint32_t entry; /* address, from the begin of the text */
	uint32_t at;	/* of what is known of it, in the part of functions */
};

static const Elf64_Shdr *find_section(const struct vms_elf_image *elf)
{
	const Elf64_Shdr *section = vms_elf_image_section(elf, ".gopclntab");
	if (!section) /* of a program that can be moved */
		section = vms_elf_image_section(elf, ".data.rel.ro.gopclntab");
	return section && section->sh_type == SHT_PROGBITS ? section : NULL;
}

bool vms_go_has_functions(const struct vms_elf_image *elf)
{
	return find_section(elf) != NULL;
}

static bool read_header(const struct vms_file_source *source, const Elf64_Shdr *section,
			struct go_header *ret)
{
	return section->sh_size >= sizeof(*ret) &&
	       vms_file_source_read(source, section->sh_offset, ret, sizeof(*ret)) &&
	       (ret->magic == MAGIC_1_18 || ret->magic == MAGIC_1_20) && ret->address_size == 8 &&
	       ret->n_functions > 0 && ret->n_functions <= FUNCTIONS_LIMIT &&
	       ret->names < ret->units && ret->units <= section->sh_size &&
	       ret->functions < section->sh_size && ret->units - ret->names <= TABLE_LIMIT &&
	       section->sh_size - ret->functions <= TABLE_LIMIT;
}

/* Finds what the dynamic loader adds the bias to and writes to an address. */
static bool find_relocated(const struct vms_file_source *source, const struct vms_elf_image *elf,
			   uint64_t address, uint64_t *ret)
{
	const Elf64_Shdr *section = vms_elf_image_section(elf, ".rela.dyn");
	struct vms_file_table table;
	Elf64_Rela relocation;
	bool found = false;
	if (!section || section->sh_type != SHT_RELA || section->sh_size > RELOCATIONS_LIMIT)
		return false;
	vms_file_table_read(source, section->sh_offset, section->sh_size, &table);
	for (uint64_t at = 0; table.bytes && !found && at + sizeof(relocation) <= table.size &&
			      vms_budget_step(source->budget, 1);
	     at += sizeof(relocation)) {
		memcpy(&relocation, table.bytes + at, sizeof(relocation));
		found = relocation.r_offset == address && relocation.r_addend != 0;
	}
	*ret = (uint64_t)relocation.r_addend;
	vms_file_table_clear(&table);
	return found;
}

/* Finds the address of the text, from which those of functions count. */
static bool find_text(const struct vms_file_source *source, const struct vms_elf_image *elf,
		      const Elf64_Shdr *section, const struct go_header *header, uint64_t *ret)
{
	const Elf64_Shdr *text = vms_elf_image_section(elf, ".text");
	*ret = header->text;
	if (*ret != 0 ||
	    find_relocated(source, elf, section->sh_addr + offsetof(struct go_header, text), ret))
		return true;
	*ret = text ? text->sh_addr : 0;
	return text;
}

static bool get_line(const struct vms_file_table *functions, uint64_t i, struct go_line *ret)
{
	if (!vms_file_table_has(functions, i * sizeof(*ret), sizeof(*ret)))
		return false;
	memcpy(ret, functions->bytes + i * sizeof(*ret), sizeof(*ret));
	return true;
}

static const char *get_name(const struct vms_file_table *functions,
			    const struct vms_file_table *names, const struct go_line *line)
{
	uint32_t name; /* follows the entry */
	const uint64_t at = (uint64_t)line->at + sizeof(line->entry);
	if (!vms_file_table_has(functions, at, sizeof(name)))
		return NULL;
	memcpy(&name, functions->bytes + at, sizeof(name));
	return vms_file_table_text(names, name, NAME_LIMIT);
}

void vms_go_functions_each(const struct vms_file_source *source, const struct vms_elf_image *elf,
			   void (*each)(const char *name, uint64_t address, uint64_t size,
					void *data),
			   void *data)
{
	const Elf64_Shdr *section = find_section(elf);
	struct vms_file_table functions, names;
	struct go_header header;
	uint64_t text;
	if (!section || !read_header(source, section, &header) ||
	    !find_text(source, elf, section, &header, &text))
		return;
	vms_file_table_read(source, section->sh_offset + header.functions,
			    section->sh_size - header.functions, &functions);
	vms_file_table_read(source, section->sh_offset + header.names, header.units - header.names,
			    &names);
	for (uint64_t i = 0; i < header.n_functions && vms_budget_step(source->budget, 1); i++) {
		struct go_line line;
		uint32_t end; /* the next function's entry; half a line behind the last one */
		if (!get_line(&functions, i, &line) ||
		    !vms_file_table_has(&functions, (i + 1) * sizeof(line), sizeof(end)))
			continue;
		memcpy(&end, functions.bytes + (i + 1) * sizeof(line), sizeof(end));
		const char *name = get_name(&functions, &names, &line);
		if (name && end > line.entry)
			each(name, text + line.entry, end - line.entry, data);
	}
	vms_file_table_clear(&functions);
	vms_file_table_clear(&names);
}
