/* SPDX-License-Identifier: MIT */
/* Makes the facts of a run. */
#pragma once

#include <vmscope/run_facts.h>

/* Makes facts of a machine and its guest, without those of a run. `guest` may be NULL. */
struct vms_run_facts *vms_run_facts_new(struct vms_machine *machine, const struct vms_guest *guest);
/* Sets the time at which the run began, in ns of CLOCK_MONOTONIC, and the date. */
void vms_run_facts_set_begin(struct vms_run_facts *facts, uint64_t begin_ns);
/* Sets the title. All other facts must be set before. */
void vms_run_facts_set_title(struct vms_run_facts *facts);
