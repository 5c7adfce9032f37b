/* SPDX-License-Identifier: MIT */
/* Physical memory, read by the stub. */
#include "machine/gdb/gdb-private.h"

#include <stdio.h>
#include <string.h>

/* How many packets of memory to ask for at once: 32 KiB of QEMU's. */
#define ROW_PARTS 16

static bool set_phys_mode(struct vms_gdb *gdb, bool on, GError **error)
{
	if (gdb->phys_mode == on)
		return true;
	if (!vms_gdb_request(gdb, on ? "Qqemu.PhyMemMode:1" : "Qqemu.PhyMemMode:0", error))
		return false;
	if (!vms_gdb_is_ok(gdb))
		return vms_gdb_fail(gdb, VMS_ERROR_UNSUPPORTED,
				    "it cannot switch to physical memory", error);
	gdb->phys_mode = on;
	return true;
}

bool vms_gdb_leave_phys_mode(struct vms_gdb *gdb, GError **error)
{
	return set_phys_mode(gdb, false, error);
}

/* The bytes of memory whose answer fits into one packet. */
static size_t part_size(const struct vms_gdb *gdb)
{
	return (gdb->packet_size - 8) / 2;
}

/* Receives the memory that was asked for by one packet. */
static bool receive_part(struct vms_gdb *gdb, uint64_t deadline_ns, uint8_t *buf, size_t size,
			 GError **error)
{
	if (!vms_gdb_receive_answer(gdb, deadline_ns, error))
		return false;
	if (gdb->payload->len != 2 * size)
		return vms_gdb_fail(gdb, VMS_ERROR_UNREADABLE, "there is no memory at this address",
				    error);
	for (size_t i = 0; i < size; i++) {
		uint64_t value;
		if (!vms_gdb_parse_register(gdb->payload->str + 2 * i, 1, &value))
			return vms_gdb_fail_connection(
				gdb, "it sent memory that is not hexadecimal", error);
		buf[i] = (uint8_t)value;
	}
	return true;
}

/*
 * Reads memory by a row of packets in one round trip, as read_batch does. All answers are received
 * even if one tells that there is no memory.
 */
static bool read_row(struct vms_gdb *gdb, uint64_t pa, uint8_t *buf, size_t size, GError **error)
{
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	const size_t part_max = part_size(gdb);
	g_autoptr(GString) bytes = vms_gdb_begin_row(gdb);
	g_autoptr(GError) failure = NULL;
	for (size_t done = 0; done < size; done += part_max) {
		char request[VMS_GDB_REQUEST_MAX];
		snprintf(request, sizeof(request), "m%" G_GINT64_MODIFIER "x,%zx", pa + done,
			 MIN(size - done, part_max));
		vms_gdb_append_packet(bytes, request);
	}
	if (!vms_gdb_check_open(gdb, error) || !vms_gdb_send_row(gdb, bytes, deadline_ns, error))
		return false;
	for (size_t done = 0; done < size; done += part_max) {
		g_autoptr(GError) of_part = NULL;
		if (receive_part(gdb, deadline_ns, buf + done, MIN(size - done, part_max),
				 &of_part))
			continue;
		/* Answers that are still to come would be taken for answers to later requests. */
		const bool is_answer = g_error_matches(of_part, VMS_ERROR, VMS_ERROR_UNREADABLE);
		gdb->broken |= !is_answer;
		if (!failure)
			failure = g_steal_pointer(&of_part);
		if (!is_answer)
			break;
	}
	if (!failure)
		return true;
	g_propagate_error(error, g_steal_pointer(&failure));
	return false;
}

static bool was_taken_by_watchdog(const struct vms_gdb *gdb)
{
	return gdb->hold && vms_hold_phase(atomic_load(&gdb->hold->word)) == VMS_HOLD_TAKEN;
}

bool vms_gdb_read_phys(struct vms_gdb *gdb, uint64_t pa, void *buf, size_t size, GError **error)
{
	if (!gdb->has_phys_mode)
		return vms_gdb_fail(gdb, VMS_ERROR_UNSUPPORTED,
				    "the stub cannot read physical memory (qqemu.PhyMemMode)",
				    error);
	if (!set_phys_mode(gdb, true, error))
		return false;
	for (size_t done = 0; done < size;) {
		const size_t row = MIN(size - done, ROW_PARTS * part_size(gdb));
		if (was_taken_by_watchdog(gdb))
			return vms_gdb_fail(gdb, VMS_ERROR_INVALID_STATE,
					    "the watchdog has released the machine", error);
		if (!read_row(gdb, pa + done, (uint8_t *)buf + done, row, error))
			return false;
		done += row;
	}
	return true;
}
