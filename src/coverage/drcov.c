/* SPDX-License-Identifier: MIT */
/*
 * Writes files of DynamoRIO's drcov, version 2, which Lighthouse and others read. The address of a
 * block is a 32-bit offset in a module. For blocks without a function there is a module for each
 * 4 GiB of addresses that contains such blocks.
 */
#include "base/keyed_hash.h"
#include "coverage/report-private.h"

#define MAX_MODULES UINT16_MAX
#define AREA_BITS   32

struct module {
	char *path;
	uint64_t base, end;
};

static void clear_module(void *data)
{
	g_free(((struct module *)data)->path);
}

static char *name_module(const struct vms_coverage_report *report,
			 const struct vms_covered_block *block)
{
	if (block->function == VMS_COVERED_NO_FUNCTION)
		return g_strdup_printf("0x%" G_GINT64_MODIFIER "x",
				       block->va >> AREA_BITS << AREA_BITS);
	const char *module =
		g_array_index(report->functions, struct vms_covered_function, block->function)
			.module;
	return g_strdup(module ?: "vmlinux");
}

/* Returns the index of the module of a block. `known`: name of the module → index + 1. */
static guint find_module(const struct vms_coverage_report *report,
			 const struct vms_covered_block *block, GArray *modules, GHashTable *known)
{
	char *path = name_module(report, block);
	const guint index = GPOINTER_TO_UINT(g_hash_table_lookup(known, path));
	if (index) {
		g_free(path);
		return index - 1;
	}
	const struct module module = { path, block->va, block->va };
	g_array_append_val(modules, module);
	g_hash_table_insert(known, path, GUINT_TO_POINTER(modules->len));
	return modules->len - 1;
}

/* Extends modules from the begin of their first function to the end of their last one. */
static void widen_modules(const struct vms_coverage_report *report, GArray *modules,
			  GHashTable *known)
{
	for (guint i = 0; i < report->functions->len; i++) {
		const struct vms_covered_function *function =
			&g_array_index(report->functions, struct vms_covered_function, i);
		const guint index =
			GPOINTER_TO_UINT(g_hash_table_lookup(known, function->module ?: "vmlinux"));
		if (!index)
			continue;
		struct module *module = &g_array_index(modules, struct module, index - 1);
		module->base = MIN(module->base, function->va);
		module->end = MAX(module->end, function->va + function->size);
	}
}

struct entry {
	uint32_t offset;
	uint16_t size, module;
};

/*
 * Returns the table of blocks. Leaves out blocks that are too far from the module's base, which
 * happens if a module was loaded twice.
 */
static GArray *make_entries(const struct vms_coverage_report *report, const GArray *modules,
			    const guint *module_of)
{
	GArray *entries = g_array_new(FALSE, FALSE, sizeof(struct entry));
	for (guint i = 0; i < report->blocks->len; i++) {
		const struct vms_covered_block *block =
			&g_array_index(report->blocks, struct vms_covered_block, i);
		const uint64_t offset =
			block->va - g_array_index(modules, struct module, module_of[i]).base;
		const struct entry entry = {
			.offset = GUINT32_TO_LE((uint32_t)offset),
			.size = GUINT16_TO_LE((uint16_t)MIN(block->size, UINT16_MAX)),
			.module = GUINT16_TO_LE((uint16_t)module_of[i]),
		};
		if (offset <= UINT32_MAX && module_of[i] < MAX_MODULES)
			g_array_append_val(entries, entry);
	}
	return entries;
}

void vms_coverage_report_drcov(const struct vms_coverage_report *report, GString *out)
{
	g_autoptr(GArray) modules = g_array_new(FALSE, FALSE, sizeof(struct module));
	g_autoptr(GHashTable) known = g_hash_table_new(vms_hash_text, g_str_equal);
	g_autofree guint *module_of = g_new(guint, report->blocks->len + 1);
	g_array_set_clear_func(modules, clear_module);
	for (guint i = 0; i < report->blocks->len; i++) {
		const struct vms_covered_block *block =
			&g_array_index(report->blocks, struct vms_covered_block, i);
		module_of[i] = find_module(report, block, modules, known);
		struct module *module = &g_array_index(modules, struct module, module_of[i]);
		module->base = MIN(module->base, block->va);
		module->end = MAX(module->end, block->va + block->size);
	}
	widen_modules(report, modules, known);
	g_autoptr(GArray) entries = make_entries(report, modules, module_of);
	g_string_append_printf(out,
			       "DRCOV VERSION: 2\nDRCOV FLAVOR: vmscope\n"
			       "Module Table: version 2, count %u\n"
			       "Columns: id, base, end, entry, path\n",
			       modules->len);
	for (guint i = 0; i < modules->len; i++) {
		const struct module *module = &g_array_index(modules, struct module, i);
		g_string_append_printf(out,
				       "%3u, 0x%016" G_GINT64_MODIFIER "x, 0x%016" G_GINT64_MODIFIER
				       "x, 0x%016x, %s\n",
				       i, module->base, module->end, 0, module->path);
	}
	g_string_append_printf(out, "BB Table: %u bbs\n", entries->len);
	g_string_append_len(out, entries->data, (gssize)(entries->len * sizeof(struct entry)));
}
