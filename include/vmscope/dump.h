/* SPDX-License-Identifier: MIT */
/*
 * Writes a machine, any machine, into a core file. All vCPUs are held while memory and registers
 * are copied, and for nothing else.
 */
#pragma once

#include <vmscope/core.h>
#include <vmscope/guest.h>

G_BEGIN_DECLS

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

typedef struct vms_dump_result vms_dump_result;

enum vms_dump_phase {
	VMS_DUMP_COPYING,     /* memory, while the guest is held */
	VMS_DUMP_COMPRESSING, /* what was copied; the guest runs */
	VMS_DUMP_SYNCING,     /* the file is brought to the disk; the guest runs */
};

struct vms_dump_progress {
	enum vms_dump_phase phase;
	uint64_t done, total;	   /* bytes of memory, in this phase */
	uint64_t elapsed_ns;	   /* since this phase began */
	uint64_t bytes_per_second; /* so far */
};

struct vms_dump_options {
	enum vms_core_format format;
	enum vms_dump_compression compression; /* KDUMP only: of its pages, not PLAIN */
	enum vms_dump_threads threads;
	bool overwrite; /* replace a file that is there */
	/*
	 * KDUMP only: compress while the machine is held. It is held for much longer then; but the
	 * file's folder needs no room for what of the memory is not zeros, as it is.
	 */
	bool compress_held;
	/* Called about ten times a second from the calling thread; false cancels. May be NULL. */
	bool (*progress)(const struct vms_dump_progress *progress, void *data);
	void *data;
};

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
};

/*
 * Writes the core file `path`, whole or not at all: mode 0600, under no name or a temporary one
 * until it is complete and on the disk. `guest` is what was found in `machine`; a Linux guest gives
 * thread ids, VMCOREINFO and the kernel's address space. Holds the machine, and releases it on
 * every path. What was not readable is zeros in the file, and in `ret`. For any thread.
 *
 * Errors: EXISTS (and not `overwrite`), PERMISSION, IO (a full disk: what was needed), UNSUPPORTED
 * (the machine's memory map is unknown; a format that does not know the architecture), CLOSED (the
 * machine has gone), INVALID_STATE (it was resumed by somebody while it was copied: the copy would
 * be torn), CANCELLED (`progress` said so).
 */
bool vms_dump(struct vms_machine *machine, struct vms_guest *guest, const char *path,
	      const struct vms_dump_options *options, struct vms_dump_result *ret, GError **error);
void vms_dump_result_clear(struct vms_dump_result *result);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vms_dump_result, vms_dump_result_clear)

G_END_DECLS
