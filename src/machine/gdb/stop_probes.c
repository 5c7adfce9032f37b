/* SPDX-License-Identifier: MIT */
#include "machine/gdb/stop_probes.h"

#include "base/clock.h"
#include "base/priority.h"
#include <string.h>

/*
 * How many breakpoints a processor has in its debug registers, at least. With KVM there are no
 * others: they would be instructions in the guest's memory, and stay there if all of us are killed.
 */
#define HARDWARE_POINTS 4
/*
 * How long a step may take: a busy host may have no processor for the vCPU. An instruction that
 * waits for an interrupt gets none during a step, and has not ended when we interrupt it.
 */
#define STEP_NS	     UINT64_C(1000000000)
#define WAIT_STEP_NS UINT64_C(20000000)
/* How often to step an instruction that repeats itself at the same address. */
#define STEPS_MAX 64
/* How many breakpoints a machine may have. */
#define POINTS_MAX 65536

#define HOLD_LOCK(mutex) G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(mutex)

/* Probes that were armed together. */
struct vms_stop_set {
	struct vms_probes probes;
	struct vms_stop_probes *all;
	struct vms_place *places; /* with copies of their programs */
	size_t n;
	int vcpu;
	uint64_t max_hits;
	void (*hit)(const struct vms_hit *hit, void *data);
	void *data;
	atomic_bool is_armed;
	_Atomic uint64_t hits, rejected, unknown;
};

enum vms_stop_state { VCPU_FREE, VCPU_ARRIVED, VCPU_HANDED_OUT, VCPU_STEPPED };

/* Tells a visit of a vCPU at a place from the next one. */
struct visit {
	uint64_t pc, sp, root;
};

struct vms_stop_vcpu {
	enum vms_stop_state state;
	struct visit visit; /* of this stop */
	bool is_known;	    /* it is the pending one */
	/* Hits that were handed out, and whose instruction was not executed as far as we know. */
	bool is_pending;
	struct visit pending;
};

/* A program to be run at this stop. */
struct due {
	struct vms_stop_set *set;
	unsigned place, vcpu;
};

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

static struct vms_gdb_point *points_of(const struct vms_stop_probes *all)
{
	return (struct vms_gdb_point *)(void *)all->points->data;
}

static struct vms_gdb_point *find_point(const struct vms_stop_probes *all, uint64_t va)
{
	for (unsigned i = 0; i < all->points->len; i++)
		if (points_of(all)[i].va == va)
			return &points_of(all)[i];
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

/* True if a breakpoint there is wanted. */
static bool is_wanted(const struct vms_stop_probes *all, uint64_t va)
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
		points_of(all)[i].is_unwanted = !is_wanted(all, points_of(all)[i].va);
}

/* Forgets breakpoints that are not wanted and not set. */
static void drop_points(struct vms_stop_probes *all)
{
	for (unsigned i = all->points->len; i-- > 0;)
		if (points_of(all)[i].is_unwanted && !points_of(all)[i].is_set)
			g_array_remove_index_fast(all->points, i);
}

static bool add_points(struct vms_stop_probes *all, const struct vms_stop_set *set, GError **error)
{
	for (size_t i = 0; i < set->n; i++) {
		struct vms_gdb_point *known = find_point(all, set->places[i].va);
		struct vms_gdb_point point = {
			.va = set->places[i].va,
			.is_hardware = all->is_hardware,
		};
		if (known)
			known->is_unwanted = false;
		else
			g_array_append_val(all->points, point);
	}
	if (all->points->len <= (all->is_hardware ? HARDWARE_POINTS : POINTS_MAX))
		return true;
	return vms_gdb_fail(
		all->gdb, VMS_ERROR_BUSY,
		all->is_hardware
			? "with KVM there can be probes at 4 addresses at most, as many as "
			  "the processor has debug registers"
			: "there are too many probes",
		error);
}

/* Ends a set. Its breakpoints stay until the stub removes them. */
static void end_set(struct vms_stop_set *set)
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
	bool done = add_points(all, set, error) &&
		    vms_gdb_set_points(all->gdb, points_of(all), all->points->len, true, error);
	for (size_t i = 0; done && i < set->n; i++) {
		const uint64_t va = set->places[i].va;
		const struct vms_gdb_point *point = find_point(all, va);
		if (point && point->is_set)
			continue;
		done = false;
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "%s: there can be no breakpoint at 0x%" G_GINT64_MODIFIER "x",
			    all->machine->info.name, va);
	}
	if (done)
		return true;
	end_set(set);
	struct vms_gdb_departure nothing = { .vcpu = -1 };
	if (!all->gdb->broken)
		vms_gdb_depart(all->gdb, &nothing, points_of(all), all->points->len, NULL);
	drop_points(all);
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
	g_free(set);
	vms_machine_unref(machine);
}

/* Arms a set in the held machine. */
static bool arm_held(struct vms_stop_probes *all, struct vms_stop_set *set, GError **error)
{
	HOLD_LOCK(&all->machine->lock);
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
		end_set(set);
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
	HOLD_LOCK(&all->taking);
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
	HOLD_LOCK(&all->machine->lock);
	if (!vms_stop_probes_are_set(all))
		return true;
	if (!all->operations->begin(all->machine, error))
		return false;
	bool done = vms_gdb_depart(all->gdb, &nothing, points_of(all), all->points->len, error);
	if (done)
		drop_points(all);
	all->operations->end(all->machine);
	return done;
}

/* Under `taking`. */
static bool disarm(struct vms_stop_set *set, GError **error)
{
	struct vms_stop_probes *all = set->all;
	if (!atomic_load(&set->is_armed))
		return true;
	g_mutex_lock(&all->machine->lock);
	end_set(set);
	g_mutex_unlock(&all->machine->lock);
	if (!vms_machine_hold(all->machine, VMS_ALL_VCPUS, error))
		return false;
	bool done = remove_unwanted(all, error);
	return vms_machine_release(all->machine, VMS_ALL_VCPUS, done ? error : NULL) && done;
}

bool vms_stop_probes_disarm(struct vms_probes *probes, GError **error)
{
	HOLD_LOCK(&set_of(probes)->all->taking);
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

/* ---- for the engine ---------------------------------------------------- */

static struct visit visit_of(const struct vms_stop_probes *all, const struct vms_regs *regs)
{
	const struct vms_arch *arch = all->machine->arch;
	return (struct visit) {
		.pc = vms_arch_code_address(arch, regs),
		.sp = regs->value[arch->sp],
		.root = regs->value[arch->space],
	};
}

static bool is_same_visit(const struct visit *a, const struct visit *b)
{
	return a->pc == b->pc && a->sp == b->sp && a->root == b->root;
}

bool vms_stop_probes_arrive(struct vms_stop_probes *all, GError **error)
{
	all->time_ns = vms_clock_now_ns();
	for (unsigned i = 0; i < all->machine->n_vcpus; i++) {
		struct vms_stop_vcpu *vcpu = &all->vcpus[i];
		struct vms_regs regs;
		if (vcpu->state == VCPU_STEPPED)
			continue;
		if (!vms_gdb_regs(all->gdb, i, &regs, error))
			return false;
		vcpu->visit = visit_of(all, &regs);
		const struct vms_gdb_point *point = find_point(all, vcpu->visit.pc);
		if (!point)
			vcpu->state = VCPU_FREE;
		else
			vcpu->state = VCPU_ARRIVED;
		vcpu->is_known = vcpu->is_pending && is_same_visit(&vcpu->pending, &vcpu->visit);
		if (point && vcpu->is_known)
			vcpu->state = VCPU_HANDED_OUT;
	}
	vms_stop_probes_set_at_hit(all, true);
	return true;
}

static unsigned count_state(const struct vms_stop_probes *all, enum vms_stop_state state)
{
	unsigned n = 0;
	for (unsigned i = 0; i < all->machine->n_vcpus; i++)
		n += all->vcpus[i].state == state;
	return n;
}

static bool has_state(const struct vms_stop_probes *all, enum vms_stop_state state)
{
	return count_state(all, state) > 0;
}

/* True if a place for after the instruction is wanted there. */
static bool has_place_after(const struct vms_stop_probes *all, uint64_t va)
{
	for (unsigned i = 0; i < all->sets->len; i++) {
		const struct vms_stop_set *set = all->sets->pdata[i];
		for (size_t j = 0; atomic_load(&set->is_armed) && j < set->n; j++)
			if (set->places[j].va == va && set->places[j].after)
				return true;
	}
	return false;
}

/* Reads the pc of a vCPU that has been stepped. */
static bool read_pc(struct vms_stop_probes *all, unsigned vcpu, uint64_t *pc, GError **error)
{
	struct vms_gdb_departure look = { .vcpu = (int)vcpu };
	if (!vms_gdb_depart(all->gdb, &look, NULL, 0, error))
		return false;
	*pc = look.pc;
	return true;
}

/*
 * Steps one vCPU over its place. An instruction that repeats itself is stepped until it ends; if
 * that takes too many steps, it goes on as a visit that was counted. Under TCG (from QEMU 6.2 on) a
 * step does not heed the breakpoint, which can stay then: no vCPU misses it, whoever resumes the
 * machine meanwhile.
 */
static bool step_vcpu(struct vms_stop_probes *all, unsigned index, enum vms_gdb_step_end *end,
		      unsigned *n_steps, GError **error)
{
	struct vms_stop_vcpu *vcpu = &all->vcpus[index];
	struct vms_gdb_point *point = find_point(all, vcpu->visit.pc);
	struct vms_gdb_step step = { .vcpu = index };
	uint64_t pc = vcpu->visit.pc;
	/* Where nothing more is done for it, the pc is read along with the departure. */
	const bool is_last = !vcpu->is_known && count_state(all, VCPU_HANDED_OUT) == 1 &&
			     !has_state(all, VCPU_STEPPED) && !has_place_after(all, pc);
	vcpu->state = VCPU_FREE;
	*end = VMS_STEP_DONE;
	if (!point || point->is_unwanted) {
		vcpu->is_pending = false;
		return true;
	}
	for (unsigned i = 0; i < STEPS_MAX && pc == vcpu->visit.pc; i++) {
		step.removes = point->is_hardware || i > 0;
		step.limit_ns = point->waits ? WAIT_STEP_NS : STEP_NS;
		if (!vms_gdb_step(all->gdb, &step, point, error))
			return false;
		++*n_steps;
		*end = step.end;
		all->is_interrupted = step.end == VMS_STEP_INTERRUPTED;
		if (step.end == VMS_STEP_STOPPED)
			return true;
		if (is_last && step.pc == pc && step.end == VMS_STEP_DONE) {
			all->departing = (int)index;
			return true;
		}
		if (!read_pc(all, index, &pc, error))
			return false;
		/* Somebody has resumed the machine before: it was another instruction. */
		if (step.pc != vcpu->visit.pc)
			return true;
		if (step.end != VMS_STEP_INTERRUPTED)
			continue;
		/* Else the vCPU had no processor of the host's, and comes back. */
		point->waits |= pc != step.pc || vcpu->is_known;
		break;
	}
	if (pc == vcpu->visit.pc)
		return true;
	vcpu->is_pending = false;
	if (has_place_after(all, vcpu->visit.pc))
		vcpu->state = VCPU_STEPPED;
	return true;
}

/* Frees the vCPUs whose hits nobody wants any more, so that the machine does not wait for them. */
static void free_unwanted(struct vms_stop_probes *all)
{
	for (unsigned i = 0; i < all->machine->n_vcpus; i++) {
		struct vms_stop_vcpu *vcpu = &all->vcpus[i];
		const bool is_wanted_here = vcpu->state == VCPU_STEPPED
						    ? has_place_after(all, vcpu->visit.pc)
						    : is_wanted(all, vcpu->visit.pc);
		if (vcpu->state != VCPU_FREE && !is_wanted_here) {
			vcpu->state = VCPU_FREE;
			vcpu->is_pending = false;
		}
	}
}

bool vms_stop_probes_step(struct vms_stop_probes *all, enum vms_stop_departure *ret,
			  unsigned *n_steps, GError **error)
{
	enum vms_gdb_step_end end;
	*ret = VMS_DEPART_NOT_YET;
	all->departing = -1;
	free_unwanted(all);
	if (has_state(all, VCPU_ARRIVED) || has_state(all, VCPU_STEPPED))
		return true;
	*ret = VMS_DEPART_NEVER;
	if (all->halts)
		return true;
	for (unsigned i = 0; i < all->machine->n_vcpus; i++) {
		if (all->vcpus[i].state != VCPU_HANDED_OUT)
			continue;
		if (!step_vcpu(all, i, &end, n_steps, error))
			return false;
		*ret = end == VMS_STEP_STOPPED ? VMS_DEPART_STOPPED : VMS_DEPART_AGAIN;
		if (end == VMS_STEP_STOPPED || has_state(all, VCPU_HANDED_OUT))
			return true;
	}
	*ret = has_state(all, VCPU_STEPPED) ? VMS_DEPART_NOT_YET : VMS_DEPART_NOW;
	return true;
}

bool vms_stop_probes_depart(struct vms_stop_probes *all, struct vms_gdb_departure *departure,
			    GError **error)
{
	struct vms_stop_vcpu *vcpu = all->departing >= 0 ? &all->vcpus[all->departing] : NULL;
	departure->vcpu = all->departing;
	all->departing = -1;
	all->halts = all->is_interrupted = false;
	if (!vms_gdb_depart(all->gdb, departure, points_of(all), all->points->len, error))
		return false;
	if (vcpu && departure->pc != vcpu->visit.pc)
		vcpu->is_pending = false;
	drop_points(all);
	vms_stop_probes_set_at_hit(all, false);
	return true;
}

void vms_stop_probes_forget_visits(struct vms_stop_probes *all)
{
	for (unsigned i = 0; all->vcpus && i < all->machine->n_vcpus; i++)
		all->vcpus[i] = (struct vms_stop_vcpu) { 0 };
}

void vms_stop_probes_are_gone(struct vms_stop_probes *all, char *reason)
{
	for (unsigned i = 0; i < all->sets->len; i++)
		end_set(all->sets->pdata[i]);
	g_array_set_size(all->points, 0);
	vms_stop_probes_forget_visits(all);
	all->halts = false;
	all->departing = -1;
	vms_stop_probes_set_at_hit(all, false);
	g_free(all->reason);
	all->reason = reason;
}

bool vms_stop_probes_take_away(struct vms_stop_probes *all, char *reason, GError **error)
{
	bool done = vms_gdb_set_points(all->gdb, points_of(all), all->points->len, false, error);
	vms_stop_probes_are_gone(all, reason);
	return done;
}

/* ---- handing out ------------------------------------------------------- */

/* Lists what is to be run for one vCPU. */
static void list_due_of(struct vms_stop_probes *all, unsigned index, GArray *list)
{
	const struct vms_stop_vcpu *vcpu = &all->vcpus[index];
	const bool after = vcpu->state == VCPU_STEPPED;
	if (vcpu->state != VCPU_ARRIVED && !after)
		return;
	for (unsigned i = 0; i < all->sets->len; i++) {
		struct vms_stop_set *set = all->sets->pdata[i];
		if (set->vcpu != VMS_ALL_VCPUS && set->vcpu != (int)index)
			continue;
		for (size_t j = 0; j < set->n; j++) {
			const struct due due = { set, (unsigned)j, index };
			if (set->places[j].va == vcpu->visit.pc && set->places[j].after == after)
				g_array_append_val(list, due);
		}
	}
}

/* Lists what is to be run at this stop. Notes that it was handed out. */
static GArray *take_due(struct vms_stop_probes *all)
{
	HOLD_LOCK(&all->machine->lock);
	GArray *list = g_array_new(FALSE, FALSE, sizeof(struct due));
	if (!vms_stop_probes_is_at_hit(all))
		return list;
	for (unsigned i = 0; i < all->machine->n_vcpus; i++) {
		struct vms_stop_vcpu *vcpu = &all->vcpus[i];
		list_due_of(all, i, list);
		if (vcpu->state == VCPU_ARRIVED) {
			vcpu->state = VCPU_HANDED_OUT;
			vcpu->is_pending = true;
			vcpu->pending = vcpu->visit;
		} else if (vcpu->state == VCPU_STEPPED) {
			vcpu->state = VCPU_FREE;
		}
	}
	return list;
}

/* What the programs of a vCPU read. */
struct vcpu_input {
	const struct vms_regs *regs;
	struct vms_memory *memory;
};

static bool read_register(void *data, unsigned reg, uint64_t *ret)
{
	const struct vcpu_input *input = data;
	if (!vms_regs_have(input->regs, reg))
		return false;
	*ret = input->regs->value[reg];
	return true;
}

static bool read_memory(void *data, uint64_t va, void *buf, size_t size)
{
	const struct vcpu_input *input = data;
	return vms_memory_read(input->memory, va, buf, size);
}

/* The memory of a vCPU at this stop. */
static struct vms_memory *memory_of(struct vms_stop_probes *all, unsigned vcpu,
				    const struct vms_regs *regs)
{
	if (!all->memories)
		all->memories = g_new0(struct vms_memory *, all->machine->n_vcpus);
	if (!all->memories[vcpu])
		all->memories[vcpu] = vms_memory_new(all->machine, regs);
	else
		vms_memory_set_regs(all->memories[vcpu], regs);
	return all->memories[vcpu];
}

/* Counts a hit, and ends its set with the last one. Returns its number. */
static uint64_t count_hit(struct vms_stop_set *set)
{
	const uint64_t number = atomic_fetch_add(&set->hits, 1) + 1;
	if (number == set->max_hits) {
		HOLD_LOCK(&set->all->machine->lock);
		end_set(set);
	}
	return number;
}

/* Runs one program, and hands its values out. */
static void run_due(struct vms_stop_probes *all, const struct due *due, const struct vms_regs *regs)
{
	struct vms_stop_set *set = due->set;
	const struct vms_place *place = &set->places[due->place];
	struct vcpu_input data = { regs, memory_of(all, due->vcpu, regs) };
	const struct vms_program_input input = {
		.reg = read_register,
		.read = read_memory,
		.data = &data,
		.vcpu = due->vcpu,
	};
	struct vms_hit hit = {
		.time_ns = all->time_ns,
		.place = due->place,
		.vcpu = due->vcpu,
		.regs = regs,
	};
	if (!atomic_load(&set->is_armed))
		return;
	if (!all->output)
		all->output = g_malloc(VMS_PROGRAM_OUTPUT_MAX);
	switch (vms_program_run(place->program, &input, all->output, &hit.size)) {
	case VMS_PROGRAM_REJECTED: atomic_fetch_add(&set->rejected, 1); return;
	case VMS_PROGRAM_UNKNOWN: atomic_fetch_add(&set->unknown, 1); return;
	case VMS_PROGRAM_COMPLETE:
	default: break;
	}
	hit.number = count_hit(set);
	hit.values = all->output;
	all->halts |= place->halts;
	set->hit(&hit, set->data);
}

/* Forgets the visit of a vCPU that could not be read, so that it is a hit when it comes back. */
static void forget_visit(struct vms_stop_probes *all, unsigned vcpu)
{
	HOLD_LOCK(&all->machine->lock);
	all->vcpus[vcpu].state = VCPU_FREE;
	all->vcpus[vcpu].is_pending = false;
}

/*
 * Runs what is due in the held machine. If the hold has ended, since somebody has resumed the
 * machine, registers cannot be read: the vCPU stops at the same place once more.
 */
static bool hand_out(struct vms_stop_probes *all)
{
	g_autoptr(GArray) list = take_due(all);
	struct vms_regs regs;
	bool is_read = false;
	for (unsigned i = 0; i < list->len; i++) {
		const struct due *due = &g_array_index(list, struct due, i);
		const bool is_next = i == 0 || due->vcpu != due[-1].vcpu;
		if (is_next)
			is_read = vms_machine_regs(all->machine, due->vcpu, &regs, NULL);
		if (is_read)
			run_due(all, due, &regs);
		else if (is_next)
			forget_visit(all, due->vcpu);
	}
	return list->len;
}

/* True if there are programs to be run after the instructions that vCPUs have executed. */
static bool has_stepped(struct vms_stop_probes *all)
{
	HOLD_LOCK(&all->machine->lock);
	return vms_stop_probes_is_at_hit(all) && has_state(all, VCPU_STEPPED);
}

/* Deals with a machine that may stand at a breakpoint. Sets *any if there were hits. */
static bool deal_with_stop(struct vms_stop_probes *all, bool *any, GError **error)
{
	HOLD_LOCK(&all->taking);
	do {
		if (!vms_machine_hold(all->machine, VMS_ALL_VCPUS, error))
			return false;
		*any |= hand_out(all);
		if (!vms_machine_release(all->machine, VMS_ALL_VCPUS, error))
			return false;
	} while (has_stepped(all));
	return true;
}

/* Returns false, with an error, if all places were taken away. */
static bool check_reason(struct vms_stop_probes *all, GError **error)
{
	HOLD_LOCK(&all->machine->lock);
	if (!all->reason)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_NOW,
		    "%s: the probes were taken away, because of %s", all->machine->info.name,
		    all->reason);
	return false;
}

static bool take(struct vms_stop_probes *all, unsigned timeout_ms, GError **error)
{
	const uint64_t deadline_ns = vms_clock_now_ns() + timeout_ms * UINT64_C(1000000);
	bool any = false;
	do {
		bool stands = false;
		if (!check_reason(all, error) ||
		    !all->operations->wait(all->machine, deadline_ns, &stands, error))
			return false;
		g_autoptr(GError) failure = NULL;
		if (stands && !deal_with_stop(all, &any, &failure)) {
			if (!check_reason(all, error))
				return false;
			if (vms_machine_ended(all->machine) == VMS_MACHINE_GONE) {
				g_propagate_error(error, g_steal_pointer(&failure));
				return false;
			}
		}
	} while (!any && vms_clock_now_ns() < deadline_ns);
	return true;
}

/* The machine stands still until its stop is seen, so the thread runs before others all the time.
 */
bool vms_stop_probes_take(struct vms_stop_probes *all, unsigned timeout_ms, GError **error)
{
	const int usual_nice = vms_thread_set_urgent();
	const bool done = take(all, timeout_ms, error);
	vms_thread_set_nice(usual_nice);
	return done;
}
