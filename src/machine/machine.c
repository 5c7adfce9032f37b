/* SPDX-License-Identifier: MIT */
/*
 * What all engines share: references, facts, states and memory of a machine, and the locks around
 * calls of an engine. Holds are in holds.c, registers in registers.c.
 */
#include "base/budget.h"
#include "base/clock.h"
#include "machine/units.h"
#include <string.h>

/* How long to wait for a machine that is closed. What is left to do then, its watchdog does. */
#define CLOSE_NS UINT64_C(2000000000)

static unsigned n_hold_states(const struct vms_machine *machine)
{
	return MAX(machine->n_vcpus, 1);
}

void vms_machine_init(struct vms_machine *machine, const struct vms_engine *engine)
{
	machine->engine = engine;
	g_atomic_ref_count_init(&machine->refs);
	g_mutex_init(&machine->lock);
	g_mutex_init(&machine->holder.lock);
	machine->hold_limit_ns = VMS_HOLD_LIMIT_NS;
	machine->holds = g_new0(struct vms_hold_state, n_hold_states(machine));
	machine->seen = g_new0(struct vms_seen_regs *, machine->n_vcpus);
	for (unsigned i = 0; i < n_hold_states(machine); i++)
		g_mutex_init(&machine->holds[i].lock);
	vms_machine_budget(machine); /* made while one thread knows the machine */
}

struct vms_machine *vms_machine_ref(struct vms_machine *machine)
{
	g_atomic_ref_count_inc(&machine->refs);
	return machine;
}

void vms_machine_unref(struct vms_machine *machine)
{
	if (!g_atomic_ref_count_dec(&machine->refs))
		return;
	vms_machine_give_up_at(machine, vms_clock_now_ns() + CLOSE_NS);
	if (machine->engine->end_threads)
		machine->engine->end_threads(machine);
	g_mutex_clear(&machine->lock);
	g_mutex_clear(&machine->holder.lock);
	for (unsigned i = 0; i < n_hold_states(machine); i++)
		g_mutex_clear(&machine->holds[i].lock);
	g_clear_pointer(&machine->holds, g_free);
	g_clear_pointer(&machine->learnt, g_free);
	for (unsigned i = 0; i < machine->n_vcpus; i++)
		g_free(machine->seen[i]);
	g_clear_pointer(&machine->seen, g_free);
	g_clear_pointer(&machine->budget, vms_budget_unref);
	machine->engine->close(machine);
}

const char *vms_range_kind_name(enum vms_range_kind kind)
{
	static const char *const names[] = {
		[VMS_RANGE_RAM] = "ram",
		[VMS_RANGE_ROM] = "rom",
		[VMS_RANGE_MMIO] = "mmio",
	};
	return names[kind];
}

int vms_range_compare(const void *a, const void *b)
{
	const struct vms_range *x = a, *y = b;
	return (x->pa > y->pa) - (x->pa < y->pa);
}

const struct vms_machine_info *vms_machine_info(struct vms_machine *machine)
{
	return &machine->info;
}

struct vms_budget *vms_machine_budget(struct vms_machine *machine)
{
	const struct vms_budget_options usual = { .size = sizeof(usual),
						  .percent = VMS_BUDGET_RUNNING_PERCENT };
	if (!machine->budget)
		machine->budget = vms_budget_new(&usual, NULL);
	return machine->budget;
}

void vms_machine_set_budget(struct vms_machine *machine, struct vms_budget *budget)
{
	vms_budget_ref(budget);
	vms_budget_unref(machine->budget);
	machine->budget = budget;
}

const struct vms_arch *vms_machine_arch(struct vms_machine *machine)
{
	return machine->arch;
}

unsigned vms_machine_vcpus(struct vms_machine *machine)
{
	return machine->n_vcpus;
}

pid_t vms_machine_vcpu_thread(struct vms_machine *machine, unsigned vcpu)
{
	return machine->vcpu_threads && vcpu < machine->n_vcpus ? machine->vcpu_threads[vcpu] : 0;
}

const struct vms_range *vms_machine_ranges(struct vms_machine *machine, size_t *n)
{
	GArray *ranges = g_atomic_pointer_get(&machine->ranges);
	*n = ranges ? ranges->len : 0;
	return *n ? &g_array_index(ranges, struct vms_range, 0) : NULL;
}

bool vms_machine_check_ranges(struct vms_machine *machine, GError **error)
{
	VMS_LOCKED(&machine->lock);
	return !machine->engine->check_ranges || machine->engine->check_ranges(machine, error);
}

bool vms_machine_check_vcpus(struct vms_machine *machine, GError **error)
{
	VMS_LOCKED(&machine->lock);
	return !machine->engine->check_vcpus || machine->engine->check_vcpus(machine, error);
}

bool vms_machine_update_ranges(struct vms_machine *machine, GError **error)
{
	VMS_LOCKED(&machine->lock);
	return !machine->engine->update_ranges || machine->engine->update_ranges(machine, error);
}

bool vms_machine_is_memory(struct vms_machine *machine, uint64_t pa, size_t size)
{
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n);
	for (size_t i = 0; i < n && size; i++) {
		if (pa < ranges[i].pa || pa - ranges[i].pa >= ranges[i].size)
			continue;
		if (ranges[i].kind == VMS_RANGE_MMIO)
			return false;
		uint64_t part = MIN(size, ranges[i].size - (pa - ranges[i].pa));
		pa += part;
		size -= part;
	}
	return size == 0 || n == 0;
}

const struct vms_core *vms_machine_core(struct vms_machine *machine)
{
	return machine->core;
}

const char *vms_machine_vmcoreinfo(struct vms_machine *machine)
{
	return machine->vmcoreinfo;
}

const struct vms_machine_item *vms_machine_items(struct vms_machine *machine, size_t *n)
{
	*n = machine->n_items;
	return machine->items;
}

char *vms_machine_item_text(struct vms_machine *machine, const char *name, GError **error)
{
	for (size_t i = 0; i < machine->n_items; i++) {
		if (g_strcmp0(machine->items[i].name, name) == 0) {
			VMS_LOCKED(&machine->lock);
			return machine->engine->item_text(machine, name, error);
		}
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "%s has no item \"%s\"",
		    machine->info.name, name);
	return NULL;
}

void vms_machine_allow_stop(struct vms_machine *machine, bool allow)
{
	machine->may_stop = allow;
}

void vms_machine_set_hold_limit(struct vms_machine *machine, uint64_t limit_ns)
{
	machine->hold_limit_ns = limit_ns;
}

void vms_machine_give_up_at(struct vms_machine *machine, uint64_t time_ns)
{
	atomic_store(&machine->give_up_ns, time_ns);
}

uint64_t vms_machine_held_from_ns(const struct vms_machine *machine)
{
	return machine->held_from_ns;
}

bool vms_machine_last_hold_ns(struct vms_machine *machine, int vcpu, uint64_t *ret)
{
	return machine->engine->last_hold_ns && vcpu >= 0 &&
	       machine->engine->last_hold_ns(machine, (unsigned)vcpu, ret);
}

bool vms_machine_holds_each(struct vms_machine *machine)
{
	return machine->engine->holds_each;
}

bool vms_machine_is_paused(struct vms_machine *machine)
{
	return machine->engine->is_paused(machine);
}

char *vms_machine_pause_reason(struct vms_machine *machine)
{
	VMS_LOCKED(&machine->lock);
	return machine->engine->pause_reason ? machine->engine->pause_reason(machine) : NULL;
}

uint64_t vms_machine_paused_ns(struct vms_machine *machine, uint64_t time_ns)
{
	return machine->engine->paused_ns ? machine->engine->paused_ns(machine, time_ns) : 0;
}

enum vms_machine_end vms_machine_ended(struct vms_machine *machine)
{
	return machine->engine->ended(machine);
}

uint64_t vms_machine_resets(struct vms_machine *machine)
{
	return machine->engine->resets ? machine->engine->resets(machine) : 0;
}

bool vms_machine_read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	const struct vms_engine *engine = machine->engine;
	if (size && size - 1 > G_MAXUINT64 - pa)
		return false;
	if (engine->read_ram && engine->read_ram(machine, pa, buf, size))
		return true;
	VMS_LOCKED(&machine->lock);
	if (!engine->read_phys)
		return false;
	const size_t piece = engine->held_read_max ? engine->held_read_max : MAX(size, 1);
	size_t done = 0;
	do {
		if (!engine->read_phys(machine, pa + done, (uint8_t *)buf + done,
				       MIN(piece, size - done)))
			return false;
		done += MIN(piece, size - done);
	} while (done < size);
	return true;
}

bool vms_machine_read_stops(struct vms_machine *machine, uint64_t pa)
{
	const struct vms_engine *engine = machine->engine;
	uint8_t byte;
	return engine->held_read_max &&
	       !(engine->read_ram && engine->read_ram(machine, pa, &byte, sizeof(byte)));
}

size_t vms_machine_read_parts(struct vms_machine *machine, const struct vms_phys_part *parts,
			      size_t n)
{
	return machine->engine->read_parts ? machine->engine->read_parts(machine, parts, n) : 0;
}

void vms_machine_prefetch(struct vms_machine *machine, unsigned vcpu, uint64_t pa)
{
	VMS_LOCKED(vms_unit_lock(machine, vcpu));
	if (machine->engine->prefetch)
		machine->engine->prefetch(machine, vcpu, pa);
}

const void *vms_machine_prefetched(struct vms_machine *machine, unsigned vcpu, uint64_t pa)
{
	VMS_LOCKED(vms_unit_lock(machine, vcpu));
	return machine->engine->prefetched ? machine->engine->prefetched(machine, vcpu, pa) : NULL;
}

bool vms_machine_next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			   uint64_t *stop)
{
	*begin = pa;
	*stop = end;
	if (pa < end && machine->engine->next_data)
		machine->engine->next_data(machine, pa, end, begin, stop);
	return *begin < end;
}
