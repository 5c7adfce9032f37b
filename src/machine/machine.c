/* SPDX-License-Identifier: MIT */
/*
 * What all engines share: references, nested holds, epochs, and the locks around calls of an
 * engine. A unit is what is held together: one vCPU if the engine holds each by itself, else all
 * vCPUs.
 */
#include "base/clock.h"
#include "base/priority.h"
#include "machine/engine.h"
#include "machine/refusal.h"
#include <string.h>
#include <vmscope/log.h>

/* How often to try to hold vCPUs that wait for one another, and how long to wait in between. */
#define HOLD_TRIES    100
#define HOLD_PAUSE_US 1000

/* How long to wait for a machine that is closed. What is left to do then, its watchdog does. */
#define CLOSE_NS UINT64_C(2000000000)

/* Locks a mutex until the end of the block. */
#define HOLD_LOCK(mutex) G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(mutex)

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
	HOLD_LOCK(&machine->lock);
	return !machine->engine->check_ranges || machine->engine->check_ranges(machine, error);
}

bool vms_machine_check_vcpus(struct vms_machine *machine, GError **error)
{
	HOLD_LOCK(&machine->lock);
	return !machine->engine->check_vcpus || machine->engine->check_vcpus(machine, error);
}

bool vms_machine_update_ranges(struct vms_machine *machine, GError **error)
{
	HOLD_LOCK(&machine->lock);
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
			HOLD_LOCK(&machine->lock);
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

/* Gives the units [*first, *end) that `vcpu` stands for. */
static bool find_units(struct vms_machine *machine, int vcpu, unsigned *first, unsigned *end,
		       GError **error)
{
	if (vcpu != VMS_ALL_VCPUS && (vcpu < 0 || (unsigned)vcpu >= machine->n_vcpus)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "%s has no vCPU %d; it has %u, from 0", machine->info.name, vcpu,
			    machine->n_vcpus);
		return false;
	}
	bool each = machine->engine->holds_each;
	*first = each && vcpu >= 0 ? (unsigned)vcpu : 0;
	*end = !each || vcpu >= 0 ? *first + 1 : machine->n_vcpus;
	return true;
}

/* The vCPU by which an engine's functions know a unit. */
static int vcpu_of(const struct vms_machine *machine, unsigned unit)
{
	return machine->engine->holds_each ? (int)unit : VMS_ALL_VCPUS;
}

/* If the engine holds each vCPU, one that does not answer delays no other one. */
static GMutex *lock_of(struct vms_machine *machine, unsigned unit)
{
	return machine->engine->holds_each ? &machine->holds[unit].lock : &machine->lock;
}

/* Pins a brief hold. Under the unit's lock. */
static bool pin_unit(struct vms_machine *machine, unsigned unit)
{
	struct vms_hold_state *state = &machine->holds[unit];
	if (state->is_brief && machine->engine->pin(machine, vcpu_of(machine, unit)))
		state->is_brief = false;
	return !state->is_brief;
}

static bool begin_hold(struct vms_machine *machine, unsigned unit, bool brief, GError **error)
{
	struct vms_hold_state *state = &machine->holds[unit];
	const struct vms_engine *engine = machine->engine;
	bool is_brief = brief && engine->hold_briefly;
	if (!(is_brief ? engine->hold_briefly : engine->hold)(machine, vcpu_of(machine, unit),
							      error))
		return false;
	state->is_brief = is_brief;
	atomic_store(&state->epoch, atomic_fetch_add(&machine->last_epoch, 1) + 1);
	return true;
}

/* ---- who holds the whole machine ------------------------------------------- */

static void set_holder(struct vms_machine *machine, pid_t tid)
{
	struct vms_holder *holder = &machine->holder;
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&holder->lock);
	if (holder->is_hurried)
		vms_thread_end_real_time(holder->tid);
	holder->is_hurried = false;
	holder->tid = tid;
}

void vms_machine_hurry_holder(struct vms_machine *machine)
{
	struct vms_holder *holder = &machine->holder;
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&holder->lock);
	if (holder->tid && !holder->is_hurried)
		holder->is_hurried = vms_thread_set_real_time(holder->tid);
}

/*
 * A thread that holds the whole machine must not be late: the guest stands still, and who ends a
 * hold that lasts too long waits for this thread's lock.
 */
static void begin_urgency(struct vms_machine *machine, struct vms_hold_state *state)
{
	state->usual_nice = vms_thread_set_urgent();
	state->is_urgent = true;
	set_holder(machine, gettid());
}

static void end_urgency(struct vms_machine *machine, struct vms_hold_state *state)
{
	if (!state->is_urgent)
		return;
	set_holder(machine, 0);
	vms_thread_set_nice(state->usual_nice);
	state->is_urgent = false;
}

static bool begin_urgent_hold(struct vms_machine *machine, unsigned unit, bool brief,
			      GError **error)
{
	struct vms_hold_state *state = &machine->holds[unit];
	if (!machine->engine->holds_each)
		begin_urgency(machine, state);
	if (begin_hold(machine, unit, brief, error))
		return true;
	end_urgency(machine, state);
	return false;
}

/* ---- holds of units --------------------------------------------------------- */

static bool refuse_hold(struct vms_machine *machine, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "cannot hold %s while it is observed: release it first", machine->info.name);
	return false;
}

/* Returns false. */
static bool set_gone_on(struct vms_machine *machine, unsigned unit, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_GONE_ON,
		    "vCPU %u of %s was held only briefly, and has gone on: hold it again", unit,
		    machine->info.name);
	return false;
}

static bool hold_unit(struct vms_machine *machine, unsigned unit, bool brief, GError **error)
{
	struct vms_hold_state *state = &machine->holds[unit];
	HOLD_LOCK(lock_of(machine, unit));
	if (state->depth == 0 && !begin_urgent_hold(machine, unit, brief, error))
		return false;
	if (state->is_observed)
		return refuse_hold(machine, error);
	if (!brief && !pin_unit(machine, unit))
		return set_gone_on(machine, unit, error);
	state->depth++;
	return true;
}

static bool release_unit(struct vms_machine *machine, unsigned unit, GError **error)
{
	struct vms_hold_state *state = &machine->holds[unit];
	HOLD_LOCK(lock_of(machine, unit));
	if (--state->depth > 0)
		return true;
	state->is_brief = state->is_observed = false;
	atomic_store(&state->epoch, 0);
	bool released = machine->engine->release(machine, vcpu_of(machine, unit), error);
	end_urgency(machine, state);
	return released;
}

/* Releases all units. Gives the first error. */
static bool release_units(struct vms_machine *machine, unsigned first, unsigned end, GError **error)
{
	bool released = true;
	for (unsigned i = first; i < end; i++)
		released &= release_unit(machine, i, released ? error : NULL);
	return released;
}

/* Holds all units, or none of them. */
static bool hold_units(struct vms_machine *machine, unsigned first, unsigned end, bool brief,
		       GError **error)
{
	for (unsigned i = first; i < end; i++) {
		if (!hold_unit(machine, i, brief, error)) {
			release_units(machine, first, i, NULL);
			return false;
		}
	}
	return true;
}

/* Holds the units of `vcpu`, and tries again as long as they wait for one another. */
static bool hold_vcpu(struct vms_machine *machine, int vcpu, bool brief, GError **error)
{
	unsigned first, end;
	if (!find_units(machine, vcpu, &first, &end, error))
		return false;
	if (vcpu == VMS_ALL_VCPUS && machine->engine->before_holding_all)
		machine->engine->before_holding_all(machine);
	for (unsigned tries = 1;; tries++) {
		GError *failure = NULL;
		if (hold_units(machine, first, end, brief, &failure))
			return true;
		if (!g_error_matches(failure, VMS_ERROR, VMS_ERROR_WAITING) ||
		    tries == HOLD_TRIES) {
			g_propagate_error(error, failure);
			return false;
		}
		g_error_free(failure);
		g_usleep(HOLD_PAUSE_US);
	}
}

bool vms_machine_hold(struct vms_machine *machine, int vcpu, GError **error)
{
	return hold_vcpu(machine, vcpu, false, error);
}

/* Only engines that hold all vCPUs at once can observe them: there is one unit. */
static bool begin_observing(struct vms_machine *machine, GError **error)
{
	struct vms_hold_state *state = &machine->holds[0];
	HOLD_LOCK(lock_of(machine, 0));
	if (state->depth > 0 && !state->is_observed)
		return refuse_hold(machine, error);
	if (state->depth == 0 && !machine->engine->observe(machine, error))
		return false;
	state->is_observed = true;
	state->depth++;
	return true;
}

bool vms_machine_observe(struct vms_machine *machine, GError **error)
{
	GError *failure = NULL;
	if (machine->holds[0].is_observed)
		return begin_observing(machine, error);
	if (hold_vcpu(machine, VMS_ALL_VCPUS, false, &failure))
		return true;
	if (!vms_hold_was_refused(failure) || !machine->engine->observe ||
	    !begin_observing(machine, NULL)) {
		g_propagate_error(error, failure);
		return false;
	}
	g_error_free(failure);
	return true;
}

bool vms_machine_hold_briefly(struct vms_machine *machine, int vcpu, GError **error)
{
	return hold_vcpu(machine, vcpu, true, error);
}

bool vms_machine_pin(struct vms_machine *machine, unsigned vcpu)
{
	HOLD_LOCK(lock_of(machine, vcpu));
	return pin_unit(machine, vcpu);
}

bool vms_machine_release(struct vms_machine *machine, int vcpu, GError **error)
{
	unsigned first, end;
	if (!find_units(machine, vcpu, &first, &end, error))
		return false;
	for (unsigned i = first; i < end; i++) {
		HOLD_LOCK(lock_of(machine, i));
		if (machine->holds[i].depth == 0) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
				    "cannot release %s: it is not held", machine->info.name);
			return false;
		}
	}
	return release_units(machine, first, end, error);
}

bool vms_machine_is_paused(struct vms_machine *machine)
{
	return machine->engine->is_paused(machine);
}

char *vms_machine_pause_reason(struct vms_machine *machine)
{
	HOLD_LOCK(&machine->lock);
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

/* The epoch of several units is the latest one of theirs: since it began, all of them are held. */
uint64_t vms_machine_epoch(struct vms_machine *machine, int vcpu)
{
	unsigned first, end;
	uint64_t latest = 0;
	if (!find_units(machine, vcpu, &first, &end, NULL))
		return 0;
	for (unsigned i = first; i < end; i++) {
		uint64_t epoch = atomic_load(&machine->holds[i].epoch);
		if (epoch == 0)
			return 0;
		latest = MAX(latest, epoch);
	}
	return latest;
}

void vms_machine_add_regs(struct vms_machine *machine, unsigned vcpu, const struct vms_regs *learnt)
{
	if (!machine->learnt)
		machine->learnt = g_new0(struct vms_regs, machine->n_vcpus);
	machine->learnt[vcpu] = *learnt;
}

/* Adds the registers that the engine does not know but that were learnt, or assumed, elsewhere. */
static void complete_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *regs)
{
	for (unsigned i = 0; machine->learnt && i < machine->arch->n_regs; i++) {
		if (!vms_regs_have(regs, i))
			vms_regs_copy(regs, &machine->learnt[vcpu], i);
	}
}

/*
 * Reads the registers that are slow to read. The engine gets them by a connection that all vCPUs
 * share, so this takes the machine's lock, too.
 */
static bool get_system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			    GError **error)
{
	const struct vms_engine *engine = machine->engine;
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker =
		engine->holds_each ? g_mutex_locker_new(&machine->lock) : NULL;
	return !engine->system_regs || engine->system_regs(machine, vcpu, ret, error);
}

static void tell_assumed_mode(struct vms_machine *machine, unsigned vcpu,
			      const struct vms_regs *regs)
{
	struct vms_code_mode mode;
	vms_arch_code_mode(machine->arch, regs, &mode);
	if (!mode.is_certain && !atomic_exchange(&machine->told_mode, true))
		vms_log(VMS_LOG_WARNING,
			"%s: vCPU %u is not in 64-bit mode, and its segments cannot be asked for: "
			"taken for %u-bit code whose addresses count from 0",
			machine->info.name, vcpu, mode.bits);
}

/* A vCPU that has not moved since, as one that waits for good, has the same segments. */
static bool recall_segments(struct vms_machine *machine, unsigned vcpu, struct vms_regs *regs)
{
	const struct vms_seen_regs *seen = machine->seen[vcpu];
	if (!seen || memcmp(&seen->given, regs, sizeof(*regs)) != 0)
		return false;
	*regs = seen->all;
	return true;
}

static void remember_segments(struct vms_machine *machine, unsigned vcpu,
			      const struct vms_regs *given, const struct vms_regs *all)
{
	if (!machine->seen[vcpu])
		machine->seen[vcpu] = g_new(struct vms_seen_regs, 1);
	*machine->seen[vcpu] = (struct vms_seen_regs) { *given, *all };
}

/*
 * Outside of 64-bit mode addresses count from segments: nothing can be understood without them.
 * Where the engine does not tell them, the usual is assumed. Asking takes longer than a brief hold.
 */
static bool add_segments(struct vms_machine *machine, unsigned vcpu, unsigned unit,
			 struct vms_regs *regs, GError **error)
{
	const struct vms_arch *arch = machine->arch;
	struct vms_regs more = *regs;
	if (!arch->lacks_segments || !arch->lacks_segments(regs) ||
	    recall_segments(machine, vcpu, regs))
		return true;
	if (!pin_unit(machine, unit))
		return set_gone_on(machine, unit, error);
	if (get_system_regs(machine, vcpu, &more, NULL)) {
		remember_segments(machine, vcpu, regs, &more);
		*regs = more;
	}
	tell_assumed_mode(machine, vcpu, regs);
	return true;
}

/* Finds the unit of a vCPU whose registers are to be read. */
static bool find_unit(struct vms_machine *machine, unsigned vcpu, unsigned *unit, GError **error)
{
	unsigned end;
	return find_units(machine, vcpu < machine->n_vcpus ? (int)vcpu : G_MAXINT, unit, &end,
			  error);
}

/* Fails unless the unit of a vCPU is held. The caller has its lock. */
static bool check_held(const struct vms_machine *machine, unsigned vcpu, unsigned unit,
		       GError **error)
{
	if (machine->holds[unit].depth > 0)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    "cannot read registers of vCPU %u of %s: it is not held", vcpu,
		    machine->info.name);
	return false;
}

enum which_regs { STACK_REGS, GENERAL_REGS, ALL_REGS };

static bool get_regs(struct vms_machine *machine, unsigned vcpu, enum which_regs which,
		     struct vms_regs *ret, GError **error)
{
	const struct vms_engine *engine = machine->engine;
	const bool only_stack = which == STACK_REGS && engine->stack_regs;
	const bool all = which == ALL_REGS;
	unsigned unit;
	if (!find_unit(machine, vcpu, &unit, error))
		return false;
	HOLD_LOCK(lock_of(machine, unit));
	if (!check_held(machine, vcpu, unit, error))
		return false;
	if (!(only_stack ? engine->stack_regs : engine->regs)(machine, vcpu, ret, error) ||
	    (all && !get_system_regs(machine, vcpu, ret, error)))
		return false;
	complete_regs(machine, vcpu, ret);
	return all || add_segments(machine, vcpu, unit, ret, error);
}

bool vms_machine_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
		      GError **error)
{
	return get_regs(machine, vcpu, GENERAL_REGS, ret, error);
}

bool vms_machine_stack_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			    GError **error)
{
	return get_regs(machine, vcpu, STACK_REGS, ret, error);
}

bool vms_machine_all_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error)
{
	return get_regs(machine, vcpu, ALL_REGS, ret, error);
}

bool vms_machine_wide_regs(struct vms_machine *machine, unsigned vcpu, struct vms_wide_regs *ret,
			   GError **error)
{
	unsigned unit;
	if (!find_unit(machine, vcpu, &unit, error))
		return false;
	HOLD_LOCK(lock_of(machine, unit));
	if (!check_held(machine, vcpu, unit, error))
		return false;
	if (machine->engine->wide_regs)
		return machine->engine->wide_regs(machine, vcpu, ret, error);
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "%s: registers of more than 64 bits cannot be read (%s)", machine->info.name,
		    machine->engine->name);
	return false;
}

bool vms_machine_read_phys(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	const struct vms_engine *engine = machine->engine;
	if (size && size - 1 > G_MAXUINT64 - pa)
		return false;
	if (engine->read_ram && engine->read_ram(machine, pa, buf, size))
		return true;
	HOLD_LOCK(&machine->lock);
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
	HOLD_LOCK(lock_of(machine, vcpu));
	if (machine->engine->prefetch)
		machine->engine->prefetch(machine, vcpu, pa);
}

const void *vms_machine_prefetched(struct vms_machine *machine, unsigned vcpu, uint64_t pa)
{
	HOLD_LOCK(lock_of(machine, vcpu));
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
