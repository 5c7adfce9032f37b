/* SPDX-License-Identifier: MIT */
/* Finds out where the memory of a machine lies whose monitor does not tell. */
#pragma once

#include "machine/kvm/areas.h"
#include "machine/kvm/holder.h"

/*
 * Makes guesses by what the process has mapped, and takes the one that the vCPUs prove
 * (prove_map.h). The holder has slots for `vcpus`. Returns NULL if none is proved, or several are.
 * Errors: UNSUPPORTED, with the reason; PERMISSION (/proc does not show the mappings).
 */
struct vms_kvm_guess *vms_kvm_infer_map(struct vms_kvm_holder *holder,
					const struct vms_host_identity *process, GArray *vcpus,
					const struct vms_arch *arch, GError **error);
