/* SPDX-License-Identifier: MIT */
#include "machine/core/core_engine.h"
#include "base/text.h"

#define PAGE_MASK UINT64_C(0xfff)

void vms_core_damage(struct vms_core_machine *core, const char *format, ...)
{
	va_list arguments;
	if (core->core.damage->len == VMS_CORE_DAMAGE_MAX) {
		core->more_damage++;
		return;
	}
	va_start(arguments, format);
	char *line = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	vms_text_clean(line);
	g_ptr_array_add(core->core.damage, line);
}

bool vms_core_refuse(const struct vms_core_machine *core, enum vms_error code, GError **error,
		     const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	g_autofree char *why = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	g_set_error(error, VMS_ERROR, (int)code, "cannot read %s: %s", core->core.path, why);
	return false;
}

static struct vms_core_machine *get_core(struct vms_machine *machine)
{
	return (struct vms_core_machine *)machine;
}

/* Both hold and release: the vCPUs of a file never run. */
static bool core_hold(struct vms_machine *machine, int vcpu, GError **error)
{
	(void)machine, (void)vcpu, (void)error;
	return true;
}

static bool core_is_paused(struct vms_machine *machine)
{
	(void)machine;
	return true;
}

static enum vms_machine_end core_get_end(struct vms_machine *machine)
{
	(void)machine;
	return VMS_MACHINE_GOES_ON;
}

static bool core_get_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error)
{
	(void)error;
	*ret = g_array_index(get_core(machine)->vcpus, struct vms_core_vcpu, vcpu).regs;
	return true;
}

static bool core_read_ram(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	struct vms_core_machine *core = get_core(machine);
	return core->kdump ? vms_core_kdump_read(core, pa, buf, size)
			   : vms_core_elf_read(core, pa, buf, size);
}

static void core_next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			   uint64_t *stop)
{
	struct vms_core_machine *core = get_core(machine);
	if (core->kdump)
		vms_core_kdump_next_data(core, pa, end, begin, stop);
	else
		vms_core_elf_next_data(core, pa, end, begin, stop);
}

static void core_close(struct vms_machine *machine)
{
	struct vms_core_machine *core = get_core(machine);
	vms_core_kdump_free(core->kdump);
	vms_core_file_close(core->file);
	g_array_unref(core->vcpus);
	g_array_unref(core->noted_ranges);
	g_array_unref(core->noted_vcpus);
	g_array_unref(machine->ranges);
	g_clear_pointer(&core->parts, g_array_unref);
	g_array_unref(core->core.notes);
	g_array_unref(core->core.segments);
	g_array_unref(core->core.unreadable);
	g_ptr_array_unref(core->core.damage);
	g_ptr_array_unref(core->core.facts);
	g_free(core->vmcoreinfo);
	g_string_chunk_free(core->strings);
	g_free(core);
}

static const struct vms_engine engine = {
	.name = "core",
	.hold = core_hold,
	.release = core_hold,
	.regs = core_get_regs,
	.read_ram = core_read_ram,
	.next_data = core_next_data,
	.is_paused = core_is_paused,
	.ended = core_get_end,
	.close = core_close,
};

static struct vms_core_machine *new_core(struct vms_core_file *file)
{
	struct vms_core_machine *core = g_new0(struct vms_core_machine, 1);
	core->file = file;
	core->strings = g_string_chunk_new(4096);
	core->vcpus = g_array_new(FALSE, TRUE, sizeof(struct vms_core_vcpu));
	core->noted_ranges = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	core->noted_vcpus = g_array_new(FALSE, TRUE, sizeof(struct vms_core_noted_vcpu));
	core->vbox = VMS_NOTE_VBOX_2010;
	core->machine.ranges = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	core->core.notes = g_array_new(FALSE, FALSE, sizeof(struct vms_core_note));
	core->core.segments = g_array_new(FALSE, FALSE, sizeof(struct vms_core_segment));
	core->core.unreadable = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	core->core.damage = g_ptr_array_new_with_free_func(g_free);
	core->core.facts = g_ptr_array_new_with_free_func(g_free);
	core->core.path = vms_core_file_path(file);
	core->core.file_size = vms_core_file_size(file);
	core->core.disk_size = vms_core_file_disk_size(file);
	return core;
}

/*
 * Returns the memory of a map in whole pages, as in kdump files, with neighbours joined. NULL if
 * the map is not sorted, or has overlaps.
 */
static GArray *list_memory_pages(const GArray *ranges)
{
	g_autoptr(GArray) pages = g_array_new(FALSE, FALSE, sizeof(struct vms_extent));
	uint64_t end = 0, conflict;
	for (guint i = 0; i < ranges->len; i++) {
		const struct vms_range *range = &g_array_index(ranges, struct vms_range, i);
		if (range->pa < end || range->size > G_MAXUINT64 - PAGE_MASK - range->pa)
			return NULL;
		end = range->pa + range->size;
		struct vms_extent page = {
			.at = range->pa & ~PAGE_MASK,
		};
		page.size = ((end + PAGE_MASK) & ~PAGE_MASK) - page.at;
		page.file_offset = page.at;
		if (range->kind != VMS_RANGE_MMIO)
			g_array_append_val(pages, page);
	}
	vms_extents_resolve(pages, &conflict);
	return g_steal_pointer(&pages);
}

/* Uses the writer's memory map, with its kinds and names, if it has the same memory as the file. */
static void adopt_noted_ranges(struct vms_core_machine *core)
{
	if (core->noted_ranges->len == 0)
		return;
	g_autoptr(GArray) noted = list_memory_pages(core->noted_ranges);
	g_autoptr(GArray) found = list_memory_pages(core->machine.ranges);
	bool same = noted && found && noted->len == found->len;
	for (guint i = 0; same && i < noted->len; i++) {
		const struct vms_extent *x = &g_array_index(noted, struct vms_extent, i);
		const struct vms_extent *y = &g_array_index(found, struct vms_extent, i);
		same = x->at == y->at && x->size == y->size;
	}
	if (same)
		g_array_insert_vals(g_array_set_size(core->machine.ranges, 0), 0,
				    core->noted_ranges->data, core->noted_ranges->len);
	else
		vms_core_damage(core, "the writer's memory map does not match the file: left out");
}

/*
 * Adds noted registers to the vCPUs. A file without vCPUs gets one without registers, because its
 * most important registers can be found in the kernel's memory.
 */
static void complete_vcpus(struct vms_core_machine *core)
{
	if (core->vcpus->len == 0) {
		vms_core_damage(core, "the file has no registers of any vCPU");
		g_array_set_size(core->vcpus, 1);
	}
	vms_core_adopt_noted_vcpus(core);
	core->machine.n_vcpus = core->vcpus->len;
}

static void set_machine_info(struct vms_core_machine *core)
{
	static const char *const layouts[] = {
		[VMS_CORE_ELF] = ", ELF",
		[VMS_CORE_VBOX] = " core",
		[VMS_CORE_KDUMP] = ", kdump",
	};
	g_autofree char *name = g_path_get_basename(core->core.path);
	g_autofree char *description =
		g_strconcat(core->core.variant, layouts[core->core.format], NULL);
	vms_text_clean(name);
	core->machine.info = (struct vms_machine_info) {
		.name = g_string_chunk_insert(core->strings, name),
		.engine = engine.name,
		.description = g_string_chunk_insert(core->strings, description),
		.is_core = true,
	};
}

static bool read_core(struct vms_core_machine *core, GError **error)
{
	if (vms_core_elf_is(core->file))
		return vms_core_elf_open(core, error);
	if (vms_core_kdump_is(core->file))
		return vms_core_kdump_open(core, error);
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "cannot read %s as a core file: it is neither ELF nor kdump-compressed",
		    core->core.path);
	return false;
}

struct vms_machine *vms_machine_open_core(const char *path, GError **error)
{
	struct vms_core_file *file = vms_core_file_open(path, error);
	if (!file)
		return NULL;
	struct vms_core_machine *core = new_core(file);
	if (!read_core(core, error)) {
		g_clear_pointer(&core->machine.budget, vms_budget_unref);
		core_close(&core->machine);
		return NULL;
	}
	if (vms_core_file_damage(file))
		vms_core_damage(core, "%s", vms_core_file_damage(file));
	adopt_noted_ranges(core);
	complete_vcpus(core);
	set_machine_info(core);
	if (core->more_damage)
		g_ptr_array_add(core->core.damage,
				g_strdup_printf("… and %zu more", core->more_damage));
	core->machine.core = &core->core;
	core->machine.vmcoreinfo = core->vmcoreinfo;
	vms_machine_init(&core->machine, &engine);
	vms_machine_hold(&core->machine, VMS_ALL_VCPUS, NULL);
	return &core->machine;
}
