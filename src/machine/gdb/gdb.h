/* SPDX-License-Identifier: MIT */
/*
 * A client of the gdb remote protocol, in all-stop mode
 * (https://sourceware.org/gdb/current/onlinedocs/gdb.html/Remote-Protocol.html).
 * The stub's target description tells by name where registers are: no position is assumed. Only one
 * thread may use a client.
 */
#pragma once

#include "base/stream.h"
#include "machine/host/whose_stop.h"
#include "probe/wide_registers.h"
#include <vmscope/arch.h>
#include <vmscope/error.h>

/* How many bytes a packet's payload may have when it is decoded; QEMU's have at most 4096. */
#define VMS_GDB_PAYLOAD_MAX 65536
#define VMS_GDB_THREADS_MAX 4096
/* How many bytes a monitor's answer may have. */
#define VMS_GDB_TEXT_MAX (4U << 20)

/*
 * Where a register is: in the answer to `g`, at `offset`, if that is long enough; else `p` reads
 * it.
 */
struct vms_gdb_slot {
	unsigned number;
	unsigned offset; /* bytes */
	unsigned size;	 /* bytes; 0 when the stub does not have it */
};

/* vCPUs from `next` to before `end`: their registers were requested, and not received yet. */
struct vms_gdb_awaited {
	unsigned next, end;
};

struct vms_gdb {
	struct vms_stream stream;
	const struct vms_arch *arch;
	struct vms_gdb_slot slots[VMS_REGS_MAX]; /* by index of the architecture */
	struct vms_gdb_slot wide[VMS_WIDE_MAX];	 /* by number of a wide register */
	GArray *threads;			 /* uint64_t ids, one per vCPU */
	unsigned packet_size;
	bool has_vcont;
	bool has_phys_mode; /* `m` can read physical memory */
	bool phys_mode;	    /* `m` reads physical memory now */
	bool broken;	    /* answers cannot be told from each other any more */

	bool stopped;	      /* the stub has said that the machine is stopped */
	unsigned signal;      /* of the last stop */
	uint64_t stop_thread; /* that the last stop names; 0: none */
	/*
	 * An interrupt request precedes each row of requests. Any byte that reaches QEMU's stub
	 * stops a running machine. The interrupt does nothing to a machine that stands still. If
	 * the machine runs, the stub says that this request has stopped it, before it answers. QEMU
	 * handles what arrives together without doing anything in between. The machine must then be
	 * released by other means than the stub's (`cont` of QEMU's monitor): after a request to
	 * continue, the stub reports the stops of everybody.
	 */
	bool interrupts;
	/* A request has stopped the machine, which somebody else had resumed: the stop is ours. */
	bool stopped_by_request;
	int64_t told_us; /* when that was told, by the wall clock; 0: never */
	/*
	 * What the watchdog knows, or NULL. It learns of a stop by a request at once. A long read
	 * ends when the watchdog has released the machine.
	 */
	struct vms_hold *hold;
	bool owes_ack;	  /* the last packet received is not acknowledged yet */
	GString *payload; /* of the last packet received */

	size_t general_size;	/* bytes in the answer to `g`; 0: not read yet */
	struct vms_regs *known; /* by vCPU, of the stopped machine; without a pc: not known */
	struct vms_gdb_awaited awaited;
};

/*
 * Learns what the stub behind the connected `gdb->stream` can do, and its registers and vCPUs. The
 * machine is stopped afterwards. The caller closes the client even if this fails. Errors:
 * UNSUPPORTED (no target description, an unknown architecture), BUSY (no answer: the stub serves
 * another client), PROTOCOL, TIMEOUT, CLOSED.
 */
bool vms_gdb_open(struct vms_gdb *gdb, GError **error);
/*
 * The two halves of vms_gdb_open, for a client that has something to ask as soon as the stub
 * answers: the first learns what the stub can do, the second its registers and vCPUs.
 */
bool vms_gdb_greet(struct vms_gdb *gdb, GError **error);
bool vms_gdb_identify(struct vms_gdb *gdb, GError **error);
/*
 * Reads what a stub has sent that QEMU has removed since. True if one of our requests, however late
 * it was, has stopped the machine: QEMU says that by a stop reply of this kind alone. The client is
 * of no other use afterwards.
 */
bool vms_gdb_told_late_stop(struct vms_gdb *gdb);
/* Closes the connection without a request to the stub. */
void vms_gdb_close(struct vms_gdb *gdb);
/* Detaches from the machine, which runs then. */
bool vms_gdb_detach(struct vms_gdb *gdb, GError **error);

/* Stops the machine, unless it is stopped already. `signal` tells why it stopped. */
bool vms_gdb_stop(struct vms_gdb *gdb, GError **error);
/*
 * Stops the machine, and with `wants_regs` requests the registers of its vCPUs in the same round
 * trip. *was_running is true if this request has stopped it. Only with `interrupts`. The answers
 * have to be received before the machine is released by other means than this client: a request
 * that QEMU has not handled yet would stop it again.
 */
bool vms_gdb_interrupt(struct vms_gdb *gdb, bool wants_regs, bool *was_running, GError **error);
/*
 * As vms_gdb_interrupt, without registers. Gives the text, newly allocated, that QEMU's monitor
 * says to `command` after the stop. Errors: those of vms_gdb_monitor.
 */
bool vms_gdb_interrupt_for(struct vms_gdb *gdb, const char *command, char **text, bool *was_running,
			   GError **error);
/* Receives what was requested and not received. The next request does so, too. */
bool vms_gdb_receive_awaited(struct vms_gdb *gdb, GError **error);
/*
 * Stops the machine after somebody else has used this connection, when answers cannot be told from
 * each other any more: it drops what is unread. Nobody knows whether the machine was running.
 */
bool vms_gdb_resync(struct vms_gdb *gdb, GError **error);
/* Lets the machine run. Not with `interrupts`. */
bool vms_gdb_resume(struct vms_gdb *gdb, GError **error);
/* Notes a stop that nobody here requested, without waiting. */
bool vms_gdb_poll(struct vms_gdb *gdb, GError **error);

/*
 * Stops a machine that had stopped without a request of ours. *was_running is true if somebody had
 * resumed it since: then the stop is ours.
 */
bool vms_gdb_probe(struct vms_gdb *gdb, bool *was_running, GError **error);

/*
 * Reads the registers of a vCPU of the stopped machine. Registers that the stub does not have, and
 * those that are seldom needed, stay invalid. The registers of other vCPUs come in the same round
 * trip, and are known until they are forgotten.
 */
bool vms_gdb_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_regs *ret, GError **error);
/*
 * Forgets the known registers of all vCPUs. Call it when the machine may have run since they were
 * read. vms_gdb_resume does it by itself.
 */
void vms_gdb_forget_regs(struct vms_gdb *gdb);
/* Adds to `ret` the registers that are seldom needed. */
bool vms_gdb_system_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_regs *ret, GError **error);
/* Reads the wide registers that the stub describes. Only while the machine stands still. */
bool vms_gdb_wide_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_wide_regs *ret,
		       GError **error);
/* The most memory to read in one hold of a machine that runs: some milliseconds. */
#define VMS_GDB_HELD_READ_MAX (64u << 10)
/*
 * Reads physical memory of the stopped machine. Errors: UNREADABLE (any byte cannot be read),
 * UNSUPPORTED (the stub cannot read physical memory), INVALID_STATE (the watchdog has released the
 * machine meanwhile).
 */
bool vms_gdb_read_phys(struct vms_gdb *gdb, uint64_t pa, void *buf, size_t size, GError **error);
/*
 * Makes `m` read virtual memory again, as it usually does. The mode outlives the connection, and
 * the next client of the stub must not be surprised by it.
 */
bool vms_gdb_leave_phys_mode(struct vms_gdb *gdb, GError **error);

/*
 * Runs a command of the stub's monitor (in QEMU, the human monitor). Returns its answer, newly
 * allocated, as vms_text_clean_lines makes it. Errors: UNSUPPORTED (the stub has no monitor, or
 * that refuses the command).
 */
char *vms_gdb_monitor(struct vms_gdb *gdb, const char *command, GError **error);

/* Reads the target description into `slots` and `arch` (target.c). */
bool vms_gdb_read_target(struct vms_gdb *gdb, GError **error);
/* Sends a request and receives its answer into `payload`. */
bool vms_gdb_request(struct vms_gdb *gdb, const char *request, GError **error);
/* Sets an error about this stub. The connection can still be used. Returns false. */
bool vms_gdb_fail(struct vms_gdb *gdb, enum vms_error code, const char *what, GError **error);
