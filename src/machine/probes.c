/* SPDX-License-Identifier: MIT */
#include "machine/probes.h"

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
	return machine->engine->probes->arm(machine, request, error);
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
}

void vms_probes_free(struct vms_probes *probes)
{
	if (probes)
		engine_of(probes)->free(probes);
}
