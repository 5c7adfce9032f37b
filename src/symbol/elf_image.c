/* SPDX-License-Identifier: MIT */
#include "symbol/elf_image.h"
#include "base/bytes.h"
#include <vmscope/error.h>

#if G_BYTE_ORDER != G_LITTLE_ENDIAN
#error "headers are used as they lie in the file"
#endif

#define SECTION_NAMES_LIMIT (1u << 20)

static bool check_header(const Elf64_Ehdr *header, GError **error)
{
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
	    header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
	    header->e_phentsize == sizeof(Elf64_Phdr))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED, "not a 64-bit ELF file");
	return false;
}

/* ---- sections --------------------------------------------------------- */

static void read_section_names(const struct vms_file_source *source, struct vms_elf_image *image,
			       unsigned index)
{
	if (index >= image->n_sections)
		return;
	const Elf64_Shdr *names = &image->sections[index];
	if (names->sh_type != SHT_STRTAB || names->sh_size == 0 ||
	    names->sh_size > SECTION_NAMES_LIMIT)
		return;
	image->section_names = g_malloc0(names->sh_size + 1);
	image->section_names_size = names->sh_size;
	if (!vms_file_source_read(source, names->sh_offset, image->section_names, names->sh_size))
		g_clear_pointer(&image->section_names, g_free);
}

static void read_sections(const struct vms_file_source *source, const Elf64_Ehdr *header,
			  struct vms_elf_image *image)
{
	if (header->e_shoff == 0 || header->e_shentsize != sizeof(Elf64_Shdr) ||
	    header->e_shnum == 0 || header->e_shnum > VMS_ELF_SECTIONS_LIMIT)
		return;
	const size_t size = header->e_shnum * sizeof(Elf64_Shdr);
	image->sections = g_malloc(size);
	if (!vms_file_source_read(source, header->e_shoff, image->sections, size)) {
		g_clear_pointer(&image->sections, g_free);
		return;
	}
	image->n_sections = header->e_shnum;
	read_section_names(source, image, header->e_shstrndx);
}

/* ---- the image -------------------------------------------------------- */

bool vms_elf_image_read(const struct vms_file_source *source, struct vms_elf_image *ret,
			GError **error)
{
	Elf64_Ehdr header;
	*ret = (struct vms_elf_image) { 0 };
	if (!vms_file_source_read(source, 0, &header, sizeof(header))) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "the begin of the file is not in memory");
		return false;
	}
	if (!check_header(&header, error))
		return false;
	ret->machine = header.e_machine;
	ret->type = header.e_type;
	ret->n_segments = MIN(header.e_phnum, VMS_ELF_SEGMENTS_LIMIT);
	if (!vms_file_source_read(source, header.e_phoff, ret->segments,
				  ret->n_segments * sizeof(ret->segments[0]))) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "the program headers are not in memory");
		return false;
	}
	vms_build_id_find(source, ret->build_id);
	read_sections(source, &header, ret);
	return true;
}

void vms_elf_image_clear(struct vms_elf_image *image)
{
	g_clear_pointer(&image->sections, g_free);
	g_clear_pointer(&image->section_names, g_free);
	image->n_sections = 0;
}

const Elf64_Phdr *vms_elf_image_segment(const struct vms_elf_image *image, uint32_t type)
{
	for (unsigned i = 0; i < image->n_segments; i++)
		if (image->segments[i].p_type == type)
			return &image->segments[i];
	return NULL;
}

const Elf64_Shdr *vms_elf_image_section(const struct vms_elf_image *image, const char *name)
{
	for (unsigned i = 0; image->section_names && i < image->n_sections; i++) {
		const uint32_t at = image->sections[i].sh_name;
		if (at < image->section_names_size && strcmp(image->section_names + at, name) == 0)
			return &image->sections[i];
	}
	return NULL;
}

bool vms_elf_image_offset(const struct vms_elf_image *image, uint64_t address, uint64_t *ret)
{
	for (unsigned i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *segment = &image->segments[i];
		if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
		    address - segment->p_vaddr >= segment->p_filesz)
			continue;
		*ret = address - segment->p_vaddr + segment->p_offset;
		return true;
	}
	return false;
}

bool vms_elf_image_code_address(const struct vms_elf_image *image, uint64_t offset, uint64_t *ret)
{
	for (unsigned i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *segment = &image->segments[i];
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
		    offset < segment->p_offset || offset - segment->p_offset >= segment->p_filesz)
			continue;
		*ret = offset - segment->p_offset + segment->p_vaddr;
		return true;
	}
	return false;
}
