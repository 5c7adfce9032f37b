/* SPDX-License-Identifier: MIT */
/*
 * Reads core files with memory page by page, compressed. kdump_format.h describes the layout. This
 * file reads the headers and finds pages: bitmaps lead to the descriptor of a page
 * (kdump_bitmap.c), and the descriptor to its data (kdump_page.c).
 */
#include "base/text.h"
#include "machine/core/core_engine.h"
#include "machine/core/kdump_bitmap.h"
#include "machine/core/kdump_page.h"
#include "machine/core/vmscope_note.h"

#include <elf.h>

#define RANGES_MAX     (1U << 20)
#define CHECKED_PAGES  UINT64_C(65536) /* descriptors that are checked when the file is opened */
#define OLD_SIGNATURE  "DISKDUMP"
#define SIGNATURE_SIZE 8

struct vms_kdump {
	struct vms_kdump_bitmaps bitmaps;
	struct vms_kdump_pages *pages;
	uint64_t block_size;
	unsigned block_shift;
	uint64_t descriptors; /* offset in the file */
};

static bool has_signature(const struct vms_core_file *file, const char *signature)
{
	char found[SIGNATURE_SIZE];
	return vms_core_file_read(file, 0, found, sizeof(found)) &&
	       memcmp(found, signature, sizeof(found)) == 0;
}

bool vms_core_kdump_is(const struct vms_core_file *file)
{
	return has_signature(file, VMS_KDUMP_SIGNATURE) || has_signature(file, OLD_SIGNATURE);
}

/* ---- headers ---------------------------------------------------------- */

static bool read_header(const struct vms_core_machine *core, struct vms_kdump_header *ret,
			GError **error)
{
	if (has_signature(core->file, OLD_SIGNATURE))
		return vms_core_refuse(
			core, VMS_ERROR_UNSUPPORTED, error,
			"it is a diskdump file, the predecessor of kdump; use crash");
	if (!vms_core_file_read(core->file, 0, ret, sizeof(*ret)))
		return vms_core_refuse(core, VMS_ERROR_MALFORMED, error,
				       "it ends within its kdump header at offset 0");
	ret->version = GUINT32_FROM_LE(ret->version);
	ret->status = GUINT32_FROM_LE(ret->status);
	ret->block_size = GUINT32_FROM_LE(ret->block_size);
	ret->sub_header_blocks = GUINT32_FROM_LE(ret->sub_header_blocks);
	ret->bitmap_blocks = GUINT32_FROM_LE(ret->bitmap_blocks);
	ret->max_mapnr_32 = GUINT32_FROM_LE(ret->max_mapnr_32);
	ret->n_cpus = GUINT32_FROM_LE(ret->n_cpus);
	if (ret->version < 1 || ret->version > VMS_KDUMP_VERSION)
		return vms_core_refuse(core, VMS_ERROR_UNSUPPORTED, error,
				       "its kdump header has version %u; supported are 1 to %u, of "
				       "little-endian machines",
				       ret->version, VMS_KDUMP_VERSION);
	if (ret->block_size < VMS_KDUMP_BLOCK_MIN || ret->block_size > VMS_KDUMP_BLOCK_MAX ||
	    (ret->block_size & (ret->block_size - 1)))
		return vms_core_refuse(
			core, VMS_ERROR_MALFORMED, error,
			"its kdump header (of a 64-bit machine?) has a block size of %u at "
			"offset %zu; it must be a power of two from %u to %u",
			ret->block_size, G_STRUCT_OFFSET(struct vms_kdump_header, block_size),
			VMS_KDUMP_BLOCK_MIN, VMS_KDUMP_BLOCK_MAX);
	return true;
}

/* Reads the sub-header. Sets fields that the file's version does not have to 0. */
static bool read_sub_header(const struct vms_core_machine *core,
			    const struct vms_kdump_header *header, struct vms_kdump_sub_header *ret,
			    GError **error)
{
	static const size_t sizes[VMS_KDUMP_VERSION + 1] = {
		[1] = G_STRUCT_OFFSET(struct vms_kdump_sub_header, split),
		[2] = G_STRUCT_OFFSET(struct vms_kdump_sub_header, vmcoreinfo),
		[3] = G_STRUCT_OFFSET(struct vms_kdump_sub_header, notes),
		[4] = G_STRUCT_OFFSET(struct vms_kdump_sub_header, eraseinfo),
		[5] = G_STRUCT_OFFSET(struct vms_kdump_sub_header, start_pfn),
		[6] = sizeof(struct vms_kdump_sub_header),
	};
	*ret = (struct vms_kdump_sub_header) { 0 };
	if (!vms_core_file_read(core->file, header->block_size, ret, sizes[header->version]))
		return vms_core_refuse(core, VMS_ERROR_MALFORMED, error,
				       "it ends within its kdump sub-header at offset %u",
				       header->block_size);
	ret->dump_level = GUINT32_FROM_LE(ret->dump_level);
	ret->vmcoreinfo = GUINT64_FROM_LE(ret->vmcoreinfo);
	ret->vmcoreinfo_size = GUINT64_FROM_LE(ret->vmcoreinfo_size);
	ret->notes = GUINT64_FROM_LE(ret->notes);
	ret->notes_size = GUINT64_FROM_LE(ret->notes_size);
	ret->max_mapnr =
		header->version < 6 ? header->max_mapnr_32 : GUINT64_FROM_LE(ret->max_mapnr);
	if (ret->split)
		return vms_core_refuse(
			core, VMS_ERROR_UNSUPPORTED, error,
			"it is one file of a dump that was split into several; join them with "
			"`makedumpfile --reassemble`");
	return true;
}

/* Finds the architecture by the size of NT_PRSTATUS, which is the first note. NULL if unknown. */
static const struct vms_core_arch *find_arch_by_notes(const struct vms_core_machine *core,
						      const struct vms_kdump_sub_header *sub)
{
	static const uint16_t machines[] = { EM_X86_64, EM_AARCH64 };
	Elf64_Nhdr note;

	if (sub->notes_size < sizeof(note) ||
	    !vms_core_file_read(core->file, sub->notes, &note, sizeof(note)) ||
	    GUINT32_FROM_LE(note.n_type) != NT_PRSTATUS)
		return NULL;
	for (unsigned i = 0; i < G_N_ELEMENTS(machines); i++) {
		const struct vms_core_arch *arch = vms_core_arch_of_elf(machines[i]);
		if (arch && arch->notes[VMS_NOTE_PRSTATUS].size == GUINT32_FROM_LE(note.n_descsz))
			return arch;
	}
	return NULL;
}

static bool find_arch(struct vms_core_machine *core, const struct vms_kdump_header *header,
		      const struct vms_kdump_sub_header *sub, GError **error)
{
	g_autofree char *name = g_strndup(header->utsname.machine, VMS_KDUMP_NAME_SIZE);
	const struct vms_arch *arch = vms_arch_by_name(name);

	vms_text_clean(name);
	/* QEMU 10 writes "Unknown", whatever the machine is. */
	if (*name && strcmp(name, "Unknown") != 0)
		core->arch = arch ? vms_core_arch_of(arch) : NULL;
	else
		core->arch = find_arch_by_notes(core, sub);
	if (!core->arch)
		return vms_core_refuse(core, VMS_ERROR_UNSUPPORTED, error,
				       "its architecture \"%s\" is not supported", name);
	core->machine.arch = core->arch->arch;
	return true;
}

/* ---- notes ------------------------------------------------------------ */

/* Reads bytes of the file that are not necessary to read memory. If that fails, notes damage. */
static uint8_t *load_extra(struct vms_core_machine *core, uint64_t offset, uint64_t size,
			   uint64_t limit, const char *what)
{
	g_autoptr(GError) why = NULL;
	uint8_t *data = vms_core_file_load(core->file, offset, size, limit, what, &why);
	if (!data)
		vms_core_damage(core, "%s", why->message);
	return data;
}

static void read_notes(struct vms_core_machine *core, const struct vms_kdump_header *header,
		       const struct vms_kdump_sub_header *sub)
{
	g_autofree uint8_t *notes = NULL, *text = NULL;
	struct vms_budget *budget = vms_machine_budget(&core->machine);

	if (sub->notes_size)
		notes = load_extra(core, sub->notes, sub->notes_size, VMS_CORE_NOTES_MAX, "notes");
	if (notes)
		vms_core_notes(core, (struct vms_bytes) { notes, sub->notes_size, budget },
			       sub->notes, 4);
	if (sub->vmcoreinfo_size)
		text = load_extra(core, sub->vmcoreinfo, sub->vmcoreinfo_size,
				  VMS_CORE_VMCOREINFO_MAX, "VMCOREINFO");
	if (text)
		vms_core_vmcoreinfo(core,
				    (struct vms_bytes) { text, sub->vmcoreinfo_size, budget });
	if (core->vcpus->len < header->n_cpus)
		vms_core_damage(core, "the header has %u CPUs, but the notes have %u",
				header->n_cpus, core->vcpus->len);
}

/* ---- facts ------------------------------------------------------------ */

/* Adds a string of the header as a fact. `value` may lack the NUL at its end. */
static void add_name(struct vms_core_machine *core, const char *key,
		     const char value[VMS_KDUMP_NAME_SIZE])
{
	g_autofree char *text = g_strndup(value, VMS_KDUMP_NAME_SIZE);
	vms_text_clean(text);
	if (*text)
		g_ptr_array_add(core->core.facts, g_strdup_printf("%s=%s", key, text));
}

static const char *get_compression_name(uint32_t status)
{
	switch (status & VMS_KDUMP_COMPRESSIONS) {
	case 0: return "uncompressed";
	case VMS_KDUMP_ZLIB: return "zlib";
	case VMS_KDUMP_LZO: return "lzo";
	case VMS_KDUMP_SNAPPY: return "snappy";
	case VMS_KDUMP_ZSTD: return "zstd";
	default: return "several compressions";
	}
}

static void add_facts(struct vms_core_machine *core, const struct vms_kdump_header *header,
		      const struct vms_kdump_sub_header *sub)
{
	const struct vms_kdump_utsname *utsname = &header->utsname;
	/*
	 * makedumpfile keeps the notes of other writers when it converts a file, but writes no
	 * time. QEMU does not write the names of the guest.
	 */
	bool is_ours = vms_core_has_note(core, VMS_NOTE_OWNER) && header->time_s;
	bool is_qemu = vms_core_has_note(core, "QEMU") && !*utsname->release;
	const char *writer = is_ours   ? "vmscope"
			     : is_qemu ? "QEMU dump-guest-memory"
				       : "makedumpfile";
	g_autofree char *variant =
		g_strdup_printf("%s, %s", writer, get_compression_name(header->status));

	/* A converted file may have less memory than the original. */
	if (!is_ours)
		g_array_set_size(core->noted_ranges, 0);
	core->core.variant = g_string_chunk_insert(core->strings, variant);
	g_ptr_array_add(core->core.facts, g_strdup_printf("header_version=%u", header->version));
	g_ptr_array_add(core->core.facts,
			g_strdup_printf("status=%s", get_compression_name(header->status)));
	g_ptr_array_add(core->core.facts, g_strdup_printf("dump_level=%u", sub->dump_level));
	g_ptr_array_add(core->core.facts, g_strdup_printf("cpus=%u", header->n_cpus));
	add_name(core, "sysname", utsname->sysname);
	add_name(core, "nodename", utsname->nodename);
	add_name(core, "release", utsname->release);
	add_name(core, "version", utsname->version);
	if (header->status & VMS_KDUMP_INCOMPLETE)
		vms_core_damage(core, "its writer ran out of disk space: pages are missing");
}

/* ---- pages ------------------------------------------------------------ */

struct runs {
	struct vms_core_machine *core;
	unsigned block_shift;
	uint64_t n;
	bool known; /* the notes have a memory map */
};

static void add_run(uint64_t pfn, uint64_t end, void *data)
{
	struct runs *runs = data;
	struct vms_range range = { .pa = pfn << runs->block_shift,
				   .size = (end - pfn) << runs->block_shift,
				   .kind = VMS_RANGE_RAM,
				   .name = "RAM" };
	if (!runs->known && runs->n++ < RANGES_MAX)
		g_array_append_val(runs->core->machine.ranges, range);
}

/* Checks the last pages. They were written last, so they show whether the file was cut off. */
static void check_end(struct vms_core_machine *core, const struct vms_kdump *kdump)
{
	uint64_t size = vms_core_file_size(core->file), n_pages = kdump->bitmaps.n_pages;
	uint64_t room = size > kdump->descriptors
				? (size - kdump->descriptors) / sizeof(struct vms_kdump_page)
				: 0;
	uint64_t last = MIN(n_pages, room), checked = MIN(last, CHECKED_PAGES), missing = 0;
	struct vms_kdump_page page;

	if (room < n_pages)
		vms_core_damage(core,
				"it ends within its page descriptors: %" G_GUINT64_FORMAT
				" of %" G_GUINT64_FORMAT " pages cannot be read",
				n_pages - room, n_pages);
	for (uint64_t i = last - checked; i < last; i++) {
		missing += !vms_kdump_page_descriptor(
				   core->file, kdump->descriptors + i * sizeof(page), &page) ||
			   page.offset == 0 || page.size > kdump->block_size ||
			   page.offset > size || page.size > size - page.offset;
	}
	if (missing)
		vms_core_damage(core,
				"the data of %" G_GUINT64_FORMAT " of its last %" G_GUINT64_FORMAT
				" pages are not in the file: they cannot be read",
				missing, checked);
}

static bool find_pages(struct vms_core_machine *core, struct vms_kdump *kdump, GError **error)
{
	struct runs runs = { .core = core,
			     .block_shift = kdump->block_shift,
			     .known = core->machine.ranges->len > 0 };
	const struct vms_kdump_bitmaps *bitmaps = &kdump->bitmaps;

	if (!vms_kdump_bitmaps_scan(&kdump->bitmaps, add_run, &runs, error))
		return false;
	core->core.pages = bitmaps->n_pages;
	core->core.left_out = bitmaps->n_left_out << kdump->block_shift;
	if (runs.n > RANGES_MAX)
		vms_core_damage(core,
				"it has %" G_GUINT64_FORMAT
				" ranges of memory; the first %u are listed",
				runs.n, RANGES_MAX);
	if (bitmaps->n_stray)
		vms_core_damage(core,
				"%" G_GUINT64_FORMAT
				" pages are in the file, but not in its bitmap of memory",
				bitmaps->n_stray);
	check_end(core, kdump);
	return true;
}

/* Finds where bitmaps and descriptors are in the file. */
static bool set_layout(const struct vms_core_machine *core, const struct vms_kdump_header *header,
		       uint64_t n_pfns, struct vms_kdump *kdump, GError **error)
{
	uint64_t bitmaps = (UINT64_C(1) + header->sub_header_blocks) * header->block_size;
	uint64_t size = (uint64_t)header->bitmap_blocks * header->block_size;

	if (n_pfns > VMS_KDUMP_PFNS_MAX)
		return vms_core_refuse(core, VMS_ERROR_UNSUPPORTED, error,
				       "it claims %" G_GUINT64_FORMAT
				       " page frames; more than %" G_GUINT64_FORMAT
				       " are not supported",
				       n_pfns, VMS_KDUMP_PFNS_MAX);
	if (n_pfns > size / 2 * 8 || bitmaps + size > vms_core_file_size(core->file))
		return vms_core_refuse(core, VMS_ERROR_MALFORMED, error,
				       "its bitmaps of %" G_GUINT64_FORMAT
				       " bytes for %" G_GUINT64_FORMAT
				       " page frames at offset 0x%" G_GINT64_MODIFIER
				       "x are too small or beyond the end of the file",
				       size, n_pfns, bitmaps);
	kdump->block_size = header->block_size;
	kdump->block_shift = (unsigned)__builtin_ctz(header->block_size);
	kdump->descriptors = bitmaps + size;
	kdump->bitmaps = (struct vms_kdump_bitmaps) { .file = core->file,
						      .n_pfns = n_pfns,
						      .in_memory = bitmaps,
						      .in_file = bitmaps + size / 2 };
	return true;
}

bool vms_core_kdump_open(struct vms_core_machine *core, GError **error)
{
	struct vms_kdump_header header;
	struct vms_kdump_sub_header sub;

	if (!read_header(core, &header, error) || !read_sub_header(core, &header, &sub, error) ||
	    !find_arch(core, &header, &sub, error))
		return false;
	core->core.format = VMS_CORE_KDUMP;
	core->kdump = g_new0(struct vms_kdump, 1);
	if (!set_layout(core, &header, sub.max_mapnr, core->kdump, error))
		return false;
	core->kdump->pages = vms_kdump_pages_new(core->file, header.block_size);
	read_notes(core, &header, &sub);
	add_facts(core, &header, &sub);
	return find_pages(core, core->kdump, error);
}

void vms_core_kdump_free(struct vms_kdump *kdump)
{
	if (!kdump)
		return;
	vms_kdump_bitmaps_clear(&kdump->bitmaps);
	vms_kdump_pages_free(kdump->pages);
	g_free(kdump);
}

/* ---- reading ---------------------------------------------------------- */

/* Reads a part of one page. */
static bool read_part(struct vms_kdump *kdump, struct vms_kdump_chunk *chunk, uint64_t pa,
		      void *buf, size_t size)
{
	uint64_t pfn = pa >> kdump->block_shift, descriptor;

	if (pfn >= kdump->bitmaps.n_pfns || !vms_kdump_chunk_load(&kdump->bitmaps, pfn, chunk))
		return false;
	switch (vms_kdump_place(&kdump->bitmaps, chunk, pfn, &descriptor)) {
	case VMS_KDUMP_NO_MEMORY: return false;
	case VMS_KDUMP_LEFT_OUT: memset(buf, 0, size); return true;
	case VMS_KDUMP_IN_FILE: break;
	}
	return vms_kdump_page_read(kdump->pages,
				   kdump->descriptors + descriptor * sizeof(struct vms_kdump_page),
				   pa & (kdump->block_size - 1), buf, size);
}

bool vms_core_kdump_read(struct vms_core_machine *core, uint64_t pa, void *buf, size_t size)
{
	struct vms_kdump_chunk chunk = { .index = VMS_KDUMP_NO_CHUNK };
	uint64_t block_size = core->kdump->block_size;
	uint8_t *to = buf;

	while (size) {
		size_t part = MIN(size, block_size - (pa & (block_size - 1)));
		if (!read_part(core->kdump, &chunk, pa, to, part))
			return false;
		pa += part;
		to += part;
		size -= part;
	}
	return true;
}

void vms_core_kdump_next_data(struct vms_core_machine *core, uint64_t pa, uint64_t end,
			      uint64_t *begin, uint64_t *stop)
{
	const struct vms_kdump *kdump = core->kdump;
	struct vms_kdump_chunk chunk = { .index = VMS_KDUMP_NO_CHUNK };
	uint64_t first, last, end_pfn = ((end - 1) >> kdump->block_shift) + 1;

	*begin = pa;
	*stop = end;
	if (!vms_kdump_next_pages(&kdump->bitmaps, &chunk, pa >> kdump->block_shift, end_pfn,
				  &first, &last))
		return;
	*begin = first == end_pfn ? end : MAX(pa, first << kdump->block_shift);
	*stop = last == end_pfn ? end : last << kdump->block_shift;
}
