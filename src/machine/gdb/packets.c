/* SPDX-License-Identifier: MIT */
/* Packets of the protocol, rows of requests, and their answers. */
#include "machine/gdb/gdb-private.h"

#include <stdio.h>
#include <string.h>

/* How often to send a packet again, or to ask for one again, that arrived damaged. */
#define RETRIES_MAX 3

bool vms_gdb_fail(struct vms_gdb *gdb, enum vms_error code, const char *what, GError **error)
{
	g_set_error(error, VMS_ERROR, code, "%s: %s", gdb->stream.peer, what);
	return false;
}

/* Sets an error after which no answer of the stub can be trusted any more. Returns false. */
bool vms_gdb_fail_connection(struct vms_gdb *gdb, const char *what, GError **error)
{
	gdb->broken = true;
	return vms_gdb_fail(gdb, VMS_ERROR_PROTOCOL, what, error);
}

bool vms_gdb_check_open(struct vms_gdb *gdb, GError **error)
{
	return !gdb->broken ||
	       vms_gdb_fail(gdb, VMS_ERROR_CLOSED,
			    "the connection is closed: the stub has ended, or hung up", error);
}

bool vms_gdb_send_row(struct vms_gdb *gdb, GString *bytes, uint64_t deadline_ns, GError **error)
{
	if (!vms_gdb_check_open(gdb, error) || !vms_gdb_receive_awaited(gdb, error))
		return false;
	if (gdb->owes_ack)
		g_string_prepend_c(bytes, '+');
	gdb->owes_ack = false;
	if (gdb->hold) {
		atomic_fetch_add(&gdb->hold->requests, 1);
		vms_hold_note_request(gdb->hold, g_get_real_time());
	}
	gdb->broken |=
		!vms_stream_write(&gdb->stream, bytes->str, bytes->len, -1, deadline_ns, error);
	if (gdb->hold)
		atomic_fetch_add(&gdb->hold->requests, 1);
	return !gdb->broken;
}

bool vms_gdb_send_byte(struct vms_gdb *gdb, char byte, uint64_t deadline_ns, GError **error)
{
	g_autoptr(GString) bytes = g_string_new_len(&byte, 1);
	return vms_gdb_send_row(gdb, bytes, deadline_ns, error);
}

bool vms_gdb_receive_byte(struct vms_gdb *gdb, uint64_t deadline_ns, uint8_t *ret, GError **error)
{
	gdb->broken |= !vms_stream_byte(&gdb->stream, deadline_ns, ret, error);
	return !gdb->broken;
}

void vms_gdb_append_packet(GString *bytes, const char *payload)
{
	uint8_t sum = 0;
	for (const char *c = payload; *c; c++)
		sum += (uint8_t)*c;
	g_string_append_printf(bytes, "$%s#%02x", payload, sum);
}

GString *vms_gdb_begin_row(const struct vms_gdb *gdb)
{
	GString *bytes = g_string_sized_new(VMS_GDB_REQUEST_MAX);
	if (gdb->interrupts)
		g_string_append_c(bytes, VMS_GDB_INTERRUPT);
	return bytes;
}

bool vms_gdb_send_packet(struct vms_gdb *gdb, const char *payload, uint64_t deadline_ns,
			 GError **error)
{
	g_autoptr(GString) bytes = vms_gdb_begin_row(gdb);
	vms_gdb_append_packet(bytes, payload);
	return vms_gdb_send_row(gdb, bytes, deadline_ns, error);
}

/* What the byte before says of the next one: it is escaped, or the length of a run. */
struct decoder {
	bool escaped, run;
};

/* Decodes one byte of a packet and appends it to the payload. False if it is malformed. */
static bool decode_byte(struct decoder *decoder, GString *payload, uint8_t byte)
{
	size_t count = 1;
	if (decoder->run) {
		decoder->run = false;
		if (byte < 29 + 3 || byte > 126 || !payload->len)
			return false;
		count = byte - 29U;
		byte = (uint8_t)payload->str[payload->len - 1];
	} else if (decoder->escaped) {
		decoder->escaped = false;
		byte ^= 0x20;
	} else if (byte == '}') {
		decoder->escaped = true;
		return true;
	} else if (byte == '*') {
		decoder->run = true;
		return true;
	}
	if (payload->len + count > VMS_GDB_PAYLOAD_MAX)
		return false;
	for (size_t i = 0; i < count; i++)
		g_string_append_c(payload, (char)byte);
	return true;
}

/* Receives a packet from behind '$' to its checksum. Sets *intact if the checksum is right. */
static bool receive_payload(struct vms_gdb *gdb, uint64_t deadline_ns, bool *intact, GError **error)
{
	struct decoder decoder = { 0 };
	uint8_t byte, sum = 0, digits[2];
	g_string_truncate(gdb->payload, 0);
	for (;;) {
		if (!vms_gdb_receive_byte(gdb, deadline_ns, &byte, error))
			return false;
		if (byte == '#')
			break;
		if (byte == '$') { /* a new packet: the one before was cut off */
			g_string_truncate(gdb->payload, 0);
			decoder = (struct decoder) { 0 };
			sum = 0;
			continue;
		}
		sum += byte;
		if (!decode_byte(&decoder, gdb->payload, byte))
			return vms_gdb_fail_connection(
				gdb, "it sent a packet that is malformed or too long", error);
	}
	for (int i = 0; i < 2; i++) {
		if (!vms_gdb_receive_byte(gdb, deadline_ns, &digits[i], error))
			return false;
	}
	int high = g_ascii_xdigit_value((char)digits[0]);
	int low = g_ascii_xdigit_value((char)digits[1]);
	*intact =
		high >= 0 && low >= 0 && high * 16 + low == sum && !decoder.escaped && !decoder.run;
	return true;
}

bool vms_gdb_receive_packet(struct vms_gdb *gdb, const char *request, uint64_t deadline_ns,
			    GError **error)
{
	unsigned retries = 0;
	size_t skipped = 0;
	for (;;) {
		uint8_t byte;
		bool intact = false;
		if (!vms_gdb_receive_byte(gdb, deadline_ns, &byte, error))
			return false;
		if (byte == '$') {
			if (!receive_payload(gdb, deadline_ns, &intact, error))
				return false;
			gdb->owes_ack = intact;
			if (intact && gdb->hold)
				vms_hold_note_answer(gdb->hold);
			if (intact)
				return true;
			if (!vms_gdb_send_byte(gdb, '-', deadline_ns, error))
				return false;
			if (++retries > RETRIES_MAX)
				return vms_gdb_fail_connection(
					gdb, "its packets have wrong checksums", error);
		} else if (byte == '-' && request) {
			if (++retries > RETRIES_MAX)
				return vms_gdb_fail_connection(
					gdb, "it does not accept our packets", error);
			if (!vms_gdb_send_packet(gdb, request, deadline_ns, error))
				return false;
		} else if (++skipped > VMS_GDB_PAYLOAD_MAX) {
			return vms_gdb_fail_connection(
				gdb, "it sent something else than packets; is this a gdb stub?",
				error);
		}
	}
}

bool vms_gdb_is_ok(const struct vms_gdb *gdb)
{
	return strcmp(gdb->payload->str, "OK") == 0;
}
