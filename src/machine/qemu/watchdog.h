/* SPDX-License-Identifier: MIT */
/*
 * The watchdog: a small process beside this one. It releases a held machine when this process dies
 * by any signal, is stopped while it holds the machine, or holds it for longer than the limit. It
 * tries that for as long as that very QEMU lives.
 *
 * It is a side process (base/side_process.h).
 */
#pragma once

#include "base/stream.h"
#include "machine/host/identity.h"
#include "machine/host/whose_stop.h"

struct vms_watchdog;

/*
 * Starts a watchdog for a QEMU. It speaks QMP on `qmp`, or on a new connection to the same address
 * if that leads to the same process. `process` is the QEMU, or the identity of nobody if that is
 * not known. The watchdog removes the gdb stub whose chardev is called `label`, and the descriptor
 * of that name. The memory that both processes share is a file called `label`, if there is a folder
 * for it (hold_record.h). Errors: IO.
 */
struct vms_watchdog *vms_watchdog_new_qmp(const struct vms_stream *qmp,
					  const struct vms_host_identity *process,
					  const char *label, GError **error);
/* Starts a watchdog for a bare gdb stub, which it reaches by the client's stream. Errors: IO. */
struct vms_watchdog *vms_watchdog_new_gdb(const struct vms_stream *gdb, GError **error);
/*
 * Tells the watchdog that QEMU's monitor answers behind the stub. Then it releases the machine by
 * the monitor, which looks at the state first.
 */
void vms_watchdog_set_monitor(struct vms_watchdog *watchdog);
/*
 * Ends the watchdog. It first releases a machine that is still held, and removes a stub that is
 * left: for that it may live on for a while. This waits for its end, unless `is_late`: QEMU does
 * not answer at the moment, so that the watchdog cannot end soon.
 */
void vms_watchdog_free(struct vms_watchdog *watchdog, bool is_late);

/* The state of the hold, which the watchdog shares with this process. */
struct vms_hold *vms_watchdog_hold(struct vms_watchdog *watchdog);
/*
 * Begins the next hold: from now on a stop of ours is in force, or may come. It may last
 * `limit_ns`.
 */
void vms_watchdog_begin_stop(struct vms_watchdog *watchdog, uint64_t limit_ns);
/*
 * Shares the connection to the gdb stub, before there are breakpoints: the watchdog removes them by
 * it. Call it again for another connection. Errors: IO.
 */
bool vms_watchdog_share_stub(struct vms_watchdog *watchdog, int fd, GError **error);
/* Starts the watchdog again if it was killed. Call it before the machine is stopped. Errors: IO. */
bool vms_watchdog_check(struct vms_watchdog *watchdog, GError **error);
/*
 * Waits until a watchdog that has released the machine (VMS_HOLD_TAKEN) has written to the
 * connection all that it has to write.
 */
void vms_watchdog_wait(struct vms_watchdog *watchdog);
