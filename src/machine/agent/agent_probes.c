/* SPDX-License-Identifier: MIT */
#include "machine/agent/agent_probes.h"

#include "base/clock.h"
#include "machine/agent/hits.h"
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RING_SIZE	 (1U << 20)  /* bytes per vCPU */
#define STACKS_RING_SIZE (4U << 20)  /* the same, if hits have stacks */
#define OLD_OUTPUT_MAX	 28672u	     /* bytes: see VMS_AGENT_CAN_COPY_USER_STACKS */
#define EMPTY_RING_SIZE	 (64U << 10) /* of a ring that gets no hits: the minimum */
/*
 * How long to collect hits before they are taken. A vCPU that must wake this client needs several
 * microseconds for that, which is longer than a hit takes. So the client asks to be woken only
 * after a nap without hits. A ring that fills up wakes the client in any case.
 */
#define NAP_MS 1
/* How long to wait before checking whether other probes were armed. */
#define SLICE_MS 50

struct set {
	struct vms_probes base;
	struct vms_agent_prober *prober;
	gatomicrefcount refs;
	uint32_t id;
	void *memory; /* shared with the agent */
	size_t size;
	int woken;
	atomic_bool was_disarmed;
	atomic_bool hung_up; /* the agent has closed its end of `woken` */
	GMutex lock;	     /* held while hits are delivered */
	struct vms_hits *hits;
	/* If hits are added up: `memory` has n_vcpus pointers into `mapped`. */
	struct vms_tallies tallies;
	struct vms_tally_shape shape;
	struct vms_tally_layout layout;
	void *mapped;
	size_t mapped_size;
};

static void unref_set(void *data)
{
	struct set *set = data;
	if (!g_atomic_ref_count_dec(&set->refs))
		return;
	vms_hits_free(set->hits);
	if (set->memory)
		munmap(set->memory, set->size);
	if (set->mapped)
		munmap(set->mapped, set->mapped_size);
	g_free((void *)set->tallies.memory);
	if (set->woken >= 0)
		close(set->woken);
	g_mutex_clear(&set->lock);
	g_free(set);
}

static struct set *ref_set(struct set *set)
{
	g_atomic_ref_count_inc(&set->refs);
	return set;
}

void vms_agent_prober_init(struct vms_agent_prober *prober)
{
	prober->sets = g_ptr_array_new_with_free_func(unref_set);
	g_mutex_init(&prober->lock);
	g_mutex_init(&prober->request_lock);
}

void vms_agent_prober_clear(struct vms_agent_prober *prober)
{
	g_ptr_array_unref(prober->sets);
	g_mutex_clear(&prober->lock);
	g_mutex_clear(&prober->request_lock);
}

/* ---- requests --------------------------------------------------------------------- */

/* Returns references to all sets. */
static GPtrArray *list_sets(struct vms_agent_prober *prober)
{
	GPtrArray *sets = g_ptr_array_new_with_free_func(unref_set);
	g_mutex_lock(&prober->lock);
	for (guint i = 0; i < prober->sets->len; i++)
		g_ptr_array_add(sets, ref_set(g_ptr_array_index(prober->sets, i)));
	g_mutex_unlock(&prober->lock);
	return sets;
}

/*
 * Empties the rings while the agent arms or ends a set. The agent needs all vCPUs to leave their
 * code for that, so they must not wait for room in their rings. This thread may be the only one
 * that reads the rings.
 */
static void make_room(struct vms_agent_prober *prober)
{
	g_autoptr(GPtrArray) sets = list_sets(prober);
	for (guint i = 0; i < sets->len; i++) {
		struct set *set = g_ptr_array_index(sets, i);
		if (!g_mutex_trylock(&set->lock))
			continue; /* another thread is taking its hits */
		vms_hits_collect(set->hits);
		g_mutex_unlock(&set->lock);
	}
}

static void wait_for_reply(struct vms_agent_prober *prober, uint64_t deadline_ns)
{
	struct pollfd poll_link = { prober->link->stream.fd, POLLIN, 0 };
	while (poll(&poll_link, 1, NAP_MS) == 0 && vms_clock_now_ns() < deadline_ns)
		make_room(prober);
}

static bool send_request(struct vms_agent_prober *prober, struct vms_agent_message *message,
			 size_t size, int fd, int *fds, unsigned n_fds, GError **error)
{
	GError *failure = NULL;
	g_mutex_lock(&prober->request_lock);
	if (prober->is_late) {
		g_set_error(&failure, VMS_ERROR, VMS_ERROR_TIMEOUT,
			    "%s: the agent has not answered the last request for probes",
			    prober->link->stream.peer);
	} else if (vms_agent_send(prober->link, message, size, fd, &failure)) {
		const uint64_t deadline_ns = vms_stream_deadline(&prober->link->stream);
		wait_for_reply(prober, deadline_ns);
		vms_agent_receive(prober->link, deadline_ns, fds, n_fds, &failure);
	}
	prober->is_late |= g_error_matches(failure, VMS_ERROR, VMS_ERROR_TIMEOUT);
	g_mutex_unlock(&prober->request_lock);
	if (failure)
		g_propagate_error(error, failure);
	return !failure;
}

/*
 * Returns the agent's number of a register. If the agent does not have the register, returns a
 * number that cannot be read.
 */
static uint64_t find_register_number(const struct vms_agent_prober *prober, uint64_t reg)
{
	for (unsigned i = 0; i < prober->link->hello.n_regs; i++)
		if (prober->reg_of[i] >= 0 && (uint64_t)prober->reg_of[i] == reg)
			return i;
	return VMS_AGENT_MAX_REGS - 1;
}

/*
 * Appends the operations of a program, with the agent's numbers of registers. Operations for
 * arguments are used only in programs of returns. In other programs an argument is a register,
 * which older agents know too.
 */
static void append_program(const struct vms_agent_prober *prober, GByteArray *file,
			   const struct vms_program *program, bool is_return)
{
	for (size_t i = 0; i < program->n; i++) {
		struct vms_op op = program->ops[i];
		op.reserved = 0;
		if (op.code == VMS_OP_ARGUMENT && !is_return)
			op.code = VMS_OP_REGISTER;
		if (op.code == VMS_OP_REGISTER || op.code == VMS_OP_ARGUMENT)
			op.value = find_register_number(prober, op.value);
		g_byte_array_append(file, (const guint8 *)&op, sizeof(op));
	}
}

static void append_place(GByteArray *file, uint64_t va, uint32_t flags,
			 const struct vms_program *program)
{
	const struct vms_agent_place place = {
		.va = va,
		.flags = flags,
		.n_ops = (uint32_t)program->n,
	};
	g_byte_array_append(file, (const guint8 *)&place, sizeof(place));
}

/* Counts the places and operations of a request, including those of returns. */
static void count_request(const struct vms_probes_request *request, size_t *n_places, size_t *n_ops)
{
	*n_places = *n_ops = 0;
	for (size_t i = 0; i < request->n; i++) {
		const struct vms_place *place = &request->places[i];
		*n_places += place->at_return ? 2 : 1;
		*n_ops += place->program->n + (place->at_return ? place->at_return->n : 0);
	}
}

/*
 * Returns a file of all places and programs, or -1. The places of the request come first, so that
 * the numbers in hits are those of the request. The places of returns follow. Errors: IO.
 */
static int make_places(const struct vms_agent_prober *prober,
		       const struct vms_probes_request *request, GError **error)
{
	g_autoptr(GByteArray) file = g_byte_array_new();
	const struct vms_place *const end = request->places + request->n;
	for (const struct vms_place *place = request->places; place < end; place++)
		append_place(file, place->va,
			     place->at_return ? VMS_AGENT_PLACE_CALL
			     : place->after   ? VMS_AGENT_PLACE_AFTER
					      : 0,
			     place->program);
	for (const struct vms_place *place = request->places; place < end; place++)
		if (place->at_return)
			append_place(file, place->va, VMS_AGENT_PLACE_RETURN, place->at_return);
	for (const struct vms_place *place = request->places; place < end; place++)
		append_program(prober, file, place->program, false);
	for (const struct vms_place *place = request->places; place < end; place++)
		if (place->at_return)
			append_program(prober, file, place->at_return, true);
	if (request->tally)
		g_byte_array_append(file, (const guint8 *)request->tally, sizeof(*request->tally));
	return vms_agent_make_file(file->data, file->len, error);
}

/* True if the program of a return needs arguments of the call. */
static bool needs_arguments(const struct vms_probes_request *request)
{
	uint32_t regs[VMS_ARGUMENTS_KEPT_MAX];
	unsigned n = 0;
	for (size_t i = 0; i < request->n && n == 0; i++)
		if (request->places[i].at_return)
			vms_program_list_arguments(request->places[i].at_return, regs, &n);
	return n > 0;
}

static bool copies_stacks(const struct vms_program *program)
{
	for (size_t i = 0; i < program->n; i++)
		if (program->ops[i].code == VMS_OP_COLLECT_READABLE)
			return true;
	return false;
}

/* True if a program may collect more than agents could that did not copy stacks of programs. */
static bool collects_much(const struct vms_program *program)
{
	size_t size = 0;
	for (size_t i = 0; i < program->n; i++)
		if (vms_program_collects(&program->ops[i]))
			size += sizeof(struct vms_value_head) + program->ops[i].size;
	return size > OLD_OUTPUT_MAX;
}

/* True if one of the request's programs is of this kind. */
static bool has_program(const struct vms_probes_request *request,
			bool (*is_of_kind)(const struct vms_program *program))
{
	for (size_t i = 0; i < request->n; i++) {
		const struct vms_place *place = &request->places[i];
		if ((place->program && is_of_kind(place->program)) ||
		    (place->at_return && is_of_kind(place->at_return)))
			return true;
	}
	return false;
}

/* Checks the size of a request for `n` places. `n_places` includes those of returns. */
static bool check_size(size_t n, size_t n_places, size_t n_ops, GError **error)
{
	if (n > 0 && n_places <= VMS_AGENT_MAX_PLACES && n_ops <= VMS_AGENT_MAX_OPS)
		return true;
	if (n == 0)
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot arm probes: no place is given");
	else
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			"cannot arm probes at %zu places with %zu operations: the maximum is %d "
			"and %d; choose fewer places, or collect less there",
			n_places, n_ops, VMS_AGENT_MAX_PLACES, VMS_AGENT_MAX_OPS);
	return false;
}

static bool check_vcpu(const struct vms_agent_prober *prober, int vcpu, GError **error)
{
	if (vcpu < (int)prober->machine->n_vcpus)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
		    "cannot arm probes on vCPU %d: this machine has %u vCPUs, numbered from 0",
		    vcpu, prober->machine->n_vcpus);
	return false;
}

static bool check_request(const struct vms_agent_prober *prober,
			  const struct vms_probes_request *request, GError **error)
{
	size_t n_places, n_ops;
	count_request(request, &n_places, &n_ops);
	for (size_t i = 0; i < request->n; i++) {
		if (!request->places[i].halts)
			continue;
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			"the agent in QEMU cannot stop the machine at a hit (0x%" G_GINT64_MODIFIER
			"x): use the gdb stub for that, by --qmp",
			request->places[i].va);
		return false;
	}
	if (n_places > request->n &&
	    !vms_agent_link_require(prober->link, VMS_AGENT_CAN_FOLLOW_CALLS, error))
		return false;
	if (needs_arguments(request) &&
	    !vms_agent_link_require(prober->link, VMS_AGENT_CAN_KEEP_ARGUMENTS, error))
		return false;
	if (has_program(request, copies_stacks) &&
	    !vms_agent_link_require(prober->link, VMS_AGENT_CAN_COPY_STACKS, error))
		return false;
	if (has_program(request, collects_much) &&
	    !vms_agent_link_require(prober->link, VMS_AGENT_CAN_COPY_USER_STACKS, error))
		return false;
	if (has_program(request, vms_program_has_wide) &&
	    !vms_agent_link_require(prober->link, VMS_AGENT_CAN_READ_WIDE, error))
		return false;
	return check_size(request->n, n_places, n_ops, error) &&
	       check_vcpu(prober, request->vcpu, error);
}

/* Sends the request. `fds` gets the descriptors of the reply, see VMS_AGENT_PROBES_START. */
static bool send_start(struct vms_agent_prober *prober, uint32_t id,
		       const struct vms_probes_request *request, int fds[3], GError **error)
{
	size_t n_places, n_ops;
	int file = make_places(prober, request, error);
	count_request(request, &n_places, &n_ops);
	struct vms_agent_probes start = {
		.message = { .kind = VMS_AGENT_PROBES_START },
		.id = id,
		.vcpu = request->vcpu == VMS_ALL_VCPUS ? VMS_AGENT_ALL_VCPUS
						       : prober->cpu_index[request->vcpu],
		.max_hits = request->max_hits,
		.ring_size = request->tally			   ? EMPTY_RING_SIZE
			     : has_program(request, copies_stacks) ? STACKS_RING_SIZE
								   : RING_SIZE,
		.n_places = (uint32_t)n_places,
		.n_ops = (uint32_t)n_ops,
		.tallies = request->tally != NULL,
	};
	bool ok = file >= 0 && send_request(prober, &start.message, sizeof(start), file, fds,
					    request->tally ? 3 : 2, error);
	if (file >= 0)
		close(file);
	return ok;
}

static bool send_stop(const struct set *set, GError **error)
{
	struct vms_agent_probes_stop stop = {
		.message = { .kind = VMS_AGENT_PROBES_STOP },
		.id = set->id,
	};
	return send_request(set->prober, &stop.message, sizeof(stop), -1, NULL, 0, error);
}

/* ---- waiting ----------------------------------------------------------------------- */

/*
 * Takes hits of all sets and returns how many. Unless `all`, skips a set whose hits another thread
 * is taking.
 */
static size_t take_all_hits(GPtrArray *sets, bool all)
{
	size_t n = 0;
	for (guint i = 0; i < sets->len; i++) {
		struct set *set = g_ptr_array_index(sets, i);
		if (all)
			g_mutex_lock(&set->lock);
		else if (!g_mutex_trylock(&set->lock))
			continue;
		n += vms_hits_take(set->hits, all);
		g_mutex_unlock(&set->lock);
	}
	return n;
}

/* Sets whether the agent wakes this client at the next hit. */
static void set_sleeps(GPtrArray *sets, bool sleeps)
{
	for (guint i = 0; i < sets->len; i++)
		vms_hits_set_sleeps(((struct set *)g_ptr_array_index(sets, i))->hits, sleeps);
}

/* Reads the bytes that the agent has sent to wake this client. */
static void read_wakes(struct set *set)
{
	char bytes[64];
	while (recv(set->woken, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

/* Waits until the agent wakes this client, or QEMU ends, or `timeout_ms` are over. */
static void wait_for_agent(const struct vms_agent_prober *prober, GPtrArray *sets, int timeout_ms)
{
	g_autofree struct pollfd *polls = g_new0(struct pollfd, sets->len + 1);
	for (guint i = 0; i < sets->len; i++) {
		const struct set *set = g_ptr_array_index(sets, i);
		polls[i].fd = atomic_load(&set->hung_up) ? -1 : set->woken;
		polls[i].events = POLLIN;
	}
	polls[sets->len].fd = prober->link->stream.fd; /* only to see its end */
	if (poll(polls, sets->len + 1, timeout_ms) <= 0)
		return;
	for (guint i = 0; i < sets->len; i++) {
		struct set *set = g_ptr_array_index(sets, i);
		if (polls[i].revents & POLLIN)
			read_wakes(set);
		else if (polls[i].revents)
			atomic_store(&set->hung_up, true);
	}
}

/* Returns the time until `end_ns`, at most `max_ms`. */
static int get_time_left_ms(uint64_t end_ns, int max_ms)
{
	const uint64_t now_ns = vms_clock_now_ns();
	return now_ns < end_ns ? (int)MIN((end_ns - now_ns + 999999) / 1000000, (uint64_t)max_ms)
			       : 0;
}

static bool set_closed_error(const struct vms_agent_prober *prober, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED, "%s: QEMU is gone",
		    prober->link->stream.peer);
	return false;
}

/* Takes hits. If there are none, waits until `end_ns` for the next one and takes it. */
static size_t sleep_and_take(const struct vms_agent_prober *prober, GPtrArray *sets,
			     uint64_t end_ns)
{
	set_sleeps(sets, true);
	size_t n = take_all_hits(sets, false);
	if (n == 0) {
		wait_for_agent(prober, sets, get_time_left_ms(end_ns, SLICE_MS));
		n = take_all_hits(sets, false);
	}
	set_sleeps(sets, false);
	return n;
}

bool vms_agent_probes_take(struct vms_agent_prober *prober, unsigned timeout_ms, GError **error)
{
	const uint64_t end_ns = vms_clock_now_ns() + timeout_ms * G_GUINT64_CONSTANT(1000000);
	for (unsigned round = atomic_load(&prober->is_busy) ? 1 : 0;; round++) {
		g_autoptr(GPtrArray) sets = list_sets(prober);
		size_t n = 0;
		if (round == 1)
			wait_for_agent(prober, sets, get_time_left_ms(end_ns, NAP_MS));
		else if (round > 1)
			n = sleep_and_take(prober, sets, end_ns);
		const bool is_closed = vms_agent_link_is_closed(prober->link);
		n += take_all_hits(sets, is_closed);
		atomic_store(&prober->is_busy, n > 0);
		if (is_closed)
			return set_closed_error(prober, error);
		if (n > 0 || vms_clock_now_ns() >= end_ns)
			return true;
	}
}

/* ---- the engine's functions --------------------------------------------------------- */

/* Maps the rings. Takes ownership of the descriptors. */
static bool map_rings(struct set *set, const struct vms_probes_request *request, const int fds[2],
		      GError **error)
{
	const struct vms_hits_expected expected = {
		.n_places = request->n,
		.max_hits = request->max_hits,
		.cpu_index = set->prober->cpu_index,
		.n_vcpus = set->prober->machine->n_vcpus,
	};
	struct stat file = { 0 };
	set->woken = fds[1];
	if (fstat(fds[0], &file) == 0 && file.st_size > 0)
		set->size = (size_t)file.st_size;
	set->memory = vms_agent_map(set->prober->link, fds[0], set->size, error);
	close(fds[0]);
	if (set->memory)
		set->hits = vms_hits_new(set->memory, set->size, &expected, request->hit,
					 request->data, error);
	return set->hits;
}

/* Maps the tallies. Takes ownership of the descriptor. */
static bool map_tallies(struct set *set, const struct vms_tally_shape *shape, int fd,
			GError **error)
{
	const struct vms_agent_prober *prober = set->prober;
	const unsigned n = prober->machine->n_vcpus;
	const void **memory = g_new(const void *, n);
	set->shape = *shape;
	vms_tally_lay_out(&set->shape, &set->layout);
	set->tallies = (struct vms_tallies) { memory, n, &set->shape, &set->layout };
	set->mapped_size = prober->link->hello.max_vcpus * set->layout.size;
	set->mapped = vms_agent_map(prober->link, fd, set->mapped_size, error);
	close(fd);
	for (unsigned i = 0; set->mapped && i < n; i++)
		memory[i] = (char *)set->mapped + prober->cpu_index[i] * set->layout.size;
	return set->mapped;
}

static struct set *new_set(struct vms_agent_prober *prober)
{
	struct set *set = g_new0(struct set, 1);
	set->base.machine = prober->machine;
	set->prober = prober;
	g_atomic_ref_count_init(&set->refs);
	g_mutex_init(&set->lock);
	set->woken = -1;
	g_mutex_lock(&prober->lock);
	set->id = ++prober->last_id;
	g_mutex_unlock(&prober->lock);
	return set;
}

struct vms_probes *vms_agent_probes_arm(struct vms_agent_prober *prober,
					const struct vms_probes_request *request, GError **error)
{
	int fds[3];
	if (!vms_agent_link_require(prober->link, VMS_AGENT_CAN_PROBE, error) ||
	    (request->tally && !vms_agent_link_require(prober->link, VMS_AGENT_CAN_TALLY, error)) ||
	    !check_request(prober, request, error))
		return NULL;
	struct set *set = new_set(prober);
	if (!send_start(prober, set->id, request, fds, error)) {
		unref_set(set);
		return NULL;
	}
	const bool has_tallies = !request->tally || map_tallies(set, request->tally, fds[2], error);
	if (!map_rings(set, request, fds, has_tallies ? error : NULL) || !has_tallies) {
		send_stop(set, NULL);
		unref_set(set);
		return NULL;
	}
	vms_machine_ref(prober->machine);
	g_mutex_lock(&prober->lock);
	g_ptr_array_add(prober->sets, ref_set(set));
	g_mutex_unlock(&prober->lock);
	return &set->base;
}

bool vms_agent_probes_disarm(struct vms_probes *probes, GError **error)
{
	struct set *set = (struct set *)probes;
	if (atomic_exchange(&set->was_disarmed, true))
		return true;
	const bool ok = send_stop(set, error);
	g_mutex_lock(&set->lock);
	vms_hits_take(set->hits, true);
	g_mutex_unlock(&set->lock);
	g_mutex_lock(&set->prober->lock);
	g_ptr_array_remove(set->prober->sets, set);
	g_mutex_unlock(&set->prober->lock);
	return ok;
}

bool vms_agent_probes_is_armed(struct vms_probes *probes)
{
	const struct set *set = (struct set *)probes;
	return !atomic_load(&set->was_disarmed) && !vms_hits_is_stopped(set->hits) &&
	       !vms_agent_link_is_closed(set->prober->link);
}

void vms_agent_probes_counts(struct vms_probes *probes, struct vms_probes_counts *ret)
{
	const struct set *set = (struct set *)probes;
	vms_hits_counts(set->hits, ret);
}

void vms_agent_probes_tallies(struct vms_probes *probes, struct vms_tallies *ret)
{
	*ret = ((struct set *)probes)->tallies;
}

void vms_agent_probes_free(struct vms_probes *probes)
{
	struct vms_machine *machine = probes->machine;
	vms_agent_probes_disarm(probes, NULL);
	unref_set(probes);
	vms_machine_unref(machine);
}
