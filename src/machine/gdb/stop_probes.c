/* SPDX-License-Identifier: MIT */
#include "machine/gdb/stop_probes-private.h"

/*
 * How many breakpoints a processor has in its debug registers, at least. With KVM there are no
 * others: they would be instructions in the guest's memory, and stay there if all of us are killed.
 */
#define HARDWARE_POINTS 4
/* How many breakpoints a machine may have: QEMU looks through all of them for a block of code. */
#define POINTS_MAX 4096

void vms_stop_probes_init(struct vms_stop_probes *all, struct vms_machine *machine,
			  struct vms_gdb *gdb, const struct vms_stop_operations *operations)
{
	all->machine = machine;
	all->gdb = gdb;
	all->operations = operations;
	all->departing = -1;
	all->sets = g_ptr_array_new();
	all->points = g_array_new(FALSE, FALSE, sizeof(struct vms_gdb_point));
	g_mutex_init(&all->taking);
}

static void free_memories(struct vms_stop_probes *all)
{
	for (unsigned i = 0; all->memories && i < all->machine->n_vcpus; i++)
		vms_memory_free(all->memories[i]);
	g_clear_pointer(&all->memories, g_free);
	g_clear_pointer(&all->output, g_free);
}

void vms_stop_probes_clear(struct vms_stop_probes *all)
{
	if (!all->sets)
		return;
	g_clear_pointer(&all->sets, g_ptr_array_unref);
	g_clear_pointer(&all->points, g_array_unref);
	g_clear_pointer(&all->vcpus, g_free);
	g_clear_pointer(&all->reason, g_free);
	g_mutex_clear(&all->taking);
}

/* ---- breakpoints and the sets that want them --------------------------- */

static struct vms_stop_set *set_of(struct vms_probes *probes)
{
	return (struct vms_stop_set *)probes;
}

struct vms_gdb_point *vms_stop_points(const struct vms_stop_probes *all)
{
	return (struct vms_gdb_point *)(void *)all->points->data;
}

struct vms_gdb_point *vms_stop_find_point(const struct vms_stop_probes *all, uint64_t va)
{
	for (unsigned i = 0; i < all->points->len; i++)
		if (vms_stop_points(all)[i].va == va)
			return &vms_stop_points(all)[i];
	return NULL;
}

static bool is_wanted_by(const struct vms_stop_set *set, uint64_t va)
{
	if (!atomic_load(&set->is_armed))
		return false;
	for (size_t i = 0; i < set->n; i++)
		if (set->places[i].va == va)
			return true;
	return false;
}

bool vms_stop_is_wanted(const struct vms_stop_probes *all, uint64_t va)
{
	for (unsigned i = 0; i < all->sets->len; i++)
		if (is_wanted_by(all->sets->pdata[i], va))
			return true;
	return false;
}

/* Marks breakpoints that no set wants any more. */
static void update_wanted(struct vms_stop_probes *all)
{
	for (unsigned i = 0; i < all->points->len; i++)
		vms_stop_points(all)[i].is_unwanted =
			!vms_stop_is_wanted(all, vms_stop_points(all)[i].va);
}

void vms_stop_drop_points(struct vms_stop_probes *all)
{
	for (unsigned i = all->points->len; i-- > 0;)
		if (vms_stop_points(all)[i].is_unwanted && !vms_stop_points(all)[i].is_set)
			g_array_remove_index_fast(all->points, i);
}

static bool add_points(struct vms_stop_probes *all, const struct vms_stop_set *set, GError **error)
{
	const unsigned max = all->is_hardware ? HARDWARE_POINTS : POINTS_MAX;
	for (size_t i = 0; i < set->n && all->points->len <= max; i++) {
		struct vms_gdb_point *known = vms_stop_find_point(all, set->places[i].va);
		struct vms_gdb_point point = {
			.va = set->places[i].va,
			.is_hardware = all->is_hardware,
		};
		if (known)
			known->is_unwanted = false;
		else
			g_array_append_val(all->points, point);
	}
	if (all->points->len <= max)
		return true;
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_BUSY,
		all->is_hardware
			? "%s: with KVM there can be probes at %u addresses at most, as many as "
			  "the processor has debug registers"
			: "%s: without the agent there can be probes at %u addresses at most",
		all->machine->info.name, max);
	return false;
}

void vms_stop_end_set(struct vms_stop_set *set)
{
	if (!atomic_exchange(&set->is_armed, false))
		return;
	atomic_fetch_sub(&set->all->n_armed, 1);
	update_wanted(set->all);
}

bool vms_stop_probes_is_at_hit(const struct vms_stop_probes *all)
{
	return all->hold && atomic_load(&all->hold->is_at_hit);
}

void vms_stop_probes_set_at_hit(struct vms_stop_probes *all, bool is_at_hit)
{
	if (all->hold)
		atomic_store(&all->hold->is_at_hit, is_at_hit);
}

bool vms_stop_probes_are_set(const struct vms_stop_probes *all)
{
	return all->points && all->points->len;
}

/* Sets the breakpoints of a set, or none. */
static bool set_points(struct vms_stop_probes *all, struct vms_stop_set *set, GError **error)
{
	bool done =
		add_points(all, set, error) &&
		vms_gdb_set_points(all->gdb, vms_stop_points(all), all->points->len, true, error);
	for (size_t i = 0; done && i < set->n; i++) {
		const uint64_t va = set->places[i].va;
		const struct vms_gdb_point *point = vms_stop_find_point(all, va);
		if (point && point->is_set)
			continue;
		done = false;
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "%s: there can be no breakpoint at 0x%" G_GINT64_MODIFIER "x",
			    all->machine->info.name, va);
	}
	if (done)
		return true;
	vms_stop_end_set(set);
	struct vms_gdb_departure nothing = { .vcpu = -1 };
	if (!all->gdb->broken)
		vms_gdb_depart(all->gdb, &nothing, vms_stop_points(all), all->points->len, NULL);
	vms_stop_drop_points(all);
	return false;
}

/* ---- arming and disarming ---------------------------------------------- */

static void copy_places(struct vms_stop_set *set, const struct vms_probes_request *request)
{
	set->places = g_new0(struct vms_place, request->n);
	set->n = request->n;
	for (size_t i = 0; i < request->n; i++) {
		const struct vms_program *program = request->places[i].program;
		struct vms_program *copy = g_new(struct vms_program, 1);
		copy->ops = g_memdup2(program->ops, program->n * sizeof(*program->ops));
		copy->n = program->n;
		set->places[i] = request->places[i];
		set->places[i].program = copy;
	}
}

static struct vms_stop_set *new_set(struct vms_stop_probes *all,
				    const struct vms_probes_request *request)
{
	struct vms_stop_set *set = g_new0(struct vms_stop_set, 1);
	set->probes.machine = vms_machine_ref(all->machine);
	set->all = all;
	set->vcpu = request->vcpu;
	set->max_hits = request->max_hits;
	set->hit = request->hit;
	set->data = request->data;
	copy_places(set, request);
	return set;
}

static void free_set(struct vms_stop_set *set)
{
	struct vms_machine *machine = set->probes.machine;
	for (size_t i = 0; i < set->n; i++) {
		g_free((void *)set->places[i].program->ops);
		g_free((void *)set->places[i].program);
	}
	g_free(set->places);
	g_free(set->reason);
	g_free(set);
	vms_machine_unref(machine);
}

/* Arms a set in the held machine. */
static bool arm_held(struct vms_stop_probes *all, struct vms_stop_set *set, GError **error)
{
	VMS_STOP_LOCK(&all->machine->lock);
	if (!all->operations->begin(all->machine, error))
		return false;
	if (!all->vcpus)
		all->vcpus = g_new0(struct vms_stop_vcpu, all->machine->n_vcpus);
	if (!atomic_load(&all->n_armed))
		g_clear_pointer(&all->reason, g_free);
	atomic_store(&set->is_armed, true);
	atomic_fetch_add(&all->n_armed, 1);
	g_ptr_array_add(all->sets, set);
	bool done = set_points(all, set, error);
	if (!done) {
		vms_stop_end_set(set);
		g_ptr_array_remove(all->sets, set);
	}
	all->operations->end(all->machine);
	return done;
}

/* To follow a call it would need a breakpoint at wherever that returns to. */
static bool check_request(const struct vms_stop_probes *all,
			  const struct vms_probes_request *request, GError **error)
{
	for (size_t i = 0; i < request->n; i++) {
		if (!request->places[i].at_return)
			continue;
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			"%s: calls can be followed by vmscope's agent alone: start QEMU with it, "
			"as \"vmscope run\" does",
			all->machine->info.name);
		return false;
	}
	return true;
}

struct vms_probes *vms_stop_probes_arm(struct vms_stop_probes *all,
				       const struct vms_probes_request *request, GError **error)
{
	if (!check_request(all, request, error))
		return NULL;
	VMS_STOP_LOCK(&all->taking);
	if (!vms_machine_hold(all->machine, VMS_ALL_VCPUS, error))
		return NULL;
	struct vms_stop_set *set = new_set(all, request);
	bool done = arm_held(all, set, error);
	vms_machine_release(all->machine, VMS_ALL_VCPUS, NULL);
	if (done)
		return &set->probes;
	free_set(set);
	return NULL;
}

/* Removes breakpoints that nobody wants from the held machine. */
static bool remove_unwanted(struct vms_stop_probes *all, GError **error)
{
	struct vms_gdb_departure nothing = { .vcpu = -1 };
	VMS_STOP_LOCK(&all->machine->lock);
	if (!vms_stop_probes_are_set(all))
		return true;
	if (!all->operations->begin(all->machine, error))
		return false;
	bool done =
		vms_gdb_depart(all->gdb, &nothing, vms_stop_points(all), all->points->len, error);
	if (done)
		vms_stop_drop_points(all);
	all->operations->end(all->machine);
	return done;
}

bool vms_stop_check_reason(const struct vms_stop_probes *all, const char *reason, GError **error)
{
	if (!reason)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_NOW,
		    "%s: the probes were taken away, because of %s", all->machine->info.name,
		    reason);
	return false;
}

/* Whoever takes hits may have seen that the set is not armed any more, and not why. */
static bool check_was_not_taken(struct vms_stop_set *set, GError **error)
{
	VMS_STOP_LOCK(&set->all->machine->lock);
	return vms_stop_check_reason(set->all, set->reason, error);
}

/* Under `taking`. */
static bool disarm(struct vms_stop_set *set, GError **error)
{
	struct vms_stop_probes *all = set->all;
	if (!atomic_load(&set->is_armed))
		return check_was_not_taken(set, error);
	g_mutex_lock(&all->machine->lock);
	vms_stop_end_set(set);
	g_mutex_unlock(&all->machine->lock);
	if (!vms_machine_hold(all->machine, VMS_ALL_VCPUS, error))
		return false;
	bool done = remove_unwanted(all, error);
	return vms_machine_release(all->machine, VMS_ALL_VCPUS, done ? error : NULL) && done;
}

bool vms_stop_probes_disarm(struct vms_probes *probes, GError **error)
{
	VMS_STOP_LOCK(&set_of(probes)->all->taking);
	return disarm(set_of(probes), error);
}

bool vms_stop_probes_is_armed(struct vms_probes *probes)
{
	return atomic_load(&set_of(probes)->is_armed);
}

void vms_stop_probes_counts(struct vms_probes *probes, struct vms_probes_counts *ret)
{
	const struct vms_stop_set *set = set_of(probes);
	*ret = (struct vms_probes_counts) {
		.hits = atomic_load(&set->hits),
		.rejected = atomic_load(&set->rejected),
		.unknown = atomic_load(&set->unknown),
	};
}

void vms_stop_probes_free(struct vms_probes *probes)
{
	struct vms_stop_set *set = set_of(probes);
	struct vms_stop_probes *all = set->all;
	g_mutex_lock(&all->taking);
	disarm(set, NULL);
	g_mutex_lock(&all->machine->lock);
	g_ptr_array_remove(all->sets, set);
	const bool is_last = !all->sets->len;
	g_mutex_unlock(&all->machine->lock);
	if (is_last)
		free_memories(all);
	g_mutex_unlock(&all->taking);
	free_set(set);
}
