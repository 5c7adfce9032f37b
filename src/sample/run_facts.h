/* SPDX-License-Identifier: MIT */
/* How the facts of a run are made. */
#pragma once

#include <vmscope/run_facts.h>

/* What there is to know of a machine and its guest, which may be NULL; nothing of a run yet. */
struct vms_run_facts *vms_run_facts_new(struct vms_machine *machine, const struct vms_guest *guest);
/* Puts together the title, when all else is there. */
void vms_run_facts_set_title(struct vms_run_facts *facts);
