/* SPDX-License-Identifier: MIT */
/*
 * Variables of kernels whose kallsyms has functions only (without CONFIG_KALLSYMS_ALL, such as
 * Debian's 6.1 for arm64). Some are exported to modules by their names. VMCOREINFO tells others.
 * BTF tells where per-CPU variables are. The rest is recognised by its content.
 */
#include "guest/linux/unlisted_symbols.h"
#include "base/keyed_hash.h"
#include "guest/linux/member.h"
#include "guest/linux/timekeeper.h"
#include "guest/linux/uts.h"
#include "guest/linux/vmcoreinfo.h"
#include <vmscope/log.h>

#define NAME_LIMIT    512
#define PLACES_LIMIT  64
#define BANNERS_LIMIT 64
/* How many candidates in the image are checked. */
#define POINTER_LIMIT (1u << 16) /* pointers to VMCOREINFO */
#define LIST_LIMIT    (1u << 16) /* heads of the list of modules */
#define EXPORT_LIMIT  (1u << 20) /* entries of exports */

static void set_variable(struct vms_linux *guest, const char *name, uint64_t va)
{
	vms_log(VMS_LOG_DEBUG, "%s was found at 0x%" G_GINT64_MODIFIER "x", name, va);
	g_hash_table_replace(guest->variables, (char *)name, g_memdup2(&va, sizeof(va)));
}

/* ---- exported variables ----------------------------------------------- */

/* struct kernel_symbol (linux/export-internal.h). Members are relative to their own address. */
#define EXPORT_SIZE	 12
#define EXPORT_NAME	 4
#define EXPORT_ALIGNMENT 4

/* A place in the image that holds the name of a wanted variable. */
struct place {
	size_t at; /* offset in the image */
	const char *name;
};

static size_t find_names(struct vms_bytes image, struct place places[PLACES_LIMIT])
{
	static const char *const wanted[] = {
		"init_task",	     "init_uts_ns", "nr_cpu_ids", "__per_cpu_offset",
		"__cpu_online_mask", "cpu_number",  "kstat"
	};
	size_t n = 0;
	for (size_t i = 0; i < G_N_ELEMENTS(wanted); i++) {
		const size_t size = strlen(wanted[i]) + 1;
		const uint8_t *from = image.data, *end = image.data + image.size, *hit;
		while (n < PLACES_LIMIT &&
		       (hit = memmem(from, (size_t)(end - from), wanted[i], size))) {
			places[n++] = (struct place) { (size_t)(hit - image.data), wanted[i] };
			from = hit + 1;
		}
	}
	return n;
}

/* Returns the offset in the image that the relative address at `at` leads to. */
static size_t follow_relative(struct vms_bytes image, size_t at)
{
	int32_t offset;
	memcpy(&offset, image.data + at, sizeof(offset));
	return at + (size_t)(int64_t)GINT32_FROM_LE(offset);
}

/* Returns the name of the export at `entry`, or NULL if there is no export. */
static const char *get_export_name(struct vms_bytes image, size_t entry)
{
	if (!vms_bytes_has(image, entry, EXPORT_SIZE))
		return NULL;
	const size_t at = follow_relative(image, entry + EXPORT_NAME);
	if (at >= image.size || !image.data[at] ||
	    !memchr(image.data + at, 0, MIN(image.size - at, NAME_LIMIT)))
		return NULL;
	return (const char *)image.data + at;
}

/* True if the neighbours of `entry` are exports and sorted by name around `name`. */
static bool is_export(struct vms_bytes image, size_t entry, const char *name)
{
	const char *before = get_export_name(image, entry - EXPORT_SIZE);
	const char *after = get_export_name(image, entry + EXPORT_SIZE);
	return (before || after) && (!before || strcmp(before, name) < 0) &&
	       (!after || strcmp(name, after) < 0);
}

static void find_exports(struct vms_linux *guest, const struct vms_kernel_image *image)
{
	struct place places[PLACES_LIMIT];
	const size_t n = find_names(image->bytes, places);
	size_t first = SIZE_MAX, last = 0;
	for (size_t i = 0; i < n; i++) {
		first = MIN(first, places[i].at);
		last = MAX(last, places[i].at);
	}
	unsigned budget = EXPORT_LIMIT;
	for (size_t entry = 0; vms_bytes_has(image->bytes, entry, EXPORT_SIZE) && budget > 0;
	     entry += EXPORT_ALIGNMENT) {
		const size_t at = follow_relative(image->bytes, entry + EXPORT_NAME);
		if (at < first || at > last)
			continue;
		budget--;
		for (size_t i = 0; i < n; i++)
			if (at == places[i].at && is_export(image->bytes, entry, places[i].name))
				set_variable(guest, places[i].name,
					     image->va + follow_relative(image->bytes, entry));
	}
}

/* ---- what is recognised by its content -------------------------------- */

/* Finds the banner. A preliminary banner has no number of the build, and is left out. */
static void find_banner(struct vms_linux *guest, const struct vms_kernel_image *image)
{
	static const char prefix[] = "Linux version ", number[] = ") #";
	const uint8_t *from = image->bytes.data, *end = from + image->bytes.size, *hit;
	for (unsigned i = 0; i < BANNERS_LIMIT; i++, from = hit + 1) {
		hit = memmem(from, (size_t)(end - from), prefix, strlen(prefix));
		if (!hit)
			return;
		g_autofree char *banner =
			vms_linux_banner_at(image->bytes, (size_t)(hit - image->bytes.data));
		const char *version = banner ? g_strrstr(banner, number) : NULL;
		if (version && g_ascii_isdigit(version[strlen(number)])) {
			set_variable(guest, "linux_banner",
				     image->va + (uint64_t)(hit - image->bytes.data));
			return;
		}
	}
}

/* Finds the pointer to the page of VMCOREINFO. The kernel allocates this page at boot. */
static void find_vmcoreinfo(struct vms_linux *guest, const struct vms_kernel_image *image)
{
	static const char prefix[] = VMS_VMCOREINFO_PREFIX;
	const uint64_t page_size = 4096;
	const size_t begin = (guest->text[0].end - image->va) & ~(size_t)7;
	unsigned budget = POINTER_LIMIT;
	uint64_t va;
	for (size_t at = begin; vms_bytes_u64(image->bytes, at, &va) && budget > 0; at += 8) {
		char text[sizeof(prefix) - 1];
		if (va % page_size != 0 || !guest->arch->is_kernel_address(va) ||
		    va - image->va < image->bytes.size)
			continue;
		budget--;
		if (vms_memory_read(guest->memory, va, text, sizeof(text)) &&
		    memcmp(text, prefix, sizeof(text)) == 0) {
			set_variable(guest, "vmcoreinfo_data", image->va + at);
			return;
		}
	}
}

/* Finds BTF by its header (include/uapi/linux/btf.h), which also tells its size. */
static void find_btf(struct vms_linux *guest, const struct vms_kernel_image *image)
{
	enum { TYPE_OFFSET = 8, TYPE_SIZE = 12, STRING_OFFSET = 16, STRING_SIZE = 20 };
	static const uint8_t header[] = { 0x9f, 0xeb, 1, 0, 24, 0, 0, 0 };
	/* A kernel's BTF has more bytes of types, and what a test module embeds has less. */
	const uint32_t least = 1 << 16;
	uint32_t type_offset, type_size, string_offset, string_size;
	for (size_t at = 0; vms_bytes_has(image->bytes, at, 24); at += 4) {
		if (memcmp(image->bytes.data + at, header, sizeof(header)) != 0 ||
		    !vms_bytes_u32(image->bytes, at + TYPE_OFFSET, &type_offset) ||
		    !vms_bytes_u32(image->bytes, at + TYPE_SIZE, &type_size) ||
		    !vms_bytes_u32(image->bytes, at + STRING_OFFSET, &string_offset) ||
		    !vms_bytes_u32(image->bytes, at + STRING_SIZE, &string_size) ||
		    type_offset != 0 || type_size < least || string_offset < type_size)
			continue;
		const uint64_t size = sizeof(header) * 3 + (uint64_t)string_offset + string_size;
		if (!vms_bytes_has(image->bytes, at, size))
			continue;
		set_variable(guest, "__start_BTF", image->va + at);
		set_variable(guest, "__stop_BTF", image->va + at + size);
		return;
	}
}

void vms_linux_find_unlisted(struct vms_linux *guest, const struct vms_kernel_image *image)
{
	uint64_t va;
	if (vms_symbol_table_count(guest->symbols) == 0 ||
	    vms_linux_symbol(guest, "init_task", &va))
		return;
	guest->variables = g_hash_table_new_full(vms_hash_text, g_str_equal, NULL, g_free);
	find_exports(guest, image);
	find_banner(guest, image);
	find_vmcoreinfo(guest, image);
	find_btf(guest, image);
}

/* ---- per-CPU variables ------------------------------------------------ */

/* Finds where the section of per-CPU variables begins. All exported ones must agree about it. */
static bool find_percpu_section(const struct vms_linux *guest, const struct vms_kernel_image *image,
				uint64_t *ret)
{
	static const char *const exported[] = { "cpu_number", "kstat" };
	const uint64_t page_size = 4096;
	bool found = false;
	for (size_t i = 0; i < G_N_ELEMENTS(exported); i++) {
		uint64_t va, offset;
		if (!vms_linux_symbol(guest, exported[i], &va) ||
		    !vms_btf_percpu(guest->btf, exported[i], &offset))
			continue;
		if (found && va - offset != *ret)
			return false;
		*ret = va - offset;
		found = true;
	}
	return found && *ret % page_size == 0 && *ret - image->va < image->bytes.size;
}

static void find_percpu_variables(struct vms_linux *guest, const struct vms_kernel_image *image)
{
	static const char *const wanted[] = { "hrtimer_bases", "tick_cpu_device" };
	uint64_t section, offset;
	if (!find_percpu_section(guest, image, &section))
		return;
	for (size_t i = 0; i < G_N_ELEMENTS(wanted); i++)
		if (vms_btf_percpu(guest->btf, wanted[i], &offset))
			set_variable(guest, wanted[i], section + offset);
}

/* ---- modules ---------------------------------------------------------- */

/*
 * True if `node` belongs to a struct module and is the first of the list `head`. A struct module
 * has a pointer to itself, the member `self`.
 */
static bool is_module(struct vms_linux *guest, const struct vms_btf_member *list,
		      const struct vms_btf_member *self, uint64_t head, uint64_t node)
{
	uint64_t previous, va;
	return vms_memory_read_u64(guest->memory, node + sizeof(va), &previous) &&
	       previous == head && vms_member_read(guest->memory, node - list->offset, self, &va) &&
	       va == node - list->offset;
}

static void find_modules(struct vms_linux *guest, const struct vms_kernel_image *image)
{
	struct vms_btf_member list, self;
	uint64_t first, last;
	if (!vms_btf_member(guest->btf, "module", "list", &list) ||
	    !vms_btf_member(guest->btf, "module", "mkobj.mod", &self))
		return;
	const size_t begin = (guest->text[0].end - image->va) & ~(size_t)7;
	unsigned budget = LIST_LIMIT;
	for (size_t at = begin; vms_bytes_u64(image->bytes, at + 8, &last) && budget > 0; at += 8) {
		const uint64_t head = image->va + at;
		if (!vms_bytes_u64(image->bytes, at, &first) ||
		    !guest->arch->is_kernel_address(first) ||
		    !guest->arch->is_kernel_address(last) || first % 8 != 0 || last % 8 != 0 ||
		    first - image->va < image->bytes.size || last - image->va < image->bytes.size)
			continue;
		budget--;
		if (is_module(guest, &list, &self, head, first)) {
			set_variable(guest, "modules", head);
			return;
		}
	}
}

void vms_linux_find_unlisted_by_types(struct vms_linux *guest, const struct vms_kernel_image *image)
{
	uint64_t va;
	if (!guest->variables || !guest->btf)
		return;
	find_percpu_variables(guest, image);
	if (vms_linux_find_timekeeper(guest, image, &va))
		set_variable(guest, "timekeeper", va);
	find_modules(guest, image);
}
