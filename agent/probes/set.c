/* SPDX-License-Identifier: MIT */
#include "agent/probes/set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks of a client's request -------------------------------------------------- */

/* Returns what is wrong with the options, or NULL. */
static const char *check_options(const struct request *request)
{
	const struct vms_agent_probes *options = (const void *)request->message;
	if (request->size != sizeof(*options) || request->fd < 0)
		return "the request has a wrong size, or no file";
	if (options->n_places == 0 || options->n_places > VMS_AGENT_MAX_PLACES ||
	    options->n_ops > VMS_AGENT_MAX_OPS)
		return "it has no places, too many places, or too long programs";
	if (!rings_is_size(options->ring_size))
		return "the size of a ring must be a power of two from 64 KiB to 64 MiB";
	if (options->tallies > 1)
		return "its kind of results is unknown";
	return NULL;
}

#define PLACE_FLAGS                                                                                \
	(uint32_t)(VMS_AGENT_PLACE_AFTER | VMS_AGENT_PLACE_CALL | VMS_AGENT_PLACE_RETURN)

static bool is_place(const struct vms_agent_place *place)
{
	const uint32_t flags = place->flags;
	return !(flags & ~PLACE_FLAGS) && !(flags & (flags - 1)); /* one of them at most */
}

static bool list_kept(struct probe_set *set, uint32_t call, uint32_t at_return)
{
	return vms_program_list_arguments(&set->programs[at_return], set->kept[call].reg,
					  &set->kept[call].n);
}

/* Finds the place of each call's return. Returns what is wrong, or NULL. */
static const char *find_returns(struct probe_set *set)
{
	uint32_t call = 0;
	for (uint32_t i = 0; i < set->options.n_places; i++) {
		if (!(set->file[i].flags & VMS_AGENT_PLACE_RETURN))
			continue;
		while (call < i && !(set->file[call].flags & VMS_AGENT_PLACE_CALL))
			call++;
		if (call == i)
			return "a return has no call";
		if (!list_kept(set, call, i))
			return "a return uses too many arguments of its call";
		set->returns[call++] = i;
	}
	for (; call < set->options.n_places; call++)
		if (set->file[call].flags & VMS_AGENT_PLACE_CALL)
			return "a call has no return";
	return NULL;
}

/* Finds the program of each place, and checks it. Returns what is wrong, or NULL. */
static const char *find_programs(struct probe_set *set)
{
	const struct vms_agent_probes *options = &set->options;
	const struct vms_op *ops = (const void *)(set->file + options->n_places);
	size_t left = options->n_ops;
	for (uint32_t i = 0; i < options->n_places; i++) {
		const struct vms_agent_place *place = &set->file[i];
		if (place->n_ops > left || !is_place(place))
			return "a place is malformed";
		set->programs[i] = (struct vms_program) { ops, place->n_ops };
		if (!vms_program_check(&set->programs[i], VMS_AGENT_MAX_REGS))
			return "the program of a place is invalid";
		ops += place->n_ops;
		left -= place->n_ops;
	}
	return left ? "it has operations without a place" : find_returns(set);
}

/* Returns the size of the file's part with all places and programs. */
static size_t compute_places_size(const struct vms_agent_probes *options)
{
	return options->n_places * sizeof(struct vms_agent_place) +
	       options->n_ops * sizeof(struct vms_op);
}

static bool read_places(struct probe_set *set, const struct request *request, struct reply *reply)
{
	const struct vms_agent_probes *options = &set->options;
	const size_t shape_size = options->tallies ? sizeof(struct vms_tally_shape) : 0;
	const char *wrong;
	set->programs = calloc(options->n_places, sizeof(*set->programs));
	set->file = request_read_file(request, compute_places_size(options) + shape_size);
	set->returns = calloc(options->n_places, sizeof(*set->returns));
	set->kept = calloc(options->n_places, sizeof(*set->kept));
	if (!set->programs || !set->returns || !set->kept || !set->file) {
		reply_error(reply, VMS_ERROR_IO, "cannot read the places of probes: %s",
			    g_strerror(errno));
		return false;
	}
	wrong = find_programs(set);
	if (wrong)
		reply_error(reply, VMS_ERROR_PROTOCOL, "cannot arm probes: %s", wrong);
	return !wrong;
}

static bool make_calls(struct probe_set *set, struct reply *reply)
{
	for (uint32_t i = 0; i < set->options.n_places && !set->calls; i++) {
		if (!(set->file[i].flags & VMS_AGENT_PLACE_CALL))
			continue;
		set->calls = open_calls_new();
		if (!set->calls) {
			reply_error(reply, VMS_ERROR_IO, "cannot arm probes: no memory in QEMU");
			return false;
		}
	}
	return true;
}

/* ---- the set ------------------------------------------------------------------------ */

static bool make_rings(struct probe_set *set, unsigned n, struct reply *reply)
{
	if (!rings_make(&set->rings, "vmscope-probes", n, set->options.ring_size)) {
		reply_error(reply, VMS_ERROR_IO,
			    "cannot arm probes: QEMU cannot allocate memory: %s",
			    g_strerror(errno));
		return false;
	}
	for (; set->n < n; set->n++)
		vms_ring_init(&set->prober[set->n].ring, &set->rings.shared->ring[set->n],
			      rings_data(&set->rings, set->n), set->rings.ring_size,
			      set->rings.wake);
	return true;
}

static bool make_tallies(struct probe_set *set, unsigned n, struct reply *reply)
{
	const void *shape = (const uint8_t *)set->file + compute_places_size(&set->options);
	if (!set->options.tallies || tallies_make(&set->tallies, shape, n))
		return true;
	reply_error(reply, errno == EINVAL ? VMS_ERROR_PROTOCOL : VMS_ERROR_IO,
		    "cannot arm probes: QEMU cannot make their tallies: %s", g_strerror(errno));
	return false;
}

struct probe_set *probe_set_new(const struct request *request, unsigned n, struct reply *reply)
{
	const char *wrong = check_options(request);
	if (wrong) {
		reply_error(reply, VMS_ERROR_PROTOCOL, "cannot arm probes: %s", wrong);
		return NULL;
	}
	struct probe_set *set = calloc(1, sizeof(*set) + n * sizeof(set->prober[0]));
	if (!set) {
		reply_error(reply, VMS_ERROR_IO, "cannot arm probes: no memory in QEMU");
		return NULL;
	}
	memcpy(&set->options, request->message, sizeof(set->options));
	set->client = request->client;
	set->pid = request->pid;
	set->rings = RINGS_NONE;
	set->tallies = TALLIES_NONE;
	if (read_places(set, request, reply) && make_calls(set, reply) &&
	    make_tallies(set, n, reply) && make_rings(set, n, reply))
		return set;
	probe_set_free(set);
	return NULL;
}

void probe_set_free(struct probe_set *set)
{
	rings_free(&set->rings);
	tallies_free(&set->tallies);
	free(set->file);
	free(set->programs);
	free(set->returns);
	free(set->kept);
	open_calls_free(set->calls);
	free(set);
}

bool probe_set_reserve(struct probe_set *set, unsigned vcpu)
{
	set->prober[vcpu].has_memory =
		rings_reserve(&set->rings, vcpu) &&
		(!set->options.tallies || tallies_reserve(&set->tallies, vcpu));
	return set->prober[vcpu].has_memory;
}

void probe_set_abandon(struct probe_set *set)
{
	for (unsigned i = 0; i < set->n; i++)
		vms_ring_abandon(&set->prober[i].ring);
}

/* ---- hits ---------------------------------------------------------------------------- */

struct block {
	struct vms_agent_hit hit;
	uint8_t values[VMS_HIT_VALUES_MAX];
};

/* Increments a vCPU's own counter, and publishes it for the client. */
static void increment_counter(uint64_t *own, _Atomic uint64_t *shown)
{
	atomic_store_explicit(shown, ++*own, memory_order_relaxed);
}

/*
 * Numbers the hit and writes it, or counts it as lost if there is no room. Returns the number; 0 if
 * the limit of hits was reached before.
 */
static uint64_t write_hit(struct probe_set *set, struct prober *prober, struct block *block,
			  bool has_room)
{
	struct vms_agent_rings *shared = set->rings.shared;
	struct vms_agent_ring *ring = prober->ring.shared;
	const uint64_t max = set->options.max_hits;
	atomic_store(&ring->taking, atomic_load(&shared->hits) + 1);
	uint64_t number = atomic_fetch_add(&shared->hits, 1) + 1;
	block->hit.number = number;
	if (max && number > max)
		number = 0;
	else if (!has_room || !vms_ring_write_block(&prober->ring, VMS_AGENT_HIT, 0, block,
						    sizeof(block->hit) + block->hit.size))
		atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
	atomic_store(&ring->taking, 0);
	return number;
}

/* Wakes the client if it sleeps. */
static void wake_client(struct probe_set *set, struct prober *prober)
{
	_Atomic uint32_t *sleeps = &set->rings.shared->sleeps;
	if (atomic_load(sleeps) && atomic_exchange(sleeps, 0))
		vms_ring_flush(&prober->ring);
}

/* Ends the set after its last hit. */
static void end_set(struct probe_set *set, struct prober *prober)
{
	atomic_store(&set->ended, true);
	atomic_store(&set->rings.shared->stopped, 1);
	vms_ring_flush(&prober->ring);
}

/* Ends the set if this was its last hit, and returns true then. */
static bool end_hit(struct probe_set *set, struct prober *prober, uint64_t number)
{
	const bool ends = number && number == set->options.max_hits;
	if (ends)
		end_set(set, prober);
	else
		wake_client(set, prober);
	return ends;
}

/* Records a hit. True if it ends the set. */
static bool record_hit(struct probe_set *set, struct prober *prober, struct block *block)
{
	const bool has_room = prober->has_memory &&
			      vms_ring_reserve(&prober->ring, sizeof(block->hit) + block->hit.size);
	return end_hit(set, prober, write_hit(set, prober, block, has_room));
}

/* Adds a hit to the tally of its vCPU. True if it ends the set. */
static bool tally_hit(struct probe_set *set, struct prober *prober, const struct block *block)
{
	const uint64_t max = set->options.max_hits;
	const size_t size = block->hit.size;
	uint64_t numbers[VMS_TALLY_NUMBERS_MAX], hits = 0;
	size_t key_at;
	if (!vms_tally_split(&set->tallies.shape, block->values, size, numbers, &key_at)) {
		increment_counter(&prober->unknown, &prober->ring.shared->unknown);
		return false;
	}
	if (max)
		hits = atomic_fetch_add(&set->tallied, 1) + 1;
	if (hits > max)
		return false;
	if (prober->has_memory)
		vms_tally_add(&set->tallies.tally[block->hit.vcpu], numbers, block->values + key_at,
			      size - key_at);
	else
		atomic_fetch_add(&set->rings.shared->hits, 1);
	if (max && hits == max)
		end_set(set, prober);
	return max && hits == max;
}

static bool complete_hit(struct probe_set *set, struct prober *prober, struct block *block)
{
	return set->options.tallies ? tally_hit(set, prober, block)
				    : record_hit(set, prober, block);
}

/* Counts a call that cannot be followed to its return as lost. True if it ends the set. */
static bool lose_call(struct probe_set *set, struct prober *prober, struct block *block)
{
	if (!set->options.tallies)
		return end_hit(set, prober, write_hit(set, prober, block, false));
	atomic_fetch_add(&set->rings.shared->hits, 1);
	return false;
}

/* True if hits of the vCPU count now. */
static bool is_counting(const struct probe_set *set, unsigned vcpu)
{
	return set->armed && !set->ended &&
	       (set->options.vcpu == VMS_AGENT_ALL_VCPUS || set->options.vcpu == vcpu);
}

/*
 * Runs a program, which appends to the values of the block. False if it ended early: then this is
 * counted.
 */
static bool run_program(struct probe_set *set, const struct vms_program *program,
			const struct probe_hit *hit, struct block *block)
{
	struct prober *prober = &set->prober[hit->vcpu];
	size_t size;
	const enum vms_program_end end =
		vms_program_run(program, hit->input, block->values + block->hit.size, &size);
	block->hit.size += (uint32_t)size;
	if (end == VMS_PROGRAM_REJECTED)
		increment_counter(&prober->rejected, &prober->ring.shared->rejected);
	else if (end == VMS_PROGRAM_UNKNOWN)
		increment_counter(&prober->unknown, &prober->ring.shared->unknown);
	return end == VMS_PROGRAM_COMPLETE;
}

bool probe_set_run(struct probe_set *set, const struct probe_hit *hit)
{
	struct prober *prober = &set->prober[hit->vcpu];
	struct block block;
	if (!is_counting(set, hit->vcpu))
		return false;
	block.hit = (struct vms_agent_hit) {
		.time_ns = set->options.tallies ? 0 : clock_read(&prober->clock),
		.place = hit->place,
		.vcpu = hit->vcpu,
	};
	return run_program(set, &set->programs[hit->place], hit, &block) &&
	       complete_hit(set, prober, &block);
}

static void keep_arguments(const struct kept_list *list, const struct vms_program_input *input,
			   struct open_call *ret)
{
	for (unsigned i = 0; i < list->n; i++) {
		struct vms_kept_argument *kept = &ret->kept[i];
		kept->reg = list->reg[i];
		kept->known = input->reg(input->data, kept->reg, &kept->value);
	}
	ret->n_kept = list->n;
}

bool probe_set_call(struct probe_set *set, const struct probe_hit *hit, const struct call_key *key)
{
	struct prober *prober = &set->prober[hit->vcpu];
	struct block block; /* `values` is not cleared, because that would take too long */
	block.hit = (struct vms_agent_hit) { .place = hit->place, .vcpu = hit->vcpu };
	if (!is_counting(set, hit->vcpu) ||
	    !run_program(set, &set->programs[hit->place], hit, &block))
		return false;
	struct open_call call = {
		.key = *key,
		.begin_ns = clock_read(&prober->clock),
		.place = hit->place,
		.size = block.hit.size,
	};
	keep_arguments(&set->kept[hit->place], hit->input, &call);
	return !open_calls_add(set->calls, &call, block.values) && lose_call(set, prober, &block);
}

bool probe_set_return(struct probe_set *set, const struct probe_hit *hit,
		      const struct open_call *call)
{
	struct prober *prober = &set->prober[hit->vcpu];
	struct vms_program_input input = *hit->input;
	const struct probe_hit returned = { call->place, hit->vcpu, &input };
	struct block block;
	block.hit = (struct vms_agent_hit) {
		.time_ns = clock_read(&prober->clock),
		.place = call->place,
		.vcpu = hit->vcpu,
		.size = call->size,
	};
	if (!set->armed || set->ended)
		return false;
	input.elapsed_ns = block.hit.time_ns - call->begin_ns;
	input.kept = call->kept;
	input.n_kept = call->n_kept;
	memcpy(block.values, call->values, call->size);
	return run_program(set, &set->programs[set->returns[call->place]], &returned, &block) &&
	       complete_hit(set, prober, &block);
}
