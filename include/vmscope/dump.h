/* SPDX-License-Identifier: MIT */
/*
 * Writes a machine, any machine, into a core file. All vCPUs are held while memory and registers
 * are copied, and for nothing else. A dump is a job: start, progress, stop, wait, finish.
 */
#pragma once

#include <vmscope/core.h>
#include <vmscope/guest.h>

VMS_BEGIN_DECLS

enum vms_dump_compression {
	VMS_DUMP_PLAIN,
	VMS_DUMP_ZLIB,
	VMS_DUMP_ZSTD,
};

/* What the file calls the vCPUs' threads (pr_pid of NT_PRSTATUS). */
enum vms_dump_threads {
	/*
	 * The guest's id of the thread that runs on the vCPU. An idle task has none of its own: it
	 * gets VMS_DUMP_IDLE_TID + vCPU, which no Linux thread can have.
	 */
	VMS_DUMP_THREADS_TASK,
	/* The vCPU's number plus one, as QEMU does it and drgn from 0.0.27 on expects it. */
	VMS_DUMP_THREADS_VCPU,
};
#define VMS_DUMP_IDLE_TID (1U << 22) /* PID_MAX_LIMIT of include/linux/threads.h */

typedef struct vms_dump vms_dump;
typedef struct vms_dump_result vms_dump_result;

enum vms_dump_phase {
	VMS_DUMP_PREPARING,   /* how much there is to copy; the guest runs */
	VMS_DUMP_COPYING,     /* memory, while the guest is held */
	VMS_DUMP_WRITING,     /* what the disk has not taken meanwhile; the guest runs */
	VMS_DUMP_COMPRESSING, /* what was copied; the guest runs */
	VMS_DUMP_SYNCING,     /* the file is brought to the disk; the guest runs */
};

struct vms_dump_progress {
	enum vms_dump_phase phase;
	uint64_t done, total;	   /* bytes of memory, in this phase; of those that take time */
	uint64_t elapsed_ns;	   /* since this phase began */
	uint64_t bytes_per_second; /* so far */
};

struct vms_dump_options {
	size_t size; /* sizeof(struct vms_dump_options) */
	enum vms_core_format format;
	enum vms_dump_compression compression; /* KDUMP only: of its pages, not PLAIN */
	enum vms_dump_threads threads;
	bool overwrite; /* replace a file that is there */
	/*
	 * KDUMP only: compress at once, without a copy in the file's folder of what of the memory
	 * is not zeros. What does not fit into `buffer` is compressed while the machine is held.
	 */
	bool compress_held;
	/*
	 * How long the machine may be held. At the limit it is released, and the dump fails;
	 * UINT64_MAX: no limit. 0: VMS_DUMP_HOLD_LIMIT_NS.
	 */
	uint64_t hold_limit_ns;
	/*
	 * Memory, in bytes, for what is copied quicker than the disk takes it. What does not fit
	 * waits for the disk, while the machine is held. 0: a quarter of what this host, and the
	 * control group, have available. A few MiB are used in any case.
	 */
	uint64_t buffer;
};
#define VMS_DUMP_HOLD_LIMIT_NS (UINT64_C(10) * 1000 * 1000 * 1000)

struct vms_dump_result {
	uint64_t memory;       /* bytes of RAM and ROM */
	uint64_t zeros;	       /* bytes of them that are left out as pages of zeros */
	uint64_t unreadable;   /* bytes of them that could not be read: zeros in the file */
	GArray *unreadable_at; /* struct vms_range, joined; names are NULL */
	uint64_t file_size;    /* bytes, holes included */
	uint64_t written;      /* bytes that were written */
	uint64_t held_ns;      /* how long the guest was held; 0: it was paused, or a core file */
	uint64_t elapsed_ns;   /* until the file was complete on the disk */
	unsigned vcpus;
	/*
	 * const char *, static: registers that the layout shows of every vCPU, and that are not
	 * known of all. Readers of other makers see zeros, or what is usual; a note in the file
	 * tells ours.
	 */
	GPtrArray *made_up;
};

/*
 * Begins to write the core file `path`, whole or not at all: mode 0600, under no name or a
 * temporary one until it is complete and on the disk. `guest` is what was found in `machine`; a
 * Linux guest gives thread ids, VMCOREINFO and the kernel's address space. Threads of the dump hold
 * the machine, and release it on every path, whatever the caller, the terminal or the disk do: they
 * wait for none of them while it is held. What was not readable is zeros in the file, and in the
 * result. How long the hold is expected to last is logged before (VMS_LOG_INFO). `options` are
 * copied; NULL: an ELF file that replaces none. Errors: INVALID_ARGUMENT (the options), IO (no
 * thread can be had).
 *
 * All of these may be called from any thread.
 */
struct vms_dump *vms_dump_start(struct vms_machine *machine, struct vms_guest *guest,
				const char *path, const struct vms_dump_options *options,
				GError **error);
/* How far it is. */
void vms_dump_progress(struct vms_dump *dump, struct vms_dump_progress *ret);
/* Ends it early: CANCELLED. Returns at once; the machine is released within a tenth of a second. */
void vms_dump_stop(struct vms_dump *dump);
/*
 * Waits until it has ended, or until `until_ns` (CLOCK_MONOTONIC; UINT64_MAX: without a limit).
 * True when it has ended: the machine is released.
 */
bool vms_dump_wait(struct vms_dump *dump, uint64_t until_ns);
/*
 * Waits until it has ended; true if the file is written. Errors: EXISTS (and not `overwrite`),
 * PERMISSION, IO (a full disk: what was needed), UNSUPPORTED (the machine's memory map is unknown;
 * a format that does not know the architecture), CLOSED (the machine has gone), INVALID_STATE (it
 * was resumed by somebody while it was copied: the copy would be torn; memory was plugged since it
 * was opened), TIMEOUT (it would have
 * been, or was, held up to the limit), CANCELLED.
 */
bool vms_dump_finish(struct vms_dump *dump, struct vms_dump_result *ret, GError **error);
/*
 * Stops it, if it has not ended, and waits until its threads have, but no longer than two seconds:
 * a disk that does not answer may keep a thread of a dump that failed for ever. That one frees what
 * it has when the disk answers.
 */
void vms_dump_free(struct vms_dump *dump);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_dump, vms_dump_free)

void vms_dump_result_clear(struct vms_dump_result *result);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vms_dump_result, vms_dump_result_clear)

VMS_END_DECLS
