/* SPDX-License-Identifier: MIT */
/*
 * Writes any machine into a core file. All vCPUs are held only while memory and registers are
 * copied. A dump is a job: start, progress, stop, wait, finish.
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

/* Which thread ids the file gives to the vCPUs (pr_pid of NT_PRSTATUS). */
enum vms_dump_threads {
	/*
	 * The guest's id of the thread that runs on the vCPU. Idle tasks have no id of their own,
	 * so each gets VMS_DUMP_IDLE_TID + vCPU, which no Linux thread can have.
	 */
	VMS_DUMP_THREADS_TASK,
	/* The vCPU's number plus one. QEMU writes it so, and drgn from 0.0.27 on expects it. */
	VMS_DUMP_THREADS_VCPU,
};
#define VMS_DUMP_IDLE_TID (1U << 22) /* PID_MAX_LIMIT of include/linux/threads.h */

typedef struct vms_dump vms_dump;
typedef struct vms_dump_result vms_dump_result;

enum vms_dump_phase {
	VMS_DUMP_PREPARING,   /* finds out how much there is to copy; the guest runs */
	VMS_DUMP_COPYING,     /* copies memory; the guest is held */
	VMS_DUMP_WRITING,     /* writes what the disk has not taken yet; the guest runs */
	VMS_DUMP_COMPRESSING, /* compresses what was copied; the guest runs */
	VMS_DUMP_SYNCING,     /* waits until the file is on the disk; the guest runs */
};

struct vms_dump_progress {
	enum vms_dump_phase phase;
	uint64_t done, total;	   /* bytes of this phase, of the memory that takes time */
	uint64_t elapsed_ns;	   /* since this phase began */
	uint64_t bytes_per_second; /* so far */
};

struct vms_dump_options {
	size_t size; /* sizeof(struct vms_dump_options) */
	enum vms_core_format format;
	enum vms_dump_compression compression; /* KDUMP only: of its pages; not PLAIN */
	enum vms_dump_threads threads;
	bool overwrite; /* replace an existing file */
	/*
	 * KDUMP only: compress at once. Without this, memory that is not zeros is first copied into
	 * the file's folder. What does not fit into `buffer` is compressed while the machine is
	 * held.
	 */
	bool compress_held;
	/*
	 * How long the machine may be held. At the limit it is released, and the dump fails. 0
	 * means VMS_DUMP_HOLD_LIMIT_NS, UINT64_MAX no limit.
	 */
	uint64_t hold_limit_ns;
	/*
	 * Bytes of memory for what is copied faster than the disk takes it. If the buffer is full,
	 * copying waits for the disk while the machine is held. 0 means a quarter of what this host
	 * and the control group have available. A few MiB are used in any case.
	 */
	uint64_t buffer;
};
#define VMS_DUMP_HOLD_LIMIT_NS (UINT64_C(10) * 1000 * 1000 * 1000)

struct vms_dump_result {
	uint64_t memory;       /* bytes of RAM and ROM */
	uint64_t zeros;	       /* bytes of it that are left out as pages of zeros */
	uint64_t unreadable;   /* bytes of it that could not be read; they are zeros in the file */
	GArray *unreadable_at; /* struct vms_range without names; neighbours are joined */
	uint64_t file_size;    /* bytes, holes included */
	uint64_t written;      /* bytes that were written */
	uint64_t held_ns;      /* how long the guest was held; 0 if paused, or a core file */
	uint64_t elapsed_ns;   /* until the file was complete on the disk */
	unsigned vcpus;
	/*
	 * const char *, static: registers for which the layout has a place, but which are not known
	 * of every vCPU. Other tools read zeros or usual values for them. A note in the file tells
	 * vmscope which they are.
	 */
	GPtrArray *made_up;
};

/*
 * Begins to write the core file `path`, whole or not at all. Its mode is 0600. Until it is complete
 * and on the disk, it has no name or a temporary one. `guest` is what was found in `machine`. A
 * Linux guest gives thread ids, VMCOREINFO and the kernel's address space. Threads of the dump hold
 * the machine, and release it whatever the caller, the terminal or the disk do. Memory that cannot
 * be read is zeros in the file, and the result lists it. The expected length of the hold is logged
 * before (VMS_LOG_INFO). `options` are copied. If they are NULL, it writes an ELF file and replaces
 * no file. Errors: INVALID_ARGUMENT (the options), IO (a thread cannot be started).
 *
 * All of these may be called from any thread.
 */
struct vms_dump *vms_dump_start(struct vms_machine *machine, struct vms_guest *guest,
				const char *path, const struct vms_dump_options *options,
				GError **error);
/* Gets how far the dump is. */
void vms_dump_progress(struct vms_dump *dump, struct vms_dump_progress *ret);
/* Cancels the dump. Returns at once. The machine is released within a tenth of a second. */
void vms_dump_stop(struct vms_dump *dump);
/*
 * Waits until the dump has ended, or until `until_ns` (CLOCK_MONOTONIC; UINT64_MAX: no limit). True
 * if it has ended: the machine is released.
 */
bool vms_dump_wait(struct vms_dump *dump, uint64_t until_ns);
/*
 * Waits until the dump has ended. True if the file is written. Errors: EXISTS (without
 * `overwrite`), PERMISSION, IO (if the disk is full, with the space that is needed), UNSUPPORTED
 * (the machine's memory map is unknown, or the format cannot hold this architecture), CLOSED (the
 * machine has gone), INVALID_STATE (somebody resumed the machine during the copy, or memory was
 * plugged since it was opened), TIMEOUT (the hold reached the limit, or would reach it), CANCELLED.
 */
bool vms_dump_finish(struct vms_dump *dump, struct vms_dump_result *ret, GError **error);
/*
 * Stops the dump if it has not ended. Waits for its threads, but no longer than two seconds: a disk
 * that does not answer may block a thread of a failed dump for ever. Such a thread frees what it
 * has when the disk answers.
 */
void vms_dump_free(struct vms_dump *dump);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_dump, vms_dump_free)

/* Frees what the result owns, but not the result itself. */
void vms_dump_result_clear(struct vms_dump_result *result);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vms_dump_result, vms_dump_result_clear)

VMS_END_DECLS
