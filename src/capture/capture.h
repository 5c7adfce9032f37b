/* SPDX-License-Identifier: MIT */
/* Taking one sample of one vCPU: what it ran, for whom, and who called it. */
#pragma once

#include <vmscope/sample_record.h>

/*
 * Walks a stack of a held machine from `regs` outwards, and notes its user addresses so that
 * the guest's symbolizer can name them later. `process` says whose they are; NULL: unknown.
 */
void vms_capture_stack(struct vms_guest *guest, struct vms_memory *memory,
		       const struct vms_process *process, const struct vms_regs *regs,
		       unsigned depth, struct vms_stack *ret);

/*
 * Takes a sample of a vCPU that the caller holds, its stack at most `depth` frames deep (1 to
 * VMS_STACK_LIMIT). `memory` is the caller's, one per thread: it looks through this vCPU's page
 * tables afterwards. User addresses are noted so that the guest's symbolizer can name them later.
 * Allocates nothing that lasts but what the guest and its symbolizer keep of processes. Errors:
 * those of vms_machine_regs; a stack that cannot be walked is none, it ends as `stack` says.
 */
bool vms_capture_vcpu(struct vms_machine *machine, struct vms_guest *guest,
		      struct vms_memory *memory, unsigned vcpu, unsigned depth,
		      struct vms_sample_record *ret, GError **error);

/*
 * Notes what is loaded where a stack meets the kernel, so that its addresses can be named when
 * other code lies there. The machine may run. For any thread as long as nobody refreshes the
 * modules.
 */
void vms_capture_note_code(struct vms_guest *guest, struct vms_stack *stack);
