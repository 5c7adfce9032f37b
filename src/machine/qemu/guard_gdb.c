/* SPDX-License-Identifier: MIT */
#include "machine/qemu/guard_gdb.h"

#include "machine/qemu/guard_peer.h"
#include "machine/qemu/run_state.h"
#include <poll.h>
#include <string.h>

/* How often to look whether a stub without a monitor has answered. */
#define ANSWER_POLL_MS 200

static const char gdb_resync[] = "+#00"; /* acknowledges an answer, and ends half a packet */
/* The stub reports this stop, because the tool always leaves the last answer to be acknowledged. */
static const char gdb_interrupt[] = "+\003$qC#b4";
static const char gdb_who[] = "$#00$qC#b4";
static const char gdb_continue[] = "$c#63";
static const char gdb_detach[] = "$D#44";
/*
 * Commands of QEMU's monitor. An empty request precedes each: it acknowledges the last packet, and
 * stops a machine that its owner has resumed, so that the stub handles the command itself.
 */
static const char gdb_status[] = "$#00$qRcmd,696e666f20737461747573#14";
static const char gdb_stop[] = "$#00$qRcmd,73746f70#fb";
static const char gdb_cont[] = "$#00$qRcmd,636f6e74#2e";
static const char gdb_status_text[] = "564d207374617475733a20"; /* "VM status: " */

/* Decodes the hexadecimal text that follows `mark`. Returns its size. */
static size_t decode_after(const char *mark, char *ret, size_t size)
{
	const char *hex = vms_peer_find(mark);
	size_t n = 0;
	if (!hex)
		return 0;
	hex += strlen(mark);
	const char *end = vms_peer_end();
	for (; n < size && end - hex >= 2 && g_ascii_isxdigit(hex[0]) && g_ascii_isxdigit(hex[1]);
	     hex += 2)
		ret[n++] = (char)(g_ascii_xdigit_value(hex[0]) * 16 + g_ascii_xdigit_value(hex[1]));
	return n;
}

/* The state in the monitor's answer. */
static enum vms_run_state parse_monitor_state(void)
{
	char text[64];
	return vms_run_state_parse_status(text, decode_after(gdb_status_text, text, sizeof(text)));
}

/* Waits until the stub has sent `mark`. Its QEMU may be stalled for hours. False if it has gone. */
static bool wait_for_stub(const struct vms_guard *guard, const char *mark)
{
	enum vms_peer_answer answer;
	do
		answer = vms_peer_wait(guard->gdb, mark, false, VMS_GUARD_ANSWER_MS);
	while (answer == VMS_PEER_SILENT);
	return answer == VMS_PEER_ANSWERED;
}

/*
 * Skips all that the stub has sent before. An empty request acknowledges a packet that may be left.
 * The machine stands still afterwards.
 */
static bool resync_stub(const struct vms_guard *guard)
{
	vms_peer_forget();
	return vms_peer_send(guard->gdb, gdb_resync) && vms_peer_send(guard->gdb, gdb_who) &&
	       wait_for_stub(guard, "$QC");
}

/* Releases the machine by QEMU's monitor: the stub's own requests do not look at the state first.
 */
static void release_by_monitor(const struct vms_guard *guard)
{
	for (;;) {
		vms_peer_forget();
		if (!vms_peer_send(guard->gdb, gdb_status) || !wait_for_stub(guard, "$OK#9a"))
			return;
		enum vms_release_way way = vms_run_state_release_way(parse_monitor_state(), false);
		vms_peer_forget();
		if (way == VMS_RELEASE_STOP_CONT &&
		    (!vms_peer_send(guard->gdb, gdb_stop) || !wait_for_stub(guard, "$OK#9a")))
			return;
		vms_peer_forget();
		if (way == VMS_RELEASE_CONT || way == VMS_RELEASE_STOP_CONT) {
			vms_peer_send(guard->gdb, gdb_cont);
			wait_for_stub(guard, "$OK#9a");
		}
		if (way != VMS_RELEASE_LATER)
			return;
		poll(NULL, 0, VMS_GUARD_RETRY_MS);
	}
}

void vms_guard_release_for_client(const struct vms_guard *guard)
{
	bool has_monitor = atomic_load(&guard->record->has_monitor);
	if (vms_peer_send(guard->gdb, gdb_resync))
		vms_peer_send(guard->gdb, has_monitor ? gdb_cont : gdb_continue);
}

/* True if QEMU's monitor answers behind the stub. The holder may not have found out yet. */
static bool has_monitor(const struct vms_guard *guard)
{
	enum vms_peer_answer answer = VMS_PEER_SILENT;
	if (atomic_load(&guard->record->has_monitor))
		return true;
	vms_peer_forget();
	if (!vms_peer_send(guard->gdb, gdb_status))
		return false;
	/* Another stub answers by an error or, as to the empty request, by an empty packet. */
	while (answer == VMS_PEER_SILENT && !vms_peer_find("$E") && vms_peer_count("$#00") < 2)
		answer = vms_peer_wait(guard->gdb, "$OK#9a", false, ANSWER_POLL_MS);
	return answer == VMS_PEER_ANSWERED && vms_peer_find(gdb_status_text);
}

/*
 * Releases a machine that stood still by somebody else's stop, if it stands still by ours now: its
 * owner has resumed it, and the tool's last request, or our interrupt, has stopped it.
 */
static void clean_up_looking(const struct vms_guard *guard)
{
	vms_peer_forget();
	if (vms_peer_send(guard->gdb, gdb_interrupt) && wait_for_stub(guard, "$QC") &&
	    vms_peer_find(VMS_PEER_TOLD_STOP))
		release_by_monitor(guard);
}

void vms_guard_clean_up_gdb(const struct vms_guard *guard)
{
	if (vms_hold_phase(atomic_load(&guard->record->hold.word)) == VMS_HOLD_LOOKING) {
		clean_up_looking(guard);
		return;
	}
	if (!resync_stub(guard))
		return;
	if (has_monitor(guard))
		release_by_monitor(guard);
	else if (vms_peer_send(guard->gdb, gdb_detach))
		wait_for_stub(guard, "OK");
}

bool vms_guard_has_stopped_unread(const struct vms_guard *guard)
{
	vms_peer_forget();
	return guard->gdb >= 0 && vms_peer_receive(guard->gdb, true) &&
	       vms_peer_find(VMS_PEER_TOLD_STOP);
}
