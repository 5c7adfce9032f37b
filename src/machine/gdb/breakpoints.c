/* SPDX-License-Identifier: MIT */
#include "machine/gdb/breakpoints.h"

#include "base/clock.h"
#include "machine/gdb/gdb-private.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* How many unread packets to skip until the answer that ends a request. */
#define UNREAD_MAX 128
/* Of how many vCPUs to remove breakpoints in one row of requests. */
#define CLEARED_MAX 32
/* How often to step a vCPU where others stop instead. */
#define STEP_TRIES   4
#define LOST_STEP_NS UINT64_C(20000000)

/* ---- breakpoints ------------------------------------------------------ */

/* Appends the request that sets or removes a breakpoint. */
static void append_point(const struct vms_gdb *gdb, GString *row, const struct vms_gdb_point *point,
			 bool set)
{
	char request[VMS_GDB_REQUEST_MAX];
	snprintf(request, sizeof(request), "%c%d,%" G_GINT64_MODIFIER "x,%u", set ? 'Z' : 'z',
		 point->is_hardware ? 1 : 0, point->va, gdb->arch->breakpoint_size);
	vms_gdb_append_packet(row, request);
}

/* What vms_gdb_depart does with a point. */
static bool has_to_change(const struct vms_gdb_point *point)
{
	return point->is_set == point->is_unwanted;
}

/* Sends a row, if it is long enough or the last one, and receives the answers to all its points. */
static bool change_row(struct vms_gdb *gdb, GString *row, struct vms_gdb_point **points, size_t n,
		       GError **error)
{
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	if (!n)
		return true;
	if (!vms_gdb_send_row(gdb, row, deadline_ns, error))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!vms_gdb_receive_answer(gdb, deadline_ns, error)) {
			gdb->broken = true;
			return false;
		}
		/* What cannot be removed is not there any more: its page is another one now. */
		points[i]->is_set = !points[i]->is_set && vms_gdb_is_ok(gdb);
	}
	return true;
}

/* Changes points, in rows. */
static bool change_points(struct vms_gdb *gdb, GPtrArray *points, GError **error)
{
	size_t first = 0;
	g_autoptr(GString) row = vms_gdb_begin_row(gdb);
	for (size_t i = 0; i < points->len; i++) {
		struct vms_gdb_point *point = points->pdata[i];
		append_point(gdb, row, point, !point->is_set);
		if (row->len < VMS_GDB_ROW_MAX && i + 1 < points->len)
			continue;
		if (!change_row(gdb, row, (struct vms_gdb_point **)points->pdata + first,
				i + 1 - first, error))
			return false;
		first = i + 1;
		g_string_free(row, TRUE);
		row = vms_gdb_begin_row(gdb);
	}
	return true;
}

bool vms_gdb_set_points(struct vms_gdb *gdb, struct vms_gdb_point *points, size_t n, bool set,
			GError **error)
{
	g_autoptr(GPtrArray) changed = g_ptr_array_new();
	for (size_t i = 0; i < n; i++)
		if (points[i].is_set != set)
			g_ptr_array_add(changed, &points[i]);
	return change_points(gdb, changed, error);
}

/* Skips what a stub sends before the answer to qC, which ends a row. */
static bool end_clearing(struct vms_gdb *gdb, GString *row, GError **error)
{
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	vms_gdb_append_packet(row, "qC");
	if (!vms_gdb_send_row(gdb, row, deadline_ns, error))
		return false;
	for (unsigned i = 0; i < UNREAD_MAX; i++) {
		if (!vms_gdb_receive_packet(gdb, NULL, deadline_ns, error))
			return false;
		if (g_str_has_prefix(gdb->payload->str, "T02"))
			gdb->stopped_by_request = true;
		if (g_str_has_prefix(gdb->payload->str, "QC"))
			return true;
	}
	gdb->broken = true;
	return vms_gdb_fail(gdb, VMS_ERROR_PROTOCOL, "it does not end its answers", error);
}

bool vms_gdb_clear_points(struct vms_gdb *gdb, uint64_t last_thread, GError **error)
{
	for (uint64_t thread = 1; thread <= last_thread;) {
		g_autoptr(GString) row = vms_gdb_begin_row(gdb);
		const uint64_t end = MIN(thread + CLEARED_MAX, last_thread + 1);
		for (; thread < end; thread++) {
			char request[VMS_GDB_REQUEST_MAX];
			snprintf(request, sizeof(request), "Hc%" G_GINT64_MODIFIER "x", thread);
			vms_gdb_append_packet(row, request);
			/* Whoever asks this is a debugger that begins: breakpoints are forgotten.
			 */
			vms_gdb_append_packet(row, "?");
		}
		if (!end_clearing(gdb, row, error))
			return false;
	}
	return true;
}

/* ---- looking ---------------------------------------------------------- */

void vms_gdb_look_clear(struct vms_gdb_look *look)
{
	g_clear_pointer(&look->status, g_free);
	g_clear_pointer(&look->migration, g_free);
}

bool vms_gdb_look(struct vms_gdb *gdb, struct vms_gdb_look *ret, GError **error)
{
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	g_autoptr(GString) row = vms_gdb_begin_row(gdb);
	unsigned n = 0;
	*ret = (struct vms_gdb_look) { 0 };
	vms_gdb_forget_regs(gdb);
	vms_gdb_append_command(row, "info status");
	vms_gdb_append_command(row, "info migrate");
	while (gdb->general_size && n < gdb->threads->len && row->len < VMS_GDB_ROW_MAX)
		vms_gdb_append_vcpu(gdb, n++, row);
	bool done = vms_gdb_send_row(gdb, row, deadline_ns, error) &&
		    (ret->status = vms_gdb_receive_text(gdb, deadline_ns, error)) &&
		    (ret->migration = vms_gdb_receive_text(gdb, deadline_ns, error));
	for (unsigned i = 0; done && i < n; i++)
		done = vms_gdb_receive_vcpu(gdb, deadline_ns, &gdb->known[i], error);
	gdb->broken |= !done;
	return done;
}

/* ---- steps ------------------------------------------------------------ */

/*
 * Appends the requests for the pc of a vCPU. With KVM, QEMU gets the registers for `g`, but not for
 * `p`, which would give the ones of before.
 */
static void append_pc(const struct vms_gdb *gdb, GString *row, unsigned vcpu)
{
	char request[VMS_GDB_REQUEST_MAX];
	vms_gdb_print_selection(gdb, vcpu, request);
	vms_gdb_append_packet(row, request);
	vms_gdb_append_packet(row, "g");
}

/* Receives the answers to append_pc. */
static bool receive_pc(struct vms_gdb *gdb, uint64_t deadline_ns, uint64_t *pc, GError **error)
{
	const struct vms_gdb_slot *slot = &gdb->slots[gdb->arch->pc];
	if (!vms_gdb_receive_answer(gdb, deadline_ns, error) ||
	    !vms_gdb_receive_answer(gdb, deadline_ns, error))
		return false;
	return (gdb->payload->len >= 2 * ((size_t)slot->offset + slot->size) &&
		vms_gdb_parse_register(gdb->payload->str + 2 * slot->offset, slot->size, pc)) ||
	       vms_gdb_fail(gdb, VMS_ERROR_PROTOCOL, "it does not tell a program counter", error);
}

/* Waits for the begin of a packet. False at the deadline, without an error, or if it broke. */
static bool wait_for_packet(struct vms_gdb *gdb, uint64_t deadline_ns, GError **error)
{
	struct vms_stream *stream = &gdb->stream;
	struct pollfd poller = { .fd = stream->fd, .events = POLLIN };
	for (;;) {
		while (vms_stream_unread(stream) && stream->buffer[stream->start] == '+')
			stream->start++;
		uint64_t now_ns = vms_clock_now_ns();
		if (vms_stream_unread(stream))
			return true;
		if (now_ns >= deadline_ns)
			return false;
		poll(&poller, 1, (int)((deadline_ns - now_ns) / 1000000) + 1);
		if (!vms_stream_fill(stream, 0, error)) {
			gdb->broken = true;
			return false;
		}
	}
}

/* Receives the stop reply that ends a step. */
static bool receive_stop(struct vms_gdb *gdb, GError **error)
{
	if (!vms_gdb_receive_packet(gdb, NULL, vms_stream_deadline(&gdb->stream), error))
		return false;
	if (vms_gdb_note_stop(gdb))
		return true;
	gdb->broken = true;
	if (vms_gdb_is_exit(gdb))
		return vms_gdb_fail(gdb, VMS_ERROR_CLOSED, "the machine has exited", error);
	return vms_gdb_fail(gdb, VMS_ERROR_PROTOCOL, "it does not tell how a step has ended",
			    error);
}

/* Waits for the end of a step, and ends one that takes too long. */
static bool end_step(struct vms_gdb *gdb, struct vms_gdb_step *step, GError **error)
{
	GError *failure = NULL;
	bool ended = wait_for_packet(gdb, vms_clock_now_ns() + step->limit_ns, &failure);
	if (failure) {
		g_propagate_error(error, failure);
		return false;
	}
	if (!ended) {
		const char interrupt[] = { VMS_GDB_INTERRUPT, 0 };
		g_autoptr(GString) row = g_string_new(interrupt);
		if (!vms_gdb_send_row(gdb, row, vms_stream_deadline(&gdb->stream), error))
			return false;
	}
	if (!receive_stop(gdb, error))
		return false;
	if (gdb->signal == VMS_GDB_SIGTRAP)
		step->end = VMS_STEP_DONE;
	else
		step->end = ended ? VMS_STEP_STOPPED : VMS_STEP_INTERRUPTED;
	return true;
}

/* Appends the requests that begin a step. The first alone has an answer before the step ends. */
static void append_step(GString *row, uint64_t thread)
{
	char request[VMS_GDB_REQUEST_MAX];
	/* The stub ends single steps of the vCPU that this selects, however it stops. */
	snprintf(request, sizeof(request), "Hc%" G_GINT64_MODIFIER "x", thread);
	vms_gdb_append_packet(row, request);
	snprintf(request, sizeof(request), "vCont;s:%" G_GINT64_MODIFIER "x", thread);
	vms_gdb_append_packet(row, request);
}

static void note_step(const struct vms_gdb *gdb, bool is_stepping)
{
	if (gdb->hold)
		atomic_store(&gdb->hold->is_stepping, is_stepping);
}

/* Steps once: see vms_gdb_step. */
static bool try_step(struct vms_gdb *gdb, struct vms_gdb_step *step, struct vms_gdb_point *point,
		     GError **error)
{
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	g_autoptr(GString) row = vms_gdb_begin_row(gdb);
	const bool removes = step->removes && point->is_set;
	if (removes)
		append_point(gdb, row, point, false);
	append_pc(gdb, row, step->vcpu);
	append_step(row, g_array_index(gdb->threads, uint64_t, step->vcpu));
	if (!vms_gdb_send_row(gdb, row, deadline_ns, error))
		return false;
	if (removes)
		point->is_set = false;
	bool received = (!removes || vms_gdb_receive_answer(gdb, deadline_ns, error)) &&
			receive_pc(gdb, deadline_ns, &step->pc, error) &&
			vms_gdb_receive_answer(gdb, deadline_ns, error);
	/* The request to step has acknowledged that. One byte more would stop the machine. */
	gdb->owes_ack = false;
	received = received && end_step(gdb, step, error);
	gdb->broken |= !received;
	vms_gdb_forget_regs(gdb);
	return received;
}

bool vms_gdb_step(struct vms_gdb *gdb, struct vms_gdb_step *step, struct vms_gdb_point *point,
		  GError **error)
{
	const uint64_t thread = g_array_index(gdb->threads, uint64_t, step->vcpu);
	note_step(gdb, true);
	for (unsigned i = 0; i < STEP_TRIES; i++) {
		if (!try_step(gdb, step, point, error))
			return false;
		/* Else a reset or a snapshot has let all vCPUs run, and another one has stopped. */
		if (!gdb->stop_thread || gdb->stop_thread == thread) {
			note_step(gdb, false);
			return true;
		}
	}
	gdb->broken = true;
	return vms_gdb_fail(gdb, VMS_ERROR_PROTOCOL, "its vCPU does not end a step", error);
}

/* Steps a vCPU of which nothing else is known, if it is there. */
static bool end_lost_step(struct vms_gdb *gdb, uint64_t thread, GError **error)
{
	struct vms_gdb_step step = { .limit_ns = LOST_STEP_NS };
	g_autoptr(GString) row = vms_gdb_begin_row(gdb);
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	append_step(row, thread);
	if (!vms_gdb_send_row(gdb, row, deadline_ns, error) ||
	    !vms_gdb_receive_answer(gdb, deadline_ns, error))
		return false;
	if (!vms_gdb_is_ok(gdb))
		return vms_gdb_receive_answer(gdb, deadline_ns, error);
	gdb->owes_ack = false;
	const bool ended = end_step(gdb, &step, error);
	gdb->stopped_by_request |= ended && step.end == VMS_STEP_INTERRUPTED;
	return ended;
}

bool vms_gdb_end_lost_steps(struct vms_gdb *gdb, uint64_t last_thread, GError **error)
{
	for (uint64_t thread = 1; thread <= last_thread; thread++)
		if (!end_lost_step(gdb, thread, error)) {
			gdb->broken = true;
			return false;
		}
	note_step(gdb, false);
	return true;
}

/* Receives the answers to the requests of vms_gdb_depart. */
static bool receive_departure(struct vms_gdb *gdb, struct vms_gdb_departure *departure,
			      struct vms_gdb_point *points, size_t n, GError **error)
{
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	if (departure->vcpu >= 0 && !receive_pc(gdb, deadline_ns, &departure->pc, error))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!has_to_change(&points[i]))
			continue;
		if (!vms_gdb_receive_answer(gdb, deadline_ns, error))
			return false;
		points[i].is_set = !points[i].is_set && vms_gdb_is_ok(gdb);
	}
	if (departure->go)
		departure->refusal = vms_gdb_receive_text(gdb, deadline_ns, error);
	return !departure->go || departure->refusal;
}

/* How many bytes the requests about points may have, beside the others. */
#define POINTS_ROW_MAX 32

bool vms_gdb_depart(struct vms_gdb *gdb, struct vms_gdb_departure *departure,
		    struct vms_gdb_point *points, size_t n, GError **error)
{
	g_autoptr(GPtrArray) many = g_ptr_array_new();
	for (size_t i = 0; i < n; i++)
		if (has_to_change(&points[i]))
			g_ptr_array_add(many, &points[i]);
	if (many->len > POINTS_ROW_MAX) {
		if (!change_points(gdb, many, error))
			return false;
		n = 0;
	}
	/* An interrupt alone would be a request without an answer. */
	if (departure->vcpu < 0 && !(n && many->len) && !departure->go)
		return true;
	g_autoptr(GString) row = vms_gdb_begin_row(gdb);
	if (departure->vcpu >= 0)
		append_pc(gdb, row, (unsigned)departure->vcpu);
	for (size_t i = 0; i < n; i++)
		if (has_to_change(&points[i]))
			append_point(gdb, row, &points[i], !points[i].is_set);
	if (departure->go)
		vms_gdb_append_command(row, departure->go);
	bool done = vms_gdb_send_row(gdb, row, vms_stream_deadline(&gdb->stream), error) &&
		    receive_departure(gdb, departure, points, n, error);
	gdb->broken |= !done;
	vms_gdb_forget_regs(gdb);
	return done;
}
