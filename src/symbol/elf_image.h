/* SPDX-License-Identifier: MIT */
/*
 * The headers of a 64-bit little-endian ELF file, read from any source (file_source.h). The file
 * may lie, and parts of it may be missing: what is not there is as if the file did not have it.
 */
#pragma once

#include "base/file_source.h"
#include <elf.h>
#include <vmscope/error.h>

#define VMS_ELF_SEGMENTS_LIMIT 64 /* real files have about a dozen */
#define VMS_ELF_SECTIONS_LIMIT 4096
#define VMS_BUILD_ID_MAX       64 /* bytes; usually 20 */

struct vms_elf_image {
	uint16_t machine; /* EM_X86_64 … */
	uint16_t type;	  /* ET_EXEC, ET_DYN … */
	unsigned n_segments;
	Elf64_Phdr segments[VMS_ELF_SEGMENTS_LIMIT];
	unsigned n_sections; /* 0 if the section headers are missing */
	Elf64_Shdr *sections;
	char *section_names; /* NUL-terminated; NULL if they are missing */
	size_t section_names_size;
	char build_id[2 * VMS_BUILD_ID_MAX + 1]; /* hexadecimal digits; "" if unknown */
};

/* Reads the headers. Errors: MALFORMED (no such ELF file), UNREADABLE (the begin is missing). */
bool vms_elf_image_read(const struct vms_file_source *source, struct vms_elf_image *ret,
			GError **error);
void vms_elf_image_clear(struct vms_elf_image *image);

/* Finds the first segment of a type (PT_DYNAMIC, PT_GNU_EH_FRAME …), or NULL. */
const Elf64_Phdr *vms_elf_image_segment(const struct vms_elf_image *image, uint32_t type);
/* Finds a section by its name, or NULL. One without bytes in the file counts, too. */
const Elf64_Shdr *vms_elf_image_section(const struct vms_elf_image *image, const char *name);
/*
 * Converts an address of the file (without a bias) to its offset in the file. False if it is in no
 * loaded segment's bytes. A page of a file may be loaded twice, at different addresses: so the way
 * back needs to know which one is meant.
 */
bool vms_elf_image_offset(const struct vms_elf_image *image, uint64_t address, uint64_t *ret);
/* Converts an offset in the file to the address of code there. */
bool vms_elf_image_code_address(const struct vms_elf_image *image, uint64_t offset, uint64_t *ret);
