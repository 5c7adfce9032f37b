/* SPDX-License-Identifier: MIT */
/*
 * A client of the gdb remote protocol, in all-stop mode
 * (https://sourceware.org/gdb/current/onlinedocs/gdb.html/Remote-Protocol.html).
 * Registers are found by name through the stub's target description, never by
 * assumed position. Not thread-safe.
 */
#pragma once

#include "base/stream.h"
#include "machine/host/hold.h"
#include <vmscope/arch.h>
#include <vmscope/error.h>

/* Bytes of a packet's payload, expanded; QEMU's are at most 4096. */
#define VMS_GDB_PAYLOAD_MAX 65536
#define VMS_GDB_THREADS_MAX 4096
/* Bytes of a monitor's answer. */
#define VMS_GDB_TEXT_MAX (4U << 20)

/* Where a register is: in `g` at `offset` when the packet reaches so far, else by `p`. */
struct vms_gdb_slot {
	unsigned number;
	unsigned offset; /* bytes */
	unsigned size;	 /* bytes; 0 when the stub does not have it */
};

struct vms_gdb {
	struct vms_stream stream;
	const struct vms_arch *arch;
	struct vms_gdb_slot slots[VMS_REGS_MAX]; /* by index of the architecture */
	GArray *threads;			 /* uint64_t ids, one per vCPU */
	unsigned packet_size;
	bool has_vcont;
	bool has_phys_mode, phys_mode; /* can `m` read physical memory; does it now? */
	bool broken;		       /* after an error that leaves the stream out of step */

	bool stopped;	 /* the machine does not run, as far as the stub has told */
	unsigned signal; /* of the last stop */
	/*
	 * Any byte that reaches QEMU's stub stops a running machine. So an interrupt request goes
	 * before each row of requests (`interrupts`): it does nothing to a machine that stands
	 * still, and where the machine runs the stub tells that it was us who stopped it, before it
	 * answers. QEMU handles what arrives together without doing anything else between. It must
	 * be let go by other means than the stub's (`cont` of QEMU's monitor): after a request to
	 * continue the stub tells of everybody's stops.
	 */
	bool interrupts;
	/* A request has stopped the machine: somebody else had resumed it, and now it is ours. */
	bool stopped_by_request;
	/*
	 * What the watchdog knows: it is told of a stop by a request at once, and when it has let
	 * the machine go, a long row ends. May be NULL.
	 */
	struct vms_hold *hold;
	bool owes_ack;	  /* the last packet received is not acknowledged yet */
	GString *payload; /* of the last packet received */

	size_t general_size;	/* bytes that `g` tells; 0: not asked yet */
	struct vms_regs *known; /* of the stopped machine's vCPUs; without a pc: not known */
};

/*
 * Gets acquainted with the stub behind the connected `gdb->stream`. The
 * machine is stopped then. Errors: UNSUPPORTED (no target description, an
 * unknown architecture), PROTOCOL, TIMEOUT, CLOSED. To be closed in any case.
 */
bool vms_gdb_open(struct vms_gdb *gdb, GError **error);
/* Closes without a word to the stub. */
void vms_gdb_close(struct vms_gdb *gdb);
/* Lets go of the machine, which runs on. */
bool vms_gdb_detach(struct vms_gdb *gdb, GError **error);

/* Stops the machine, or finds it stopped (see `signal`). */
bool vms_gdb_stop(struct vms_gdb *gdb, GError **error);
/*
 * The same where `interrupts`: *was_running tells whether it was this request that stopped the
 * machine. Registers come along.
 */
bool vms_gdb_interrupt(struct vms_gdb *gdb, bool *was_running, GError **error);
/*
 * The same after somebody else has used this connection, and answers could not be told from each
 * other any more: what is unread is dropped. Nobody knows whether the machine ran.
 */
bool vms_gdb_resync(struct vms_gdb *gdb, GError **error);
/* Not where `interrupts`. */
bool vms_gdb_resume(struct vms_gdb *gdb, GError **error);
/* Takes note of a stop that nobody here asked for, without waiting. */
bool vms_gdb_poll(struct vms_gdb *gdb, GError **error);

/*
 * Asks whether a machine that has stopped without our doing is stopped still,
 * which it is afterwards. *was_running: somebody had resumed it, and now it was
 * us who stopped it.
 */
bool vms_gdb_probe(struct vms_gdb *gdb, bool *was_running, GError **error);

/*
 * For a stopped machine. Registers that the stub cannot tell stay invalid, as do those that are
 * seldom needed. Those of other vCPUs are asked for, too, and known until they are forgotten.
 */
bool vms_gdb_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_regs *ret, GError **error);
/* Who cannot tell whether the machine has stood still does this; resuming it does, too. */
void vms_gdb_forget_regs(struct vms_gdb *gdb);
/* Adds to `ret` the registers that are seldom needed. */
bool vms_gdb_system_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_regs *ret, GError **error);
/*
 * UNREADABLE when any byte cannot be read; UNSUPPORTED without physical mode; INVALID_STATE when
 * the watchdog has let the machine go meanwhile.
 */
bool vms_gdb_read_phys(struct vms_gdb *gdb, uint64_t pa, void *buf, size_t size, GError **error);
/*
 * Back to what `m` usually reads, if it was changed: the mode outlives the
 * connection, and the next gdb must not be surprised by it.
 */
bool vms_gdb_leave_phys_mode(struct vms_gdb *gdb, GError **error);

/*
 * What the stub's monitor answers to a command (in QEMU, the human monitor), newly allocated, as
 * vms_text_clean_lines. UNSUPPORTED when the stub has none, or refuses.
 */
char *vms_gdb_monitor(struct vms_gdb *gdb, const char *command, GError **error);

/* Reads target descriptions into `slots` and `arch` (target.c). */
bool vms_gdb_read_target(struct vms_gdb *gdb, GError **error);
/* Sends a request and receives its answer into `payload`. */
bool vms_gdb_request(struct vms_gdb *gdb, const char *request, GError **error);
/* An error about this stub that leaves the stream in step. Returns false. */
bool vms_gdb_fail(struct vms_gdb *gdb, enum vms_error code, const char *what, GError **error);
