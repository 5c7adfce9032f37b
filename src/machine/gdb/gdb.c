/* SPDX-License-Identifier: MIT */
#include "machine/gdb/gdb.h"

#include "base/clock.h"
#include "base/text.h"
#include "machine/gdb/gdb-private.h"
#include <stdio.h>
#include <string.h>

/* How many packets of memory to ask for at once: 32 KiB of QEMU's. */
#define ROW_PARTS 16
/* How often to send a packet again, or to ask for one again, that arrived damaged. */
#define RETRIES_MAX 3
/* How long to wait for the answer of a stub that has received a request. */
#define HEARD_NS UINT64_C(500000000)
/* How many unread packets of somebody else to skip. */
#define UNREAD_MAX 64
/* How many bytes a stub may leave unread. */
#define LEFT_MAX (4U << 20)

bool vms_gdb_fail(struct vms_gdb *gdb, enum vms_error code, const char *what, GError **error)
{
	g_set_error(error, VMS_ERROR, code, "%s: %s", gdb->stream.peer, what);
	return false;
}

/* Sets an error after which no answer of the stub can be trusted any more. Returns false. */
static bool fail_connection(struct vms_gdb *gdb, const char *what, GError **error)
{
	gdb->broken = true;
	return vms_gdb_fail(gdb, VMS_ERROR_PROTOCOL, what, error);
}

static bool check_open(struct vms_gdb *gdb, GError **error)
{
	return !gdb->broken ||
	       vms_gdb_fail(gdb, VMS_ERROR_CLOSED,
			    "the connection is closed: the stub has ended, or hung up", error);
}

bool vms_gdb_send_row(struct vms_gdb *gdb, GString *bytes, uint64_t deadline_ns, GError **error)
{
	if (!check_open(gdb, error) || !vms_gdb_receive_awaited(gdb, error))
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

static bool send_byte(struct vms_gdb *gdb, char byte, uint64_t deadline_ns, GError **error)
{
	g_autoptr(GString) bytes = g_string_new_len(&byte, 1);
	return vms_gdb_send_row(gdb, bytes, deadline_ns, error);
}

static bool receive_byte(struct vms_gdb *gdb, uint64_t deadline_ns, uint8_t *ret, GError **error)
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

static bool send_packet(struct vms_gdb *gdb, const char *payload, uint64_t deadline_ns,
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
		if (!receive_byte(gdb, deadline_ns, &byte, error))
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
			return fail_connection(
				gdb, "it sent a packet that is malformed or too long", error);
	}
	for (int i = 0; i < 2; i++) {
		if (!receive_byte(gdb, deadline_ns, &digits[i], error))
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
		if (!receive_byte(gdb, deadline_ns, &byte, error))
			return false;
		if (byte == '$') {
			if (!receive_payload(gdb, deadline_ns, &intact, error))
				return false;
			gdb->owes_ack = intact;
			if (intact && gdb->hold)
				vms_hold_note_answer(gdb->hold);
			if (intact)
				return true;
			if (!send_byte(gdb, '-', deadline_ns, error))
				return false;
			if (++retries > RETRIES_MAX)
				return fail_connection(gdb, "its packets have wrong checksums",
						       error);
		} else if (byte == '-' && request) {
			if (++retries > RETRIES_MAX)
				return fail_connection(gdb, "it does not accept our packets",
						       error);
			if (!send_packet(gdb, request, deadline_ns, error))
				return false;
		} else if (++skipped > VMS_GDB_PAYLOAD_MAX) {
			return fail_connection(
				gdb, "it sent something else than packets; is this a gdb stub?",
				error);
		}
	}
}

/*
 * Parses the id of a thread: "1" or "p1.1". QEMU's stub writes the latter if an earlier client
 * asked for the multiprocess extension, which the stub keeps using.
 */
static bool parse_thread(const char *id, uint64_t *ret)
{
	const char *dot = id[0] == 'p' ? strchr(id, '.') : NULL;
	return g_ascii_string_to_unsigned(dot ? dot + 1 : id, 16, 1, G_MAXINT64, ret, NULL);
}

/* The thread that a stop reply names ("T05thread:p01.01;"), or 0. */
static uint64_t find_stop_thread(const char *text)
{
	static const char label[] = "thread:";
	const char *found = strstr(text, label);
	uint64_t thread = 0;
	if (!found)
		return 0;
	found += strlen(label);
	g_autofree char *id = g_strndup(found, strcspn(found, ";"));
	return parse_thread(id, &thread) ? thread : 0;
}

bool vms_gdb_note_stop(struct vms_gdb *gdb)
{
	const char *text = gdb->payload->str;
	if ((text[0] != 'T' && text[0] != 'S') || !g_ascii_isxdigit(text[1]) ||
	    !g_ascii_isxdigit(text[2]))
		return false;
	gdb->signal =
		(unsigned)(g_ascii_xdigit_value(text[1]) * 16 + g_ascii_xdigit_value(text[2]));
	gdb->stop_thread = find_stop_thread(text);
	gdb->stopped = true;
	return true;
}

bool vms_gdb_is_exit(struct vms_gdb *gdb)
{
	return (gdb->payload->str[0] == 'W' || gdb->payload->str[0] == 'X') &&
	       g_ascii_isxdigit(gdb->payload->str[1]);
}

bool vms_gdb_receive_answer(struct vms_gdb *gdb, uint64_t deadline_ns, GError **error)
{
	if (!vms_gdb_receive_packet(gdb, NULL, deadline_ns, error))
		return false;
	if (!vms_gdb_note_stop(gdb))
		return true;
	/* A trap is a breakpoint's stop: no request has caused it. */
	if (gdb->signal != VMS_GDB_SIGTRAP) {
		gdb->stopped_by_request = true;
		gdb->told_us = g_get_real_time();
		if (gdb->hold)
			vms_hold_change(gdb->hold, VMS_HOLD_LOOKING, VMS_HOLD_HELD);
	}
	if (!gdb->interrupts)
		return fail_connection(gdb, "it answers a request with a stop", error);
	vms_gdb_forget_regs(gdb);
	if (!vms_gdb_receive_packet(gdb, NULL, deadline_ns, error))
		return false;
	return !vms_gdb_note_stop(gdb) ||
	       fail_connection(gdb, "it answers a request with a stop", error);
}

bool vms_gdb_request(struct vms_gdb *gdb, const char *request, GError **error)
{
	bool expects_stop = request[0] == '?';
	uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	if (!check_open(gdb, error))
		return false;
	if (gdb->interrupts)
		return send_packet(gdb, request, deadline_ns, error) &&
		       vms_gdb_receive_answer(gdb, deadline_ns, error);
	for (int attempt = 0; attempt < 2; attempt++) {
		if (!send_packet(gdb, request, deadline_ns, error) ||
		    !vms_gdb_receive_packet(gdb, request, deadline_ns, error))
			return false;
		if (!vms_gdb_note_stop(gdb) || expects_stop)
			return true;
		gdb->stopped_by_request = true; /* the request was lost: send it again */
		vms_gdb_forget_regs(gdb);
	}
	return fail_connection(gdb, "it answers a request with a stop", error);
}

/* Waits for a stop reply. Other packets are late answers or console output. */
static bool wait_for_stop(struct vms_gdb *gdb, GError **error)
{
	uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	do {
		if (!vms_gdb_receive_packet(gdb, NULL, deadline_ns, error))
			return false;
		if (vms_gdb_is_exit(gdb)) {
			gdb->broken = true;
			return vms_gdb_fail(gdb, VMS_ERROR_CLOSED, "the machine has exited", error);
		}
	} while (!vms_gdb_note_stop(gdb) && vms_clock_now_ns() < deadline_ns);
	if (!gdb->stopped)
		return fail_connection(gdb, "it does not tell that the machine has stopped", error);
	return true;
}

bool vms_gdb_stop(struct vms_gdb *gdb, GError **error)
{
	if (!check_open(gdb, error))
		return false;
	if (gdb->stopped)
		return true;
	return send_byte(gdb, VMS_GDB_INTERRUPT, vms_stream_deadline(&gdb->stream), error) &&
	       wait_for_stop(gdb, error);
}

/*
 * The stub of a machine that runs answers an interrupt request by a stop reply, that of a stopped
 * machine does not. It always answers `?` by a stop reply. So one stop reply says that the machine
 * was stopped, and two that it ran. The answer to qC, which is no stop reply, ends them.
 */
bool vms_gdb_probe(struct vms_gdb *gdb, bool *was_running, GError **error)
{
	uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	unsigned stops = 0;
	g_autoptr(GString) bytes = g_string_new(NULL);
	g_string_append_c(bytes, VMS_GDB_INTERRUPT);
	vms_gdb_append_packet(bytes, "?");
	vms_gdb_append_packet(bytes, "qC");
	if (!check_open(gdb, error) || !vms_gdb_send_row(gdb, bytes, deadline_ns, error))
		return false;
	do {
		if (!vms_gdb_receive_packet(gdb, NULL, deadline_ns, error))
			return false;
	} while (vms_gdb_note_stop(gdb) && ++stops <= 2);
	if (stops < 1 || stops > 2)
		return fail_connection(gdb, "it does not tell whether the machine runs", error);
	*was_running = stops == 2;
	return true;
}

static bool set_phys_mode(struct vms_gdb *gdb, bool on, GError **error)
{
	if (gdb->phys_mode == on)
		return true;
	if (!vms_gdb_request(gdb, on ? "Qqemu.PhyMemMode:1" : "Qqemu.PhyMemMode:0", error))
		return false;
	if (strcmp(gdb->payload->str, "OK") != 0)
		return vms_gdb_fail(gdb, VMS_ERROR_UNSUPPORTED,
				    "it cannot switch to physical memory", error);
	gdb->phys_mode = on;
	return true;
}

bool vms_gdb_leave_phys_mode(struct vms_gdb *gdb, GError **error)
{
	return set_phys_mode(gdb, false, error);
}

bool vms_gdb_resume(struct vms_gdb *gdb, GError **error)
{
	uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	uint8_t byte;
	if (!check_open(gdb, error) || !vms_gdb_leave_phys_mode(gdb, error) ||
	    !send_packet(gdb, gdb->has_vcont ? "vCont;c" : "c", deadline_ns, error))
		return false;
	gdb->stopped = false;
	gdb->stopped_by_request = false;
	vms_gdb_forget_regs(gdb);
	do {
		if (!receive_byte(gdb, deadline_ns, &byte, error))
			return false;
		if (byte == '-')
			return fail_connection(gdb, "it does not accept our packets", error);
	} while (byte != '+');
	return true;
}

bool vms_gdb_poll(struct vms_gdb *gdb, GError **error)
{
	if (!check_open(gdb, error))
		return false;
	if (!vms_stream_fill(&gdb->stream, 0, error)) {
		gdb->broken = true;
		return false;
	}
	/* Late acknowledgements are no news. */
	while (vms_stream_unread(&gdb->stream) && gdb->stream.buffer[gdb->stream.start] == '+')
		gdb->stream.start++;
	return vms_stream_unread(&gdb->stream) == 0 || wait_for_stop(gdb, error);
}

bool vms_gdb_detach(struct vms_gdb *gdb, GError **error)
{
	if (!vms_gdb_leave_phys_mode(gdb, error) || !vms_gdb_request(gdb, "D", error))
		return false;
	gdb->stopped = false;
	return true;
}

/* Lists the threads, which are the vCPUs, in their order. */
static bool list_threads(struct vms_gdb *gdb, GError **error)
{
	const char *request = "qfThreadInfo";
	for (;;) {
		if (!vms_gdb_request(gdb, request, error))
			return false;
		if (gdb->payload->str[0] == 'l')
			break;
		if (gdb->payload->str[0] != 'm')
			return fail_connection(gdb, "it does not list its vCPUs", error);
		g_auto(GStrv) ids = g_strsplit(gdb->payload->str + 1, ",", -1);
		for (char **id = ids; *id; id++) {
			uint64_t number;
			if (gdb->threads->len >= VMS_GDB_THREADS_MAX || !parse_thread(*id, &number))
				return fail_connection(
					gdb, "its list of vCPUs is malformed or too long", error);
			g_array_append_val(gdb->threads, number);
		}
		request = "qsThreadInfo";
	}
	if (gdb->threads->len == 0)
		return fail_connection(gdb, "it lists no vCPU", error);
	return true;
}

/*
 * Sends the first request. Before its answer QEMU may say that it has stopped the machine because a
 * client has come. An older QEMU says that the request has stopped the machine, and forgets the
 * request: it is sent again.
 */
static bool greet_stub(struct vms_gdb *gdb, const char *request, GError **error)
{
	uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	g_autoptr(GError) failure = NULL;
	if (!check_open(gdb, error) || !send_packet(gdb, request, deadline_ns, error) ||
	    !vms_gdb_receive_packet(gdb, request, deadline_ns, error))
		return false;
	if (!vms_gdb_note_stop(gdb))
		return true;
	gdb->stopped_by_request = true;
	if (vms_gdb_receive_packet(gdb, NULL, vms_clock_now_ns() + HEARD_NS, &failure))
		return true;
	if (!g_error_matches(failure, VMS_ERROR, VMS_ERROR_TIMEOUT)) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return false;
	}
	gdb->broken = false;
	return vms_gdb_request(gdb, request, error);
}

/* A stub that does not answer serves another client, behind which this one waits. */
static bool request_features(struct vms_gdb *gdb, GError **error)
{
	g_autoptr(GError) failure = NULL;
	if (greet_stub(gdb, "qSupported:xmlRegisters=i386", &failure))
		return true;
	if (g_error_matches(failure, VMS_ERROR, VMS_ERROR_TIMEOUT))
		return vms_gdb_fail(gdb, VMS_ERROR_BUSY,
				    "it does not answer: another client is using it (a stub serves "
				    "one at a time), or it is no gdb stub",
				    error);
	g_propagate_error(error, g_steal_pointer(&failure));
	return false;
}

static bool read_features(struct vms_gdb *gdb, GError **error)
{
	if (!request_features(gdb, error))
		return false;
	g_auto(GStrv) features = g_strsplit(gdb->payload->str, ";", 64);
	bool describes = false;
	gdb->packet_size = 400; /* every stub accepts this size, by the protocol's manual */
	for (char **feature = features; *feature; feature++) {
		uint64_t size;
		if (strcmp(*feature, "qXfer:features:read+") == 0)
			describes = true;
		else if (g_str_has_prefix(*feature, "PacketSize=") &&
			 g_ascii_string_to_unsigned(*feature + strlen("PacketSize="), 16, 64,
						    G_MAXUINT32, &size, NULL))
			gdb->packet_size = (unsigned)MIN(size, VMS_GDB_PAYLOAD_MAX);
	}
	if (!describes)
		return vms_gdb_fail(gdb, VMS_ERROR_UNSUPPORTED,
				    "the stub does not describe its registers "
				    "(qXfer:features:read), so they cannot be read",
				    error);
	return true;
}

bool vms_gdb_greet(struct vms_gdb *gdb, GError **error)
{
	gdb->payload = g_string_new(NULL);
	gdb->threads = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	gdb->stopped = true;
	if (!read_features(gdb, error))
		return false;
	/* A stub that is not QEMU's may have to report a stop before it answers requests. */
	if (!gdb->interrupts) {
		if (!vms_gdb_request(gdb, "?", error))
			return false;
		gdb->stopped_by_request = false;
	}
	if (!vms_gdb_request(gdb, "qqemu.PhyMemMode", error))
		return false;
	gdb->has_phys_mode = gdb->payload->len == 1;
	return true;
}

bool vms_gdb_identify(struct vms_gdb *gdb, GError **error)
{
	if (!vms_gdb_read_target(gdb, error) || !list_threads(gdb, error))
		return false;
	gdb->known = g_new0(struct vms_regs, gdb->threads->len);
	if (!vms_gdb_request(gdb, "vCont?", error))
		return false;
	gdb->has_vcont = g_str_has_prefix(gdb->payload->str, "vCont;c");
	return true;
}

bool vms_gdb_open(struct vms_gdb *gdb, GError **error)
{
	return vms_gdb_greet(gdb, error) && vms_gdb_identify(gdb, error);
}

bool vms_gdb_told_late_stop(struct vms_gdb *gdb)
{
	static const char stop[] = "$T02";
	g_autoptr(GString) left = g_string_new(NULL);
	while (left->len < LEFT_MAX && vms_stream_fill(&gdb->stream, 0, NULL) &&
	       vms_stream_unread(&gdb->stream)) {
		g_string_append_len(left, (const char *)gdb->stream.buffer + gdb->stream.start,
				    (gssize)vms_stream_unread(&gdb->stream));
		gdb->stream.start = gdb->stream.end;
	}
	return memmem(left->str, left->len, stop, strlen(stop));
}

void vms_gdb_close(struct vms_gdb *gdb)
{
	g_autoptr(GString) nothing = g_string_new(NULL);
	if (gdb->owes_ack && !gdb->broken)
		vms_gdb_send_row(gdb, nothing, vms_stream_deadline(&gdb->stream), NULL);
	vms_stream_close(&gdb->stream);
	if (gdb->payload)
		g_string_free(g_steal_pointer(&gdb->payload), TRUE);
	g_clear_pointer(&gdb->threads, g_array_unref);
	g_clear_pointer(&gdb->known, g_free);
}

bool vms_gdb_parse_register(const char *hex, unsigned size, uint64_t *ret)
{
	*ret = 0;
	for (unsigned i = 0; i < MIN(size, 8); i++) {
		int high = g_ascii_xdigit_value(hex[2 * i]);
		int low = g_ascii_xdigit_value(hex[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		*ret |= (uint64_t)(high * 16 + low) << 8 * i;
	}
	return true;
}

/* ---- registers -------------------------------------------------------- */

/* Parses the answer to `g`, which has the registers in the order of their numbers. */
static void parse_general(struct vms_gdb *gdb, struct vms_regs *ret)
{
	gdb->general_size = gdb->payload->len / 2;
	*ret = (struct vms_regs) { 0 };
	for (unsigned i = 0; i < gdb->arch->n_regs; i++) {
		const struct vms_gdb_slot *slot = &gdb->slots[i];
		uint64_t value;
		if (slot->size && slot->offset + slot->size <= gdb->general_size &&
		    vms_gdb_parse_register(gdb->payload->str + 2 * slot->offset, slot->size,
					   &value))
			vms_regs_set(ret, i, value);
	}
}

/* Parses the answer to `p`. A register that the stub refuses stays invalid. */
static void parse_single(struct vms_gdb *gdb, unsigned index, struct vms_regs *ret)
{
	const struct vms_gdb_slot *slot = &gdb->slots[index];
	uint64_t value;
	if (gdb->payload->len == 2 * (size_t)slot->size &&
	    vms_gdb_parse_register(gdb->payload->str, slot->size, &value))
		vms_regs_set(ret, index, value);
}

/*
 * True if the register has to be read by `p`. With `seldom`: if it is one that is seldom needed.
 * Without: if it is another one, and the answer to `g` does not have it.
 */
static bool is_single(const struct vms_gdb *gdb, unsigned index, bool seldom)
{
	const struct vms_gdb_slot *slot = &gdb->slots[index];
	size_t size = seldom ? 0 : gdb->general_size;
	return slot->size && slot->offset + slot->size > size &&
	       gdb->arch->regs[index].is_seldom == seldom;
}

void vms_gdb_print_selection(const struct vms_gdb *gdb, unsigned vcpu,
			     char request[VMS_GDB_REQUEST_MAX])
{
	snprintf(request, VMS_GDB_REQUEST_MAX, "Hg%" G_GINT64_MODIFIER "x",
		 g_array_index(gdb->threads, uint64_t, vcpu));
}

static void print_single(const struct vms_gdb *gdb, unsigned index,
			 char request[VMS_GDB_REQUEST_MAX])
{
	snprintf(request, VMS_GDB_REQUEST_MAX, "p%x", gdb->slots[index].number);
}

static bool is_ok(const struct vms_gdb *gdb)
{
	return strcmp(gdb->payload->str, "OK") == 0;
}

static bool select_vcpu(struct vms_gdb *gdb, unsigned vcpu, GError **error)
{
	char request[VMS_GDB_REQUEST_MAX];
	vms_gdb_print_selection(gdb, vcpu, request);
	return vms_gdb_request(gdb, request, error) &&
	       (is_ok(gdb) ||
		vms_gdb_fail(gdb, VMS_ERROR_NOT_FOUND, "the vCPU is not there any more", error));
}

static bool read_singles(struct vms_gdb *gdb, bool seldom, struct vms_regs *ret, GError **error)
{
	for (unsigned i = 0; i < gdb->arch->n_regs; i++) {
		char request[VMS_GDB_REQUEST_MAX];
		if (!is_single(gdb, i, seldom))
			continue;
		print_single(gdb, i, request);
		if (!vms_gdb_request(gdb, request, error))
			return false;
		parse_single(gdb, i, ret);
	}
	return true;
}

/* Reads one vCPU request by request, which works with any stub. */
static bool read_vcpu(struct vms_gdb *gdb, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	if (!select_vcpu(gdb, vcpu, error) || !vms_gdb_request(gdb, "g", error))
		return false;
	parse_general(gdb, ret);
	return read_singles(gdb, false, ret, error);
}

/* Appends the requests that read_vcpu sends. */
void vms_gdb_append_vcpu(const struct vms_gdb *gdb, unsigned vcpu, GString *bytes)
{
	char request[VMS_GDB_REQUEST_MAX];
	vms_gdb_print_selection(gdb, vcpu, request);
	vms_gdb_append_packet(bytes, request);
	vms_gdb_append_packet(bytes, "g");
	for (unsigned i = 0; i < gdb->arch->n_regs; i++) {
		if (is_single(gdb, i, false)) {
			print_single(gdb, i, request);
			vms_gdb_append_packet(bytes, request);
		}
	}
}

bool vms_gdb_receive_vcpu(struct vms_gdb *gdb, uint64_t deadline_ns, struct vms_regs *ret,
			  GError **error)
{
	size_t size = gdb->general_size;
	if (!vms_gdb_receive_answer(gdb, deadline_ns, error))
		return false;
	bool selected = is_ok(gdb);
	if (!selected && gdb->payload->len > 0 && gdb->payload->str[0] != 'E')
		return fail_connection(gdb, "its answers do not belong to the requests", error);
	if (!vms_gdb_receive_answer(gdb, deadline_ns, error))
		return false;
	parse_general(gdb, ret);
	if (gdb->general_size != size)
		return fail_connection(gdb, "its vCPUs differ in their registers", error);
	for (unsigned i = 0; i < gdb->arch->n_regs; i++) {
		if (!is_single(gdb, i, false))
			continue;
		if (!vms_gdb_receive_answer(gdb, deadline_ns, error))
			return false;
		parse_single(gdb, i, ret);
	}
	if (!selected)
		*ret = (struct vms_regs) { 0 };
	return true;
}

/* Receives the registers of the vCPUs that are awaited, of those before `end`. */
static bool receive_vcpus(struct vms_gdb *gdb, unsigned end, GError **error)
{
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	const struct vms_gdb_awaited awaited = gdb->awaited;
	unsigned next = awaited.next;
	bool received = true;
	/* What is sent meanwhile, to have a packet once more, has nothing to wait for. */
	gdb->awaited = (struct vms_gdb_awaited) { 0 };
	for (; received && next < MIN(end, awaited.end); next++)
		received = vms_gdb_receive_vcpu(gdb, deadline_ns, &gdb->known[next], error);
	/* Answers that are still to come would be taken for answers to later requests. */
	gdb->broken |= !received;
	if (received)
		gdb->awaited = (struct vms_gdb_awaited) { next, awaited.end };
	return received;
}

bool vms_gdb_receive_awaited(struct vms_gdb *gdb, GError **error)
{
	return gdb->awaited.next == gdb->awaited.end || gdb->broken ||
	       receive_vcpus(gdb, gdb->awaited.end, error);
}

/*
 * Reads the vCPUs from `first` on in one round trip: all requests are sent before the first answer
 * is received. That works because QEMU's stub takes a request as the acknowledgement of its last
 * answer. Only the first vCPU is waited for: while the stub prints the registers of the others, the
 * caller can use those of the first.
 */
static bool read_batch(struct vms_gdb *gdb, unsigned first, GError **error)
{
	uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	g_autoptr(GString) bytes = vms_gdb_begin_row(gdb);
	unsigned end = first;
	for (; end < gdb->threads->len && bytes->len < VMS_GDB_ROW_MAX; end++)
		vms_gdb_append_vcpu(gdb, end, bytes);
	if (!check_open(gdb, error) || !vms_gdb_send_row(gdb, bytes, deadline_ns, error))
		return false;
	gdb->awaited = (struct vms_gdb_awaited) { first, end };
	return receive_vcpus(gdb, first + 1, error);
}

bool vms_gdb_interrupt(struct vms_gdb *gdb, bool *was_running, GError **error)
{
	gdb->stopped_by_request = false;
	vms_gdb_forget_regs(gdb);
	bool done = gdb->has_phys_mode && gdb->general_size > 0 ? read_batch(gdb, 0, error)
								: vms_gdb_request(gdb, "qC", error);
	*was_running = gdb->stopped_by_request;
	gdb->stopped |= done;
	gdb->stopped_by_request = false;
	return done;
}

bool vms_gdb_resync(struct vms_gdb *gdb, GError **error)
{
	uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	g_autoptr(GString) bytes = g_string_new(NULL);
	/* An empty request acknowledges a packet that may be left, and stops a running machine. */
	vms_gdb_append_packet(bytes, "");
	vms_gdb_append_packet(bytes, "qC");
	gdb->owes_ack = gdb->broken = false;
	gdb->awaited = (struct vms_gdb_awaited) { 0 };
	vms_gdb_forget_regs(gdb);
	if (!vms_gdb_send_row(gdb, bytes, deadline_ns, error))
		return false;
	for (unsigned i = 0; i < UNREAD_MAX; i++) {
		if (!vms_gdb_receive_packet(gdb, NULL, deadline_ns, error))
			return false;
		if (g_str_has_prefix(gdb->payload->str, "QC"))
			return true;
	}
	return fail_connection(gdb, "its answers do not belong to the requests", error);
}

static bool is_known(const struct vms_gdb *gdb, unsigned vcpu)
{
	return vms_regs_have(&gdb->known[vcpu], gdb->arch->pc);
}

bool vms_gdb_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	const bool in_batch = gdb->has_phys_mode && gdb->general_size > 0;
	bool read = gdb->broken || vcpu >= gdb->awaited.end || receive_vcpus(gdb, vcpu + 1, error);
	if (read && !is_known(gdb, vcpu) && in_batch)
		read = read_batch(gdb, vcpu, error);
	if (read && !is_known(gdb, vcpu))
		read = read_vcpu(gdb, vcpu, &gdb->known[vcpu], error);
	if (read)
		*ret = gdb->known[vcpu];
	else
		vms_gdb_forget_regs(gdb);
	return read;
}

void vms_gdb_forget_regs(struct vms_gdb *gdb)
{
	for (unsigned i = 0; gdb->known && i < gdb->threads->len; i++)
		memset(gdb->known[i].valid, 0, sizeof(gdb->known[i].valid));
}

bool vms_gdb_system_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	return select_vcpu(gdb, vcpu, error) && read_singles(gdb, true, ret, error);
}

/* Parses `n` bytes in hexadecimal. False for "xx". */
static bool parse_bytes(const char *hex, uint8_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t byte;
		if (!vms_gdb_parse_register(hex + 2 * i, 1, &byte))
			return false;
		ret[i] = (uint8_t)byte;
	}
	return true;
}

/* Receives a wide register. Only its first bytes are kept if it is a wider one. */
static bool receive_wide(struct vms_gdb *gdb, unsigned number, uint64_t deadline_ns,
			 struct vms_wide_regs *ret, GError **error)
{
	const size_t size = MIN(gdb->wide[number].size, VMS_WIDE_BYTES_MAX);
	if (!vms_gdb_receive_answer(gdb, deadline_ns, error))
		return false;
	if (gdb->payload->len == 2 * (size_t)gdb->wide[number].size &&
	    parse_bytes(gdb->payload->str, ret->bytes[number], size))
		ret->size[number] = (uint8_t)size;
	return true;
}

bool vms_gdb_wide_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_wide_regs *ret,
		       GError **error)
{
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	memset(ret->size, 0, sizeof(ret->size));
	if (!select_vcpu(gdb, vcpu, error))
		return false;
	g_autoptr(GString) row = vms_gdb_begin_row(gdb);
	for (unsigned i = 0; i < VMS_WIDE_MAX; i++) {
		char request[VMS_GDB_REQUEST_MAX];
		if (!gdb->wide[i].size)
			continue;
		snprintf(request, sizeof(request), "p%x", gdb->wide[i].number);
		vms_gdb_append_packet(row, request);
	}
	bool received = check_open(gdb, error) && vms_gdb_send_row(gdb, row, deadline_ns, error);
	for (unsigned i = 0; received && i < VMS_WIDE_MAX; i++)
		received = !gdb->wide[i].size || receive_wide(gdb, i, deadline_ns, ret, error);
	/* Answers that are still to come would be taken for answers to later requests. */
	gdb->broken |= !received;
	return received;
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
			return fail_connection(gdb, "it sent memory that is not hexadecimal",
					       error);
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
	if (!check_open(gdb, error) || !vms_gdb_send_row(gdb, bytes, deadline_ns, error))
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

/* Appends the text of a packet "O…", which is in hexadecimal. */
static bool append_console_text(struct vms_gdb *gdb, GString *text, GError **error)
{
	const GString *payload = gdb->payload;
	if (payload->len % 2 == 0 || text->len + payload->len / 2 > VMS_GDB_TEXT_MAX)
		return fail_connection(gdb, "its monitor's text is malformed or too long", error);
	for (size_t i = 1; i < payload->len; i += 2) {
		uint64_t byte;
		if (!vms_gdb_parse_register(payload->str + i, 1, &byte))
			return fail_connection(gdb, "its monitor's text is not hexadecimal", error);
		g_string_append_c(text, (char)byte);
	}
	return true;
}

/* Collects the text of the monitor from the packet that was received, and those after it. */
static char *collect_text(struct vms_gdb *gdb, uint64_t deadline_ns, GError **error)
{
	g_autoptr(GString) text = g_string_new(NULL);
	while (gdb->payload->str[0] == 'O' && gdb->payload->str[1] != 'K') {
		if (!append_console_text(gdb, text, error) ||
		    !vms_gdb_receive_packet(gdb, NULL, deadline_ns, error))
			return NULL;
	}
	if (strcmp(gdb->payload->str, "OK") != 0) {
		vms_gdb_fail(gdb, VMS_ERROR_UNSUPPORTED,
			     "it has no monitor (qRcmd), or its monitor refuses the command",
			     error);
		return NULL;
	}
	return vms_text_clean_lines(text->str);
}

char *vms_gdb_receive_text(struct vms_gdb *gdb, uint64_t deadline_ns, GError **error)
{
	return vms_gdb_receive_answer(gdb, deadline_ns, error)
		       ? collect_text(gdb, deadline_ns, error)
		       : NULL;
}

static char *encode_command(const char *command)
{
	GString *request = g_string_new("qRcmd,");
	for (const char *c = command; *c; c++)
		g_string_append_printf(request, "%02x", (uint8_t)*c);
	return g_string_free(request, FALSE);
}

void vms_gdb_append_command(GString *row, const char *command)
{
	g_autofree char *request = encode_command(command);
	vms_gdb_append_packet(row, request);
}

char *vms_gdb_monitor(struct vms_gdb *gdb, const char *command, GError **error)
{
	g_autofree char *request = encode_command(command);
	if (!vms_gdb_request(gdb, request, error))
		return NULL;
	return collect_text(gdb, vms_stream_deadline(&gdb->stream), error);
}
