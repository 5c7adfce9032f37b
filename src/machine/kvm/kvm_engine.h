/* SPDX-License-Identifier: MIT */
/*
 * Any process that runs a machine by KVM, by its pid: vCPUs are held one by one for some
 * microseconds (holder.h), and memory is read from the process. Nothing is injected or configured,
 * and nobody who manages the machine sees it stop.
 */
#pragma once

#include "machine/engine.h"
#include "machine/host/ram.h"

/*
 * Opens the machine of a KVM process whose memory lies at these places, which are sorted and do not
 * overlap; there is one at least. Errors: as vms_machine_open_kvm.
 */
struct vms_machine *vms_kvm_open_places(pid_t pid, const struct vms_ram_place *places, size_t n,
					GError **error);
