/* SPDX-License-Identifier: MIT */
/*
 * The holder: a small process that holds vCPUs of a KVM process one by one, by ptrace(2). It is a
 * process of its own (base/side_process.h) because only the thread that seizes another one
 * may let it go, and this program may be stopped or hang at any moment. When the holder dies, the
 * kernel lets go by itself what it has seized.
 *
 * A thread is seized for each hold, and let go with it. Between holds nothing is traced: signals by
 * which a monitor kicks its vCPUs reach them at once, and a holder that is frozen keeps nobody.
 *
 * Registers come from the page that the kernel shares with the monitor for each vCPU (struct
 * kvm_run, linux/kvm.h): with a bit of its `kvm_valid_regs` set, the kernel stores the registers
 * there each time when KVM_RUN returns (KVM_CAP_SYNC_REGS). The holder sets the bits before a hold,
 * and puts back what was there when the holder ends. If the holder is killed, the bits stay: the
 * kernel goes on to store registers that nobody reads.
 *
 * Tool and holder share a slot per vCPU. A hold: the tool writes a new number into `wanted`, with
 * VMS_KVM_PIN unless the hold is a brief one, and wakes the holder; the holder answers with the
 * number in `answered`. A brief hold is over then: the holder has read registers and prefetched
 * memory, and let the vCPU go. The other one lasts until the tool changes `wanted`, or the holder
 * counts `broken`: because of the hold's limit, or the tool was stopped, or has ended.
 */
#pragma once

#include <asm/kvm.h>
#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "machine/host/identity.h"
#include "machine/kvm/vcpus.h"

#define VMS_KVM_PIN	      (UINT32_C(1) << 31) /* in `wanted`: the hold does not end by itself */
#define VMS_KVM_MAX_PREFETCH  64
#define VMS_KVM_PREFETCH_SIZE 256

enum vms_kvm_outcome {
	VMS_KVM_HELD,
	VMS_KVM_THREAD_GONE, /* the thread has ended */
	VMS_KVM_REFUSED,     /* the thread may not be traced, or another process traces it */
	VMS_KVM_AWAY,	     /* it stayed in its monitor's code */
	VMS_KVM_QUEUED,	     /* it has had no processor since it was last let go */
	/* It has been waiting in its monitor's code since before its registers were stored. */
	VMS_KVM_UNSEEN,
	VMS_KVM_OTHER_THREAD, /* it runs another vCPU */
	VMS_KVM_NO_REGS,      /* the kernel does not store registers */
	VMS_KVM_NO_FILES,     /* the holder may not open enough files */
	/* The vCPU stayed in system management mode, or in a guest of its own guest. */
	VMS_KVM_OTHER_GUEST,
};

/* Memory to read along with a hold: by the file if there is one, else in the process. */
struct vms_kvm_prefetch {
	uint64_t hva; /* 0: not to be read */
	int fd;	      /* -1: none; a number that was open when the holder was started */
	uint64_t file_offset;
};

struct vms_kvm_slot {
	/* The tool writes this while no hold of the vCPU is wanted. */
	_Atomic pid_t tid; /* of the thread */
	uint64_t run_hva;  /* of struct kvm_run; 0: only find out `seen_fd` */
	int fds[VMS_KVM_FDS_MAX];
	unsigned n_fds;
	uint64_t give_up_ns; /* until when to try; by vms_kvm_holder_hold */
	uint64_t limit_ns;   /* how long the hold may last */
	unsigned n_prefetch;
	struct vms_kvm_prefetch prefetch[VMS_KVM_MAX_PREFETCH];

	_Atomic uint32_t wanted;   /* by the tool: the number of the hold; 0: none */
	_Atomic uint32_t answered; /* by the holder, a futex: the number of the last answer */
	_Atomic uint32_t
		released; /* by the holder, a futex: the number of the last hold that is over */
	_Atomic uint32_t broken; /* by the holder: how many holds it has ended itself */
	/* By the holder: kvm_valid_regs was changed, and what was there before. */
	atomic_bool is_altered;
	uint64_t valid_regs;

	/* By the holder, before it answers. */
	enum vms_kvm_outcome outcome;
	int seen_fd;	  /* by which the thread was in KVM_RUN; -1: it was not */
	bool in_monitor;  /* the vCPU was in its monitor's code: registers are of its last exit */
	bool is_asleep;	  /* it sleeps there, and was not stopped */
	uint64_t held_ns; /* how long the last brief hold lasted; of another one, until it was read
			   */
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	uint8_t is_prefetched[VMS_KVM_MAX_PREFETCH];
	uint8_t prefetched[VMS_KVM_MAX_PREFETCH][VMS_KVM_PREFETCH_SIZE];
};

struct vms_kvm_holder;

/*
 * Starts a holder with `n` slots, which are zeroed. `files`, `n_files` of them, are descriptors
 * that it keeps for struct vms_kvm_prefetch. `memory` is the process's /proc/PID/mem, open to read
 * and write. It and `process` must live as long as the holder. Errors: IO.
 */
struct vms_kvm_holder *vms_kvm_holder_new(const struct vms_host_identity *process, int memory,
					  unsigned n, const int *files, size_t n_files,
					  GError **error);
/* Releases all vCPUs, puts back what was changed, and ends the holder. */
void vms_kvm_holder_free(struct vms_kvm_holder *holder);

struct vms_kvm_slot *vms_kvm_holder_slot(struct vms_kvm_holder *holder, unsigned index);

/*
 * Wants a hold in a slot, and waits for the holder's answer: `outcome` in the slot. The holder
 * tries until `give_up_ns` (CLOCK_MONOTONIC). Without `pinned` it is a brief hold. In any case
 * vms_kvm_holder_release follows. Starts the holder again if it was killed, and kills one that is
 * stopped: then all holds are broken. For one thread per slot. Errors: CLOSED (the process has
 * ended), TIMEOUT (the thread does not stop), IO.
 */
bool vms_kvm_holder_hold(struct vms_kvm_holder *holder, unsigned index, bool pinned,
			 uint64_t give_up_ns, GError **error);
/* Ends a hold. When it returns, the vCPU was let go. */
void vms_kvm_holder_release(struct vms_kvm_holder *holder, unsigned index);
/*
 * How long the last hold of a slot has lasted, in ns: from when the thread was asked to stop until
 * it was let go; 0 if it did not execute and was not stopped. Call it after the release.
 */
uint64_t vms_kvm_holder_last_hold_ns(const struct vms_kvm_holder *holder, unsigned index);
