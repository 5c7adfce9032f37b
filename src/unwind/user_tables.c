/* SPDX-License-Identifier: MIT */
#include "unwind/user_tables.h"
#include <glib.h>
#include <inttypes.h>
#include <vmscope/log.h>

#define FETCHES_LIMIT 16 /* of parts of one file, to find a row */

/* What is kept with a binary. */
struct tables {
	struct vms_binary *binary; /* which owns this */
	struct vms_cfi *cfi;
	gsize charged;	 /* atomic: bytes that count to the budget of all binaries */
	int is_told;	 /* atomic: the log has said what is missing */
	guint64 missing; /* offset in the file that could not be read last; only for the log */
};

static bool read_binary(void *data, uint64_t va, void *buf, size_t size)
{
	struct tables *tables = data;
	uint64_t offset;
	if (!vms_elf_image_offset(vms_binary_elf(tables->binary), va, &offset))
		return false;
	if (vms_binary_read_now(tables->binary, offset, buf, size))
		return true;
	tables->missing = offset;
	return false;
}

/* The section that a file without .eh_frame_hdr has instead, if it is in the file, or NULL. */
static const Elf64_Shdr *find_section(const struct vms_elf_image *elf)
{
	const Elf64_Shdr *section = vms_elf_image_section(elf, ".eh_frame");
	return section && section->sh_type != SHT_NOBITS ? section : NULL;
}

static void *make_tables(struct vms_binary *binary)
{
	const struct vms_elf_image *elf = vms_binary_elf(binary);
	const Elf64_Phdr *header = vms_elf_image_segment(elf, PT_GNU_EH_FRAME);
	const Elf64_Shdr *section = header ? NULL : find_section(elf);
	if (!header && !section)
		return NULL;
	const bool is_aarch64 = elf->machine == EM_AARCH64;
	struct tables *tables = g_new0(struct tables, 1);
	const struct vms_reader reader = { read_binary, tables };
	tables->binary = binary;
	tables->cfi = header ? vms_cfi_new(&reader, header->p_vaddr, header->p_filesz, is_aarch64)
			     : vms_cfi_new_without_header(&reader, section->sh_addr,
							  section->sh_size, is_aarch64);
	return tables;
}

static void free_tables(void *data)
{
	struct tables *tables = data;
	vms_cfi_free(tables->cfi);
	g_free(tables);
}

static bool is_of_arch(const struct vms_elf_image *elf, const struct vms_arch *arch)
{
	return elf->machine == EM_X86_64 ? arch == &vms_arch_x86_64
					 : elf->machine == EM_AARCH64 && arch == &vms_arch_aarch64;
}

static void tell_missing(struct tables *tables)
{
	if (g_atomic_int_compare_and_exchange(&tables->is_told, 0, 1))
		vms_log(VMS_LOG_INFO,
			"stacks of %s: its unwind table is not all in the guest's memory (offset "
			"0x%" PRIx64 " is missing)",
			vms_binary_path(tables->binary), tables->missing);
}

/* Finds a row. A file that has none yet gets none if there is no room for more tables. */
static enum vms_cfi_result find_row(struct vms_binary *binary, struct tables *tables, uint64_t va,
				    struct vms_cfi_row *ret)
{
	const gsize charged = __atomic_load_n(&tables->charged, __ATOMIC_RELAXED);
	if (charged == 0 && !vms_binary_has_room(binary))
		return VMS_CFI_MISSING;
	const enum vms_cfi_result result = vms_cfi_find(tables->cfi, va, ret);
	const gsize bytes = vms_cfi_bytes(tables->cfi);
	if (bytes > charged) {
		__atomic_store_n(&tables->charged, bytes, __ATOMIC_RELAXED);
		vms_binary_keep_bytes(binary, bytes - charged);
	}
	return result;
}

/* Finds a row without waiting. */
static enum vms_cfi_result find_now(struct vms_binary *binary, const struct vms_arch *arch,
				    uint64_t offset, struct vms_cfi_row *ret)
{
	const struct vms_elf_image *elf = vms_binary_elf(binary);
	uint8_t begin;
	uint64_t va;
	/* A file that was cut since it was mapped has lost its tables. */
	if (!elf && !vms_binary_read_now(binary, 0, &begin, sizeof(begin)))
		return VMS_CFI_MISSING;
	if (!elf || !is_of_arch(elf, arch) || !vms_elf_image_code_address(elf, offset, &va))
		return VMS_CFI_NONE;
	struct tables *tables = vms_binary_attachment(binary, make_tables, free_tables);
	if (!tables)
		return VMS_CFI_NONE;
	return find_row(binary, tables, va, ret);
}

enum vms_cfi_result vms_user_tables_find(struct vms_binary *binary, const struct vms_arch *arch,
					 uint64_t offset, bool waits, struct vms_cfi_row *ret)
{
	enum vms_cfi_result result = find_now(binary, arch, offset, ret);
	for (unsigned i = 0; result == VMS_CFI_MISSING && waits && i < FETCHES_LIMIT; i++) {
		if (!vms_binary_fetch(binary))
			break;
		result = find_now(binary, arch, offset, ret);
	}
	if (result == VMS_CFI_MISSING && vms_binary_elf(binary))
		tell_missing(vms_binary_attachment(binary, make_tables, free_tables));
	return result;
}
