/* SPDX-License-Identifier: MIT */
#include "machine/probes.h"

#define PATIENCE 10000 /* tries to read entries that are being changed: milliseconds at most */

/* A tally of hits that an engine hands out. */
struct vms_local_tally {
	GMutex lock;
	struct vms_tally tally;
	const void *memory;
	uint64_t unknown; /* hits with a number that is not known */
};

static const struct vms_probe_engine *engine_of(const struct vms_probes *probes)
{
	return probes->machine->engine->probes;
}

/* Finds the first place whose program cannot be run. */
static const struct vms_place *find_invalid(const struct vms_machine *machine,
					    const struct vms_probes_request *request)
{
	for (size_t i = 0; i < request->n; i++)
		if (!vms_program_check(request->places[i].program, machine->arch->n_regs))
			return &request->places[i];
	return NULL;
}

/* ---- adding up what an engine hands out --------------------------------------------- */

static void free_local_tally(struct vms_local_tally *local)
{
	if (!local)
		return;
	vms_tally_clear(&local->tally);
	g_free((void *)local->memory);
	g_mutex_clear(&local->lock);
	g_free(local);
}

static struct vms_local_tally *new_local_tally(const struct vms_tally_shape *shape)
{
	struct vms_local_tally *local = g_new0(struct vms_local_tally, 1);
	struct vms_tally_layout layout;
	vms_tally_lay_out(shape, &layout);
	local->memory = g_malloc0(layout.size);
	g_mutex_init(&local->lock);
	if (vms_tally_init(&local->tally, shape, (void *)local->memory))
		return local;
	free_local_tally(local);
	return NULL;
}

static void add_to_local_tally(const struct vms_hit *hit, void *data)
{
	struct vms_local_tally *local = data;
	uint64_t numbers[VMS_TALLY_NUMBERS_MAX];
	size_t key_at;
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&local->lock);
	if (vms_tally_split(&local->tally.shape, hit->values, hit->size, numbers, &key_at))
		vms_tally_add(&local->tally, numbers, hit->values + key_at, hit->size - key_at);
	else
		local->unknown++;
}

static struct vms_probes *arm_with_local_tally(struct vms_machine *machine,
					       const struct vms_probes_request *request,
					       GError **error)
{
	struct vms_local_tally *local = new_local_tally(request->tally);
	struct vms_probes_request own = *request;
	own.hit = add_to_local_tally;
	own.data = local;
	own.tally = NULL;
	struct vms_probes *probes =
		local ? machine->engine->probes->arm(machine, &own, error) : NULL;
	if (probes)
		probes->local = local;
	else
		free_local_tally(local);
	if (!local)
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "no memory to add up hits in");
	return probes;
}

bool vms_machine_has_probes(const struct vms_machine *machine)
{
	return machine->engine->probes != NULL;
}

/* ---- probes -------------------------------------------------------------------------- */

struct vms_probes *vms_probes_arm(struct vms_machine *machine,
				  const struct vms_probes_request *request, GError **error)
{
	const struct vms_place *invalid = find_invalid(machine, request);
	if (invalid) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "what to collect at 0x%" G_GINT64_MODIFIER "x is too much for one hit",
			    invalid->va);
		return NULL;
	}
	if (!machine->engine->probes) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s: there can be no probes in it (%s)", machine->info.name,
			    machine->engine->name);
		return NULL;
	}
	return request->tally && !machine->engine->probes->tallies
		       ? arm_with_local_tally(machine, request, error)
		       : machine->engine->probes->arm(machine, request, error);
}

bool vms_machine_take_hits(struct vms_machine *machine, unsigned timeout_ms, GError **error)
{
	return machine->engine->probes->take(machine, timeout_ms, error);
}

bool vms_probes_disarm(struct vms_probes *probes, GError **error)
{
	return engine_of(probes)->disarm(probes, error);
}

bool vms_probes_is_armed(struct vms_probes *probes)
{
	return engine_of(probes)->is_armed(probes);
}

void vms_probes_counts(struct vms_probes *probes, struct vms_probes_counts *ret)
{
	engine_of(probes)->counts(probes, ret);
	if (!probes->local)
		return;
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&probes->local->lock);
	ret->unknown += probes->local->unknown;
}

static uint64_t read_tallies(const struct vms_tallies *tallies,
			     void (*each)(const struct vms_tally_entry *entry, void *data),
			     void *data)
{
	g_autofree struct vms_tally_entry *entry = g_malloc(tallies->layout->entry_size);
	uint32_t patience = PATIENCE;
	uint64_t unfit = 0;
	for (unsigned i = 0; i < tallies->n; i++) {
		const struct vms_tally_head *head = tallies->memory[i];
		const uint32_t n = vms_tally_length(tallies->shape, head);
		for (uint32_t j = 0; j < n; j++)
			if (vms_tally_read(tallies->shape, tallies->layout, head, j, &patience,
					   entry))
				each(entry, data);
		unfit += atomic_load_explicit(&head->unfit, memory_order_relaxed);
	}
	return unfit;
}

uint64_t vms_probes_read_tallies(struct vms_probes *probes,
				 void (*each)(const struct vms_tally_entry *entry, void *data),
				 void *data)
{
	struct vms_local_tally *local = probes->local;
	struct vms_tallies tallies;
	if (!local) {
		engine_of(probes)->tallies(probes, &tallies);
		return read_tallies(&tallies, each, data);
	}
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&local->lock);
	tallies = (struct vms_tallies) { &local->memory, 1, &local->tally.shape,
					 &local->tally.layout };
	return read_tallies(&tallies, each, data);
}

void vms_probes_free(struct vms_probes *probes)
{
	if (!probes)
		return;
	struct vms_local_tally *local = probes->local;
	engine_of(probes)->free(probes);
	free_local_tally(local);
}
