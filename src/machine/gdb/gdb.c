/* SPDX-License-Identifier: MIT */
/* The connection to a stub: what it can do, and stops of its machine. */
#include "machine/gdb/gdb.h"

#include "base/clock.h"
#include "machine/gdb/gdb-private.h"
#include <string.h>

/* How long to wait for the answer of a stub that has received a request. */
#define HEARD_NS UINT64_C(500000000)
/* How many unread packets of somebody else to skip. */
#define UNREAD_MAX 64
/* How many bytes a stub may leave unread. */
#define LEFT_MAX (4U << 20)

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
		return vms_gdb_fail_connection(gdb, "it answers a request with a stop", error);
	vms_gdb_forget_regs(gdb);
	if (!vms_gdb_receive_packet(gdb, NULL, deadline_ns, error))
		return false;
	return !vms_gdb_note_stop(gdb) ||
	       vms_gdb_fail_connection(gdb, "it answers a request with a stop", error);
}

bool vms_gdb_request(struct vms_gdb *gdb, const char *request, GError **error)
{
	bool expects_stop = request[0] == '?';
	uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	if (!vms_gdb_check_open(gdb, error))
		return false;
	if (gdb->interrupts)
		return vms_gdb_send_packet(gdb, request, deadline_ns, error) &&
		       vms_gdb_receive_answer(gdb, deadline_ns, error);
	for (int attempt = 0; attempt < 2; attempt++) {
		if (!vms_gdb_send_packet(gdb, request, deadline_ns, error) ||
		    !vms_gdb_receive_packet(gdb, request, deadline_ns, error))
			return false;
		if (!vms_gdb_note_stop(gdb) || expects_stop)
			return true;
		gdb->stopped_by_request = true; /* the request was lost: send it again */
		vms_gdb_forget_regs(gdb);
	}
	return vms_gdb_fail_connection(gdb, "it answers a request with a stop", error);
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
		return vms_gdb_fail_connection(gdb, "it does not tell that the machine has stopped",
					       error);
	return true;
}

bool vms_gdb_stop(struct vms_gdb *gdb, GError **error)
{
	if (!vms_gdb_check_open(gdb, error))
		return false;
	if (gdb->stopped)
		return true;
	return vms_gdb_send_byte(gdb, VMS_GDB_INTERRUPT, vms_stream_deadline(&gdb->stream),
				 error) &&
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
	if (!vms_gdb_check_open(gdb, error) || !vms_gdb_send_row(gdb, bytes, deadline_ns, error))
		return false;
	do {
		if (!vms_gdb_receive_packet(gdb, NULL, deadline_ns, error))
			return false;
	} while (vms_gdb_note_stop(gdb) && ++stops <= 2);
	if (stops < 1 || stops > 2)
		return vms_gdb_fail_connection(gdb, "it does not tell whether the machine runs",
					       error);
	*was_running = stops == 2;
	return true;
}

bool vms_gdb_resume(struct vms_gdb *gdb, GError **error)
{
	uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	uint8_t byte;
	if (!vms_gdb_check_open(gdb, error) || !vms_gdb_leave_phys_mode(gdb, error) ||
	    !vms_gdb_send_packet(gdb, gdb->has_vcont ? "vCont;c" : "c", deadline_ns, error))
		return false;
	gdb->stopped = false;
	gdb->stopped_by_request = false;
	vms_gdb_forget_regs(gdb);
	do {
		if (!vms_gdb_receive_byte(gdb, deadline_ns, &byte, error))
			return false;
		if (byte == '-')
			return vms_gdb_fail_connection(gdb, "it does not accept our packets",
						       error);
	} while (byte != '+');
	return true;
}

bool vms_gdb_poll(struct vms_gdb *gdb, GError **error)
{
	if (!vms_gdb_check_open(gdb, error))
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
			return vms_gdb_fail_connection(gdb, "it does not list its vCPUs", error);
		g_auto(GStrv) ids = g_strsplit(gdb->payload->str + 1, ",", -1);
		for (char **id = ids; *id; id++) {
			uint64_t number;
			if (gdb->threads->len >= VMS_GDB_THREADS_MAX || !parse_thread(*id, &number))
				return vms_gdb_fail_connection(
					gdb, "its list of vCPUs is malformed or too long", error);
			g_array_append_val(gdb->threads, number);
		}
		request = "qsThreadInfo";
	}
	if (gdb->threads->len == 0)
		return vms_gdb_fail_connection(gdb, "it lists no vCPU", error);
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
	if (!vms_gdb_check_open(gdb, error) ||
	    !vms_gdb_send_packet(gdb, request, deadline_ns, error) ||
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
	return vms_gdb_fail_connection(gdb, "its answers do not belong to the requests", error);
}
