/* SPDX-License-Identifier: MIT */
#include "dump/state.h"
#include "base/clock.h"
#include "base/search.h"
#include <stdlib.h>
#include <vmscope/log.h>

/* Maximum number of runs of kernel addresses that are listed. Further runs are left out. */
#define MAPPINGS_MAX (256U << 10)
/*
 * How many mapped kernel pages are listed at most for each page of memory. A page is mapped once in
 * the direct map, and few pages are mapped elsewhere too.
 */
#define MAPPED_FACTOR 4
#define MAPPED_MIN    (UINT64_C(1) << 20)
/* How many pages are listed between two checks of the clock. */
#define CLOCK_PAGES 65536
/* All physical addresses of all processors are lower. */
#define PA_LIMIT    (UINT64_C(1) << 63)
#define KERNEL_HALF (UINT64_C(1) << 63)

/* ---- memory ----------------------------------------------------------- */

static void add_memory(GArray *memory, const struct vms_range *range)
{
	struct vms_range *last =
		memory->len ? &g_array_index(memory, struct vms_range, memory->len - 1) : NULL;
	if (last && last->pa + last->size == range->pa) {
		last->size += range->size;
	} else {
		struct vms_range part = { range->pa, range->size, VMS_RANGE_RAM, NULL };
		g_array_append_val(memory, part);
	}
}

static bool take_memory(struct vms_dump_state *state, GError **error)
{
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(state->machine, &n);
	const char *name = vms_machine_info(state->machine)->name;

	for (size_t i = 0; i < n; i++) {
		if (ranges[i].kind == VMS_RANGE_MMIO || ranges[i].size == 0)
			continue;
		if (ranges[i].pa >= PA_LIMIT || ranges[i].size > PA_LIMIT - ranges[i].pa ||
		    ranges[i].size > PA_LIMIT - state->bytes) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
				    "cannot dump %s: its memory map has 0x%" G_GINT64_MODIFIER
				    "x bytes at 0x%" G_GINT64_MODIFIER "x, which no machine has",
				    name, ranges[i].size, ranges[i].pa);
			return false;
		}
		add_memory(state->memory, &ranges[i]);
		state->bytes += ranges[i].size;
	}
	if (state->memory->len > 0)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "cannot dump %s: a gdb stub gives no memory map; reach QEMU by its pid or its "
		    "QMP socket",
		    name);
	return false;
}

guint vms_dump_state_find(const struct vms_dump_state *state, uint64_t pa)
{
	const struct vms_range *ranges = (const struct vms_range *)(void *)state->memory->data;
	return (guint)VMS_SEARCH(state->memory->len, i, ranges[i].pa + ranges[i].size <= pa);
}

bool vms_dump_state_init(struct vms_dump_state *state, struct vms_machine *machine,
			 const struct vms_dump_options *options, GError **error)
{
	const struct vms_arch *arch = vms_machine_arch(machine);
	*state = (struct vms_dump_state) {
		.machine = machine,
		.source = machine,
		.options = options,
		.arch = vms_core_arch_of(arch),
		.memory = g_array_new(FALSE, FALSE, sizeof(struct vms_range)),
		.vcpus = g_array_new(FALSE, TRUE, sizeof(struct vms_dump_vcpu)),
		.mappings = g_array_new(FALSE, FALSE, sizeof(struct vms_dump_mapping)),
	};
	if (!state->arch) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot dump %s: the register notes of core files for %s are not known",
			    vms_machine_info(machine)->name, arch->name);
		return false;
	}
	if (options->format == VMS_CORE_VBOX && state->arch->notes[VMS_NOTE_VBOX_6].size == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot dump %s: VirtualBox's layout does not know %s; use another "
			    "format",
			    vms_machine_info(machine)->name, arch->name);
		return false;
	}
	return take_memory(state, error);
}

void vms_dump_state_clear(struct vms_dump_state *state)
{
	g_clear_pointer(&state->memory, g_array_unref);
	g_clear_pointer(&state->vcpus, g_array_unref);
	g_clear_pointer(&state->mappings, g_array_unref);
}

/* ---- vCPUs ------------------------------------------------------------ */

/* Returns the thread that a vCPU runs, or 0 if it is not known. */
static uint32_t find_thread(struct vms_guest *guest, struct vms_memory *memory, unsigned vcpu)
{
	struct vms_task task;
	if (!vms_guest_current(guest, memory, vms_memory_regs(memory), &task))
		return 0;
	return task.is_idle || task.tid == 0 ? VMS_DUMP_IDLE_TID + vcpu : task.tid;
}

static bool take_vcpus(struct vms_dump_state *state, struct vms_guest *guest, GError **error)
{
	unsigned n = vms_machine_vcpus(state->machine), known = 0;
	g_autoptr(vms_memory) memory = NULL;
	g_array_set_size(state->vcpus, n);
	for (unsigned i = 0; i < n; i++) {
		struct vms_dump_vcpu *vcpu = &g_array_index(state->vcpus, struct vms_dump_vcpu, i);
		if (!vms_machine_all_regs(state->machine, i, &vcpu->regs, error))
			return false;
		if (state->options->threads == VMS_DUMP_THREADS_TASK) {
			if (memory)
				vms_memory_set_regs(memory, &vcpu->regs);
			else
				memory = vms_memory_new(state->machine, &vcpu->regs);
			vcpu->tid = find_thread(guest, memory, i);
			known += vcpu->tid != 0;
		}
	}
	/* If some threads are known, a vCPU without one must not get the number of a thread. */
	for (unsigned i = 0; i < n; i++) {
		struct vms_dump_vcpu *vcpu = &g_array_index(state->vcpus, struct vms_dump_vcpu, i);
		if (vcpu->tid == 0)
			vcpu->tid = (known ? VMS_DUMP_IDLE_TID : 1) + i;
	}
	return true;
}

/* ---- kernel addresses ------------------------------------------------- */

struct walk {
	const struct vms_arch *arch;
	GArray *runs; /* struct vms_dump_mapping */
	uint64_t pages, max_pages;
	uint64_t until_ns;
	bool cut; /* there was too much, or too little time */
};

static bool add_page(const struct vms_page *page, void *data)
{
	struct walk *walk = data;
	struct vms_dump_mapping *last =
		walk->runs->len
			? &g_array_index(walk->runs, struct vms_dump_mapping, walk->runs->len - 1)
			: NULL;
	if (page->user || !walk->arch->is_kernel_address(page->va))
		return true;
	walk->cut = walk->pages++ >= walk->max_pages ||
		    (walk->pages % CLOCK_PAGES == 0 && vms_clock_now_ns() >= walk->until_ns);
	if (last && last->va + last->size == page->va && last->pa + last->size == page->pa) {
		last->size += page->size;
	} else if (walk->runs->len < MAPPINGS_MAX) {
		struct vms_dump_mapping run = { page->va, page->pa, page->size };
		g_array_append_val(walk->runs, run);
	} else {
		walk->cut = true;
	}
	return !walk->cut;
}

/* Adds the parts of a run that are memory. False if there are too many. */
static bool add_mapped_memory(struct vms_dump_state *state, const struct vms_dump_mapping *run)
{
	uint64_t run_end = run->pa + run->size;
	for (guint i = vms_dump_state_find(state, run->pa); i < state->memory->len; i++) {
		const struct vms_range *range = &g_array_index(state->memory, struct vms_range, i);
		if (range->pa >= run_end)
			break;
		if (state->mappings->len == MAPPINGS_MAX)
			return false;
		uint64_t pa = MAX(run->pa, range->pa);
		struct vms_dump_mapping part = {
			.va = run->va + (pa - run->pa),
			.pa = pa,
			.size = MIN(run_end, range->pa + range->size) - pa,
		};
		g_array_append_val(state->mappings, part);
	}
	return true;
}

/* Takes the kernel's mappings from the page tables of the first vCPU that has any. */
static void take_mappings(struct vms_dump_state *state, uint64_t until_ns)
{
	g_autoptr(GArray) runs = g_array_new(FALSE, FALSE, sizeof(struct vms_dump_mapping));
	struct walk walk = {
		.arch = vms_machine_arch(state->machine),
		.runs = runs,
		.max_pages = MAPPED_MIN + state->bytes / VMS_DUMP_PAGE * MAPPED_FACTOR,
		.until_ns = until_ns,
	};
	uint64_t steps = VMS_PAGE_STEPS + 2 * walk.max_pages;
	for (guint i = 0; runs->len == 0 && i < state->vcpus->len; i++) {
		const struct vms_dump_vcpu *vcpu =
			&g_array_index(state->vcpus, struct vms_dump_vcpu, i);
		g_autoptr(vms_memory) memory = vms_memory_new(state->machine, &vcpu->regs);
		vms_memory_each_page(memory, KERNEL_HALF, UINT64_MAX, &steps, add_page, &walk);
	}
	walk.cut |= steps == 0;
	for (guint i = 0; i < runs->len; i++)
		walk.cut |=
			!add_mapped_memory(state, &g_array_index(runs, struct vms_dump_mapping, i));
	if (walk.cut && vms_clock_now_ns() < until_ns)
		vms_log(VMS_LOG_WARNING,
			"%s: its kernel maps too many pages to list: the core file has all memory, "
			"but not all kernel addresses",
			vms_machine_info(state->machine)->name);
}

struct offset {
	uint64_t offset, bytes;
};

static int compare_offsets(const void *a, const void *b)
{
	uint64_t x = ((const struct offset *)a)->offset, y = ((const struct offset *)b)->offset;
	return x < y ? -1 : x > y;
}

/* Finds the offset va - pa that maps the most memory: that is the direct map. */
static uint64_t find_direct_map(const struct vms_dump_state *state)
{
	guint n = state->mappings->len;
	g_autofree struct offset *offsets = g_new(struct offset, n + 1);
	struct offset best = { 0, 0 };
	for (guint i = 0; i < n; i++) {
		const struct vms_dump_mapping *mapping =
			&g_array_index(state->mappings, struct vms_dump_mapping, i);
		offsets[i] = (struct offset) { mapping->va - mapping->pa, mapping->size };
	}
	if (n > 0)
		qsort(offsets, n, sizeof(*offsets), compare_offsets);
	for (guint i = 0; i < n; i++) {
		if (i > 0 && offsets[i].offset == offsets[i - 1].offset)
			offsets[i].bytes += offsets[i - 1].bytes;
		if (offsets[i].bytes > best.bytes)
			best = offsets[i];
	}
	return best.offset;
}

static bool check_clock(const struct vms_dump_state *state, uint64_t until_ns, GError **error)
{
	if (vms_clock_now_ns() < until_ns)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT,
		    "cannot dump %s: it was held up to the limit before its registers and page "
		    "tables were read; set a higher hold limit",
		    vms_machine_info(state->machine)->name);
	return false;
}

bool vms_dump_state_take(struct vms_dump_state *state, struct vms_guest *guest, uint64_t until_ns,
			 GError **error)
{
	state->time = g_get_real_time() / G_USEC_PER_SEC;
	if (!take_vcpus(state, guest, error) || !check_clock(state, until_ns, error))
		return false;
	take_mappings(state, until_ns);
	if (!check_clock(state, until_ns, error))
		return false;
	if (vms_guest_kind(guest) == VMS_GUEST_LINUX)
		state->direct_map = find_direct_map(state);
	state->guest = vms_guest_info(guest);
	state->vmcoreinfo = vms_guest_vmcoreinfo(guest);
	if (!state->vmcoreinfo)
		state->vmcoreinfo = vms_machine_vmcoreinfo(state->machine);
	return true;
}
