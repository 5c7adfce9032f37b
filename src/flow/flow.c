/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/keyed_hash.h"
#include "base/options.h"
#include "flow/aggregate.h"
#include "flow/record.h"
#include "flow/report.h"
#include <string.h>
#include <vmscope/log.h>

#define DEFERRED_MAX 1000 /* hits whose stacks are not walked yet */
#define WAIT_MS	     50	  /* for hits, until the thread checks again whether the flow has to end */

struct vms_flow {
	gatomicrefcount refs;
	struct vms_machine *machine;
	struct vms_guest *guest;
	bool is_stale; /* a reset of the guest was reported; used by the flow's thread only */
	struct vms_flow_options options;

	GMutex control;	   /* of enable and disable; taken before `lock` */
	GMutex lock;	   /* of the fields below, up to `failure` */
	GCond ended;	   /* `is_enabled` has become false */
	GPtrArray *places; /* struct vms_flow_place *; does not change while it is enabled */
	GHashTable *taken; /* the places by address, moment, and whether calls are followed */
	GQueue records;	   /* struct vms_flow_record *, the oldest first */
	uint64_t max_records;
	struct vms_flow_progress before;     /* counts until it was enabled the last time */
	struct vms_flow_progress now;	     /* counts since then that the flow itself makes */
	struct vms_aggregation *aggregation; /* or NULL: hits become records */
	struct vms_aggregate *added_up;	     /* until it was enabled the last time */
	bool is_enabled, must_end;
	struct vms_probes *probes; /* while it is enabled, and until its thread is joined */
	GThread *thread;
	GError *failure; /* NULL if it has ended by its limit or by vms_flow_disable */

	/*
	 * Hits of a flow with stacks. They may come while the machine is held, but to walk a stack,
	 * files are read. So the flow's thread records them later.
	 */
	GAsyncQueue *deferred; /* struct deferred * */

	GMutex walking;			/* of the fields below; taken before `lock` */
	struct vms_flow_walker *walker; /* NULL until needed, or if stacks cannot be walked */
	GByteArray *walked;		/* values of a hit whose stacks have been walked */
};

/* ---- places ----------------------------------------------------------------------------- */

static void unref_place(gpointer place)
{
	vms_flow_place_unref(place);
}

static guint hash_place(gconstpointer key)
{
	const struct vms_flow_place *place = key;
	return vms_hash_int64(&place->va) ^ (guint)place->is_after;
}

static gboolean is_same_place(gconstpointer a, gconstpointer b)
{
	const struct vms_flow_place *one = a, *other = b;
	return one->va == other->va && one->is_after == other->is_after &&
	       !one->returned == !other->returned;
}

static bool check_options(struct vms_machine *machine, const struct vms_flow_options *options,
			  GError **error)
{
	if (!options->one_vcpu || options->vcpu < vms_machine_vcpus(machine))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "there is no vCPU %u: the machine has %u vCPUs", options->vcpu,
		    vms_machine_vcpus(machine));
	return false;
}

struct vms_flow *vms_flow_new(struct vms_machine *machine, struct vms_guest *guest,
			      const struct vms_flow_options *options, GError **error)
{
	struct vms_flow_options copy;
	if (!vms_options_copy(options, &copy, sizeof(copy), "vms_flow_options", error) ||
	    !check_options(machine, &copy, error))
		return NULL;
	struct vms_flow *flow = g_new0(struct vms_flow, 1);
	g_atomic_ref_count_init(&flow->refs);
	flow->machine = vms_machine_ref(machine);
	flow->guest = vms_guest_ref(guest);
	flow->options = copy;
	if (copy.common) {
		vms_probe_ref(copy.common);
		vms_probe_freeze(copy.common);
	}
	g_mutex_init(&flow->control);
	g_mutex_init(&flow->lock);
	g_cond_init(&flow->ended);
	g_mutex_init(&flow->walking);
	flow->walked = g_byte_array_new();
	flow->deferred = g_async_queue_new_full(g_free);
	g_queue_init(&flow->records);
	flow->places = g_ptr_array_new_with_free_func(unref_place);
	flow->taken = g_hash_table_new(hash_place, is_same_place);
	return flow;
}

struct vms_flow *vms_flow_ref(struct vms_flow *flow)
{
	g_atomic_ref_count_inc(&flow->refs);
	return flow;
}

void vms_flow_unref(struct vms_flow *flow)
{
	if (!flow || !g_atomic_ref_count_dec(&flow->refs))
		return;
	vms_flow_disable(flow, NULL);
	vms_flow_clear(flow);
	g_hash_table_unref(flow->taken);
	g_ptr_array_unref(flow->places);
	vms_aggregate_free(flow->added_up);
	vms_aggregation_unref(flow->aggregation);
	vms_probe_unref(flow->options.common);
	vms_flow_walker_free(flow->walker);
	g_byte_array_unref(flow->walked);
	g_async_queue_unref(flow->deferred);
	vms_guest_unref(flow->guest);
	vms_machine_unref(flow->machine);
	g_mutex_clear(&flow->walking);
	g_mutex_clear(&flow->control);
	g_mutex_clear(&flow->lock);
	g_cond_clear(&flow->ended);
	g_free(flow);
}

/* A place that is to be added. */
struct new_place {
	uint64_t va;
	bool is_after;
	struct vms_probe *probe;
	struct vms_probe *returned; /* the place's calls are followed; or NULL */
};

static struct vms_flow_place *make_place(struct vms_flow *flow, const struct new_place *wanted,
					 GError **error)
{
	const struct vms_arch *arch = vms_machine_arch(flow->machine);
	struct vms_flow_place *place = vms_flow_place_new(
		arch, flow->options.without_tasks ? NULL : flow->guest, wanted->va,
		wanted->is_after, wanted->probe, flow->options.common, flow->aggregation, error);
	if (!place || ((!wanted->returned || vms_flow_place_follow(place, arch, wanted->returned,
								   flow->aggregation, error)) &&
		       vms_flow_place_check(place, error)))
		return place;
	vms_flow_place_unref(place);
	return NULL;
}

/* Adds a place. The caller holds the lock. */
static bool add_place(struct vms_flow *flow, const struct new_place *wanted, GError **error)
{
	const struct vms_flow_place key = { .va = wanted->va,
					    .is_after = wanted->is_after,
					    .returned = wanted->returned };
	if (g_hash_table_contains(flow->taken, &key)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_EXISTS,
			    "the flow already has a probe %s 0x%" G_GINT64_MODIFIER "x",
			    wanted->returned   ? "of calls of"
			    : wanted->is_after ? "after the instruction at"
					       : "before the instruction at",
			    wanted->va);
		return false;
	}
	struct vms_flow_place *place = make_place(flow, wanted, error);
	if (!place)
		return false;
	g_ptr_array_add(flow->places, place);
	g_hash_table_add(flow->taken, place);
	return true;
}

/* Removes all places after the first `n`. The caller holds the lock. */
static void keep_places(struct vms_flow *flow, guint n)
{
	for (guint i = n; i < flow->places->len; i++)
		g_hash_table_remove(flow->taken, flow->places->pdata[i]);
	g_ptr_array_set_size(flow->places, (gint)n);
}

/* Adds all places, or none if one of them fails. */
static bool add_places(struct vms_flow *flow, const struct new_place *new_places, size_t n,
		       GError **error)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	const guint before = flow->places->len;
	if (flow->is_enabled) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "cannot add a place to the flow: it is enabled; disable it first");
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (!add_place(flow, &new_places[i], error)) {
			keep_places(flow, before);
			return false;
		}
	}
	for (size_t i = 0; i < n; i++) {
		vms_probe_freeze(new_places[i].probe);
		if (new_places[i].returned)
			vms_probe_freeze(new_places[i].returned);
	}
	return true;
}

bool vms_flow_add(struct vms_flow *flow, uint64_t va, unsigned moments, struct vms_probe *probe,
		  GError **error)
{
	struct new_place new_places[2];
	size_t n = 0;
	if (!moments || moments & ~(unsigned)(VMS_FLOW_BEFORE | VMS_FLOW_AFTER)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "the moments of a probe must be VMS_FLOW_BEFORE, VMS_FLOW_AFTER or "
			    "both, not 0x%x",
			    moments);
		return false;
	}
	if (moments & VMS_FLOW_BEFORE)
		new_places[n++] = (struct new_place) { va, false, probe, NULL };
	if (moments & VMS_FLOW_AFTER)
		new_places[n++] = (struct new_place) { va, true, probe, NULL };
	return add_places(flow, new_places, n, error);
}

bool vms_flow_add_call(struct vms_flow *flow, uint64_t va, struct vms_probe *probe,
		       struct vms_probe *returned, GError **error)
{
	const struct new_place wanted = { va, false, probe, returned };
	return add_places(flow, &wanted, 1, error);
}

bool vms_flow_add_graph(struct vms_flow *flow, const struct vms_cfg *cfg, struct vms_probe *entry,
			struct vms_probe *exit, struct vms_probe *other, size_t *n_cut,
			GError **error)
{
	size_t n, cut = 0;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	g_autoptr(GArray) new_places = g_array_new(FALSE, FALSE, sizeof(struct new_place));
	for (size_t i = 0; i < n; i++) {
		const bool leaves = blocks[i].end == VMS_BLOCK_EXIT;
		struct vms_probe *first = i == vms_cfg_entry(cfg) ? entry : leaves ? NULL : other;
		const struct new_place before = { blocks[i].va, false, first, NULL };
		const struct new_place after = { blocks[i].last, true, exit, NULL };
		if (first)
			g_array_append_val(new_places, before);
		if (leaves && exit)
			g_array_append_val(new_places, after);
		cut += blocks[i].end == VMS_BLOCK_CUT;
	}
	if (n_cut)
		*n_cut = cut;
	return add_places(flow, (const struct new_place *)(const void *)new_places->data,
			  new_places->len, error);
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

GArray *vms_flow_addresses(struct vms_flow *flow)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	GArray *vas = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	for (guint i = 0; i < flow->places->len; i++)
		g_array_append_val(vas, ((struct vms_flow_place *)flow->places->pdata[i])->va);
	g_array_sort(vas, compare_addresses);
	for (guint i = vas->len; i > 1; i--)
		if (g_array_index(vas, uint64_t, i - 1) == g_array_index(vas, uint64_t, i - 2))
			g_array_remove_index(vas, i - 1);
	return vas;
}

bool vms_flow_remove(struct vms_flow *flow, const uint64_t *vas, size_t n, GError **error)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	if (flow->is_enabled) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "cannot remove a place from the flow: it is enabled; disable it first");
		return false;
	}
	g_autoptr(GHashTable) gone = g_hash_table_new(vms_hash_int64, g_int64_equal);
	for (size_t i = 0; i < n; i++)
		g_hash_table_add(gone, (void *)&vas[i]);
	for (guint i = flow->places->len; i > 0; i--) {
		struct vms_flow_place *place = flow->places->pdata[i - 1];
		if (!g_hash_table_contains(gone, &place->va))
			continue;
		g_hash_table_remove(flow->taken, place);
		g_ptr_array_remove_index(flow->places, i - 1);
	}
	return true;
}

/* ---- hits ---------------------------------------------------------------------------------- */

/* Drops the oldest records beyond the limit. The caller holds the lock. */
static void drop_oldest(struct vms_flow *flow)
{
	while (flow->max_records && flow->records.length > flow->max_records) {
		vms_flow_record_unref(g_queue_pop_head(&flow->records));
		flow->now.dropped++;
	}
}

static bool calls_back(const struct vms_flow_place *place)
{
	return vms_probe_has_callbacks(place->probe) ||
	       (place->common && vms_probe_has_callbacks(place->common)) ||
	       (place->returned && vms_probe_has_callbacks(place->returned));
}

static void call_back(struct vms_flow *flow, struct vms_flow_record *record,
		      const struct vms_hit *hit)
{
	g_autoptr(vms_memory) memory = hit->regs ? vms_memory_new(flow->machine, hit->regs) : NULL;
	vms_flow_record_call(record, memory);
}

/*
 * Walks the stacks of a hit, if it has any. `hit` gets other values then, which are valid while the
 * caller holds `walking`. False if values are missing.
 */
static bool walk_stacks(struct vms_flow *flow, const struct vms_flow_place *place,
			struct vms_hit *hit)
{
	if (!place->stacks)
		return true;
	if (!flow->walker)
		flow->walker = vms_flow_walker_new(flow->guest);
	g_byte_array_set_size(flow->walked, 0);
	if (!vms_flow_walk_stacks(flow->walker, place->arch, place->stacks, hit->values, hit->size,
				  flow->walked))
		return false;
	hit->values = flow->walked->data;
	hit->size = flow->walked->len;
	return true;
}

static void count_lost(struct vms_flow *flow)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	flow->now.lost++;
}

/* Counts a hit whose key has a stack. Called for every hit: see struct vms_probes_request. */
static void add_hit(const struct vms_hit *from, void *data)
{
	struct vms_flow *flow = data;
	const struct vms_tally_shape *shape = &flow->aggregation->shape;
	uint64_t numbers[VMS_TALLY_NUMBERS_MAX];
	struct vms_hit hit = *from;
	size_t key_at;
	G_GNUC_UNUSED g_autoptr(GMutexLocker) walking = g_mutex_locker_new(&flow->walking);
	if (!walk_stacks(flow, flow->places->pdata[hit.place], &hit)) {
		count_lost(flow);
		return;
	}
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	if (!vms_tally_split(shape, hit.values, hit.size, numbers, &key_at))
		flow->now.unknown++;
	else if (hit.size - key_at > shape->key_size)
		flow->now.lost++;
	else
		vms_aggregate_count(flow->added_up, numbers, hit.values + key_at,
				    hit.size - key_at);
}

/* Makes the record of a hit. NULL if its values do not match the place. */
static struct vms_flow_record *make_record(struct vms_flow *flow, struct vms_flow_place *place,
					   const struct vms_hit *from, uint64_t sequence)
{
	struct vms_hit hit = *from;
	if (!place->stacks)
		return vms_flow_record_new(place, from, sequence);
	G_GNUC_UNUSED g_autoptr(GMutexLocker) walking = g_mutex_locker_new(&flow->walking);
	return walk_stacks(flow, place, &hit) ? vms_flow_record_new(place, &hit, sequence) : NULL;
}

/* Makes and keeps the record of a hit. Called for every hit: see struct vms_probes_request. */
static void add_record(const struct vms_hit *hit, void *data)
{
	struct vms_flow *flow = data;
	struct vms_flow_place *place = flow->places->pdata[hit->place];
	g_mutex_lock(&flow->lock);
	const uint64_t sequence = flow->before.records + flow->now.records + 1;
	g_mutex_unlock(&flow->lock);
	struct vms_flow_record *record = make_record(flow, place, hit, sequence);
	if (record && calls_back(place))
		call_back(flow, record, hit);
	g_mutex_lock(&flow->lock);
	if (record) {
		flow->now.records++;
		g_queue_push_tail(&flow->records, vms_flow_record_ref(record));
		drop_oldest(flow);
	} else {
		flow->now.lost++;
	}
	g_mutex_unlock(&flow->lock);
	if (record && flow->options.each)
		flow->options.each(record, flow->options.data);
	vms_flow_record_unref(record);
}

/* True if hits are counted in vmscope, and not by the machine. */
static bool counts_in_vmscope(const struct vms_flow *flow)
{
	return flow->aggregation && vms_aggregation_has_stacks(flow->aggregation);
}

/* ---- hits that are deferred ---------------------------------------------------------------- */

/* A hit, and its values. */
struct deferred {
	struct vms_hit hit;
	uint8_t values[];
};

/* Records or counts a hit. */
static void take_hit(const struct vms_hit *hit, void *data)
{
	const struct vms_flow *flow = data;
	if (counts_in_vmscope(flow))
		add_hit(hit, data);
	else
		add_record(hit, data);
}

/*
 * The same, but later if the machine is held. Callbacks would miss the memory of the held machine,
 * so flows with callbacks do not defer hits.
 */
static void take_or_defer_hit(const struct vms_hit *hit, void *data)
{
	struct vms_flow *flow = data;
	if (!hit->regs) {
		take_hit(hit, data);
		return;
	}
	if (g_async_queue_length(flow->deferred) >= DEFERRED_MAX) {
		count_lost(flow);
		return;
	}
	struct deferred *deferred = g_malloc(sizeof(*deferred) + hit->size);
	deferred->hit = *hit;
	deferred->hit.regs = NULL;
	deferred->hit.values = deferred->values;
	if (hit->size)
		memcpy(deferred->values, hit->values, hit->size);
	g_async_queue_push(flow->deferred, deferred);
}

static void take_deferred_hits(struct vms_flow *flow)
{
	struct deferred *deferred;
	while ((deferred = g_async_queue_try_pop(flow->deferred))) {
		take_hit(&deferred->hit, flow);
		g_free(deferred);
	}
}

/* True if some place has stacks, and none has callbacks. */
static bool defers_hits(const struct vms_flow *flow)
{
	bool has_stacks = false;
	for (guint i = 0; i < flow->places->len; i++) {
		const struct vms_flow_place *place = flow->places->pdata[i];
		if (calls_back(place))
			return false;
		has_stacks |= place->stacks != NULL;
	}
	return has_stacks;
}

static bool must_end(struct vms_flow *flow)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	return flow->must_end;
}

/*
 * Warns once of a reset, because the next kernel has other addresses. Does not warn if no kernel
 * is known: the code of such a guest usually has the same addresses again.
 */
static void warn_of_reset(struct vms_flow *flow)
{
	if (flow->is_stale || !flow->guest || vms_guest_kind(flow->guest) == VMS_GUEST_NONE ||
	    !vms_guest_is_stale(flow->guest))
		return;
	flow->is_stale = true;
	vms_log(VMS_LOG_WARNING,
		"the guest was reset: the probes remain at the addresses of the old "
		"kernel; start again when the new kernel has booted");
}

/* The flow's thread. Takes hits until the probes are not armed any more, or the flow has to end. */
static gpointer run_flow(gpointer data)
{
	struct vms_flow *flow = data;
	GError *failure = NULL;
	while (!failure && !must_end(flow) && vms_probes_is_armed(flow->probes)) {
		vms_machine_take_hits(flow->machine, WAIT_MS, &failure);
		take_deferred_hits(flow);
		warn_of_reset(flow);
	}
	vms_probes_disarm(flow->probes, failure ? NULL : &failure);
	take_deferred_hits(flow);
	g_mutex_lock(&flow->lock);
	flow->failure = failure;
	flow->is_enabled = false;
	g_cond_broadcast(&flow->ended);
	g_mutex_unlock(&flow->lock);
	return NULL;
}

/* ---- enable, disable ----------------------------------------------------------------------- */

/* Returns the counts of all times that the flow was enabled. The caller holds the lock. */
static struct vms_flow_progress sum_progress(const struct vms_flow *flow)
{
	struct vms_probes_counts counts = { 0 };
	if (flow->probes)
		vms_probes_counts(flow->probes, &counts);
	return (struct vms_flow_progress) {
		.records = flow->before.records + flow->now.records,
		.dropped = flow->before.dropped + flow->now.dropped,
		.rejected = flow->before.rejected + counts.rejected,
		.unknown = flow->before.unknown + flow->now.unknown + counts.unknown,
		.lost = flow->before.lost + flow->now.lost + counts.lost,
	};
}

static void add_entry(const struct vms_tally_entry *entry, void *data)
{
	vms_aggregate_add(data, entry);
}

/* Adds the tallies of the probes. The caller holds the lock. */
static void add_tallies(const struct vms_flow *flow, struct vms_aggregate *aggregate)
{
	if (aggregate && flow->probes && !counts_in_vmscope(flow))
		vms_aggregate_add_unfit(
			aggregate, vms_probes_read_tallies(flow->probes, add_entry, aggregate));
}

/* Keeps the counts of the probes, and frees the probes. */
static void keep_counts(struct vms_flow *flow)
{
	add_tallies(flow, flow->added_up);
	flow->before = sum_progress(flow);
	flow->now = (struct vms_flow_progress) { 0 };
	vms_probes_free(g_steal_pointer(&flow->probes));
}

/* Waits for the flow's thread to end. The caller holds `control`. */
static bool join_thread(struct vms_flow *flow, GError **error)
{
	if (!flow->thread)
		return true;
	g_thread_join(g_steal_pointer(&flow->thread));
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	keep_counts(flow);
	if (!flow->failure)
		return true;
	g_propagate_error(error, g_steal_pointer(&flow->failure));
	return false;
}

static struct vms_probes *arm_places(struct vms_flow *flow, uint64_t max_hits, GError **error)
{
	g_autoptr(GArray) places = g_array_new(FALSE, FALSE, sizeof(struct vms_place));
	for (guint i = 0; i < flow->places->len; i++) {
		const struct vms_flow_place *from = flow->places->pdata[i];
		const struct vms_place place = {
			.va = from->va,
			.after = from->is_after,
			.halts = vms_probe_halts(from->probe) ||
				 (from->common && vms_probe_halts(from->common)) ||
				 (from->returned && vms_probe_halts(from->returned)),
			.program = &from->program,
			.at_return = from->returned ? &from->return_program : NULL,
		};
		g_array_append_val(places, place);
	}
	const struct vms_probes_request request = {
		.places = (const struct vms_place *)(const void *)places->data,
		.n = places->len,
		.vcpu = flow->options.one_vcpu ? (int)flow->options.vcpu : VMS_ALL_VCPUS,
		.max_hits = max_hits,
		.hit = defers_hits(flow) ? take_or_defer_hit : take_hit,
		.data = flow,
		.tally = flow->aggregation && !counts_in_vmscope(flow) ? &flow->aggregation->shape
								       : NULL,
	};
	return vms_probes_arm(flow->machine, &request, error);
}

static bool check_state(struct vms_flow *flow, GError **error)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	if (flow->places->len && !flow->is_enabled)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
		    flow->is_enabled ? "the flow is already enabled"
				     : "the flow has no places; add one first");
	return false;
}

static void set_limit(struct vms_flow *flow, uint64_t max_records)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	flow->max_records = max_records;
	drop_oldest(flow);
}

bool vms_flow_enable(struct vms_flow *flow, uint64_t max_hits, uint64_t max_records, GError **error)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) controller = g_mutex_locker_new(&flow->control);
	if (!check_state(flow, error))
		return false;
	join_thread(flow, NULL); /* the flow may have ended by itself */
	set_limit(flow, max_records);
	struct vms_probes *probes = arm_places(flow, max_hits, error);
	if (!probes)
		return false;
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	flow->probes = probes;
	flow->must_end = false;
	flow->is_enabled = true;
	flow->thread = g_thread_new("vms-flow", run_flow, flow);
	return true;
}

bool vms_flow_disable(struct vms_flow *flow, GError **error)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) controller = g_mutex_locker_new(&flow->control);
	g_mutex_lock(&flow->lock);
	flow->must_end = true;
	g_mutex_unlock(&flow->lock);
	return join_thread(flow, error);
}

bool vms_flow_wait(struct vms_flow *flow, uint64_t until_ns)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	const int64_t until_us = (int64_t)MIN(until_ns / 1000, G_MAXINT64);
	while (flow->is_enabled)
		if (!g_cond_wait_until(&flow->ended, &flow->lock, until_us))
			return !flow->is_enabled;
	return true;
}

/* ---- aggregation --------------------------------------------------------------------------- */

bool vms_flow_aggregate(struct vms_flow *flow, const struct vms_aggregate_options *options,
			GError **error)
{
	g_autoptr(vms_aggregation) aggregation = vms_aggregation_new(options, error);
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	if (!aggregation)
		return false;
	if (flow->places->len || flow->aggregation) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    flow->aggregation ? "the flow already aggregates"
					      : "cannot aggregate: the flow already has places");
		return false;
	}
	flow->added_up = vms_aggregate_new(aggregation);
	flow->aggregation = g_steal_pointer(&aggregation);
	return true;
}

struct vms_aggregate *vms_flow_get_aggregate(struct vms_flow *flow, GError **error)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	if (!flow->aggregation) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "the flow does not aggregate");
		return NULL;
	}
	struct vms_aggregate *aggregate = vms_aggregate_new(flow->aggregation);
	vms_aggregate_merge(aggregate, flow->added_up);
	add_tallies(flow, aggregate);
	vms_aggregate_sort(aggregate);
	return aggregate;
}

/* ---- results ------------------------------------------------------------------------------- */

void vms_flow_get_progress(struct vms_flow *flow, struct vms_flow_progress *ret)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	*ret = sum_progress(flow);
}

struct vms_flow_report *vms_flow_get_report(struct vms_flow *flow)
{
	struct vms_flow_report *report = vms_flow_report_new();
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	for (GList *link = flow->records.head; link; link = link->next)
		vms_flow_report_add(report, link->data);
	return report;
}

void vms_flow_clear(struct vms_flow *flow)
{
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&flow->lock);
	for (struct vms_flow_record *record; (record = g_queue_pop_head(&flow->records));)
		vms_flow_record_unref(record);
}
