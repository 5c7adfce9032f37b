/* SPDX-License-Identifier: MIT */
#include "machine/gdb/gdb.h"
#include "machine/gdb/breakpoints.h"
#include "peer.h"
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A packet as it goes over the wire; `payload` is escaped already. */
static void append_packet(GString *out, const char *payload)
{
	uint8_t sum = 0;
	for (const char *c = payload; *c; c++)
		sum += (uint8_t)*c;
	g_string_append_printf(out, "$%s#%02x", payload, sum);
}

/* ---- single packets ---------------------------------------------------- */

/* A client that is past its greeting. */
static void start(struct peer *peer, struct vms_gdb *gdb, const char *lines, enum peer_end end)
{
	*gdb = (struct vms_gdb) { .payload = g_string_new(NULL), .stopped = true };
	peer_start(peer, &gdb->stream, lines, end);
}

static void check_answer(const char *lines, const char *payload, const char *sent)
{
	struct peer peer;
	struct vms_gdb gdb;
	g_autoptr(GError) error = NULL;
	g_autofree char *shown = g_strescape(lines, NULL);
	g_test_message("%s", shown);
	start(&peer, &gdb, lines, PEER_CLOSES);
	g_assert_true(vms_gdb_request(&gdb, "qC", &error));
	g_assert_cmpstr(gdb.payload->str, ==, payload);
	vms_gdb_close(&gdb);
	g_autoptr(GString) heard = peer_stop(&peer);
	g_assert_cmpstr(heard->str, ==, sent);
}

static void test_packets(void)
{
	check_answer("+$OK#9a", "OK", "$qC#b4+");
	check_answer("$OK#9A", "OK", "$qC#b4+");
	check_answer("+$#00", "", "$qC#b4+");
	check_answer("++noise+$OK#9a", "OK", "$qC#b4+");
	/* The protocol's own example: "0* " is 0000. */
	check_answer("+$0* #7a", "0000", "$qC#b4+");
	check_answer("+$a}\x03"
		     "b#43",
		     "a#b", "$qC#b4+");
	/* A damaged packet, and one that was cut off, are asked for again. */
	check_answer("+$OK#00$OK#9a", "OK", "$qC#b4-+");
	check_answer("+$OK#zz$OK#9a", "OK", "$qC#b4-+");
	check_answer("+$ab$OK#9a", "OK", "$qC#b4+");
	/* The stub asks for ours again. */
	check_answer("-+$OK#9a", "OK", "$qC#b4$qC#b4+");
	/* An older QEMU tells that the request has stopped the machine. */
	check_answer("+$T02thread:01;#04+$OK#9a", "OK", "$qC#b4+$qC#b4+");
}

static void check_failure(const char *lines, enum peer_end end, enum vms_error code)
{
	struct peer peer;
	struct vms_gdb gdb;
	g_autoptr(GError) error = NULL;
	g_autofree char *shown = g_strescape(lines, NULL);
	g_test_message("%s", shown);
	start(&peer, &gdb, lines, end);
	if (code != VMS_ERROR_TIMEOUT)
		gdb.stream.timeout_ms = PEER_PATIENCE_MS;
	g_assert_false(vms_gdb_request(&gdb, "qC", &error));
	g_assert_error(error, VMS_ERROR, (int)code);
	g_assert_true(gdb.broken);
	g_clear_error(&error);
	g_assert_false(vms_gdb_request(&gdb, "qC", &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_CLOSED);
	vms_gdb_close(&gdb);
	g_string_free(peer_stop(&peer), TRUE);
}

static void test_bad_packets(void)
{
	check_failure("", PEER_STAYS, VMS_ERROR_TIMEOUT);
	check_failure("+$OK#9", PEER_STAYS, VMS_ERROR_TIMEOUT);
	check_failure("", PEER_CLOSES, VMS_ERROR_CLOSED);
	check_failure("+$OK", PEER_CLOSES, VMS_ERROR_CLOSED);
	check_failure("+$OK#00$OK#00$OK#00$OK#00$OK#9a", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_failure("-----", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_failure("+$* #4a", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_failure("+$0*\x1f#79", PEER_STAYS, VMS_ERROR_PROTOCOL);
	check_failure("+$T02#b6+$T02#b6+$T02#b6", PEER_STAYS, VMS_ERROR_PROTOCOL);
	g_autoptr(GString) run = g_string_new("+$0");
	for (int i = 0; i < 1000; i++)
		g_string_append(run, "*~");
	check_failure(run->str, PEER_STAYS, VMS_ERROR_PROTOCOL);
	g_autofree char *noise = g_strnfill(VMS_GDB_PAYLOAD_MAX + 2, 'x');
	check_failure(noise, PEER_STAYS, VMS_ERROR_PROTOCOL);
	g_autofree char *endless = g_strconcat("+$", noise, NULL);
	check_failure(endless, PEER_STAYS, VMS_ERROR_PROTOCOL);
}

static void test_stop(void)
{
	static const struct {
		const char *lines;
		unsigned signal;
		int code; /* or -1 */
	} cases[] = {
		{ "$T02thread:01;#04", 2, -1 },	   { "$S05#b8", 5, -1 },
		{ "$O6869#2c$T1d#e9", 29, -1 },	   { "$W00#b7", 0, VMS_ERROR_CLOSED },
		{ "$OK#9a", 0, VMS_ERROR_CLOSED }, /* and the end */
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct peer peer;
		struct vms_gdb gdb;
		g_autoptr(GError) error = NULL;
		g_autofree char *shown = g_strescape(cases[i].lines, NULL);
		g_test_message("%s", shown);
		start(&peer, &gdb, cases[i].lines, PEER_CLOSES);
		gdb.stopped = false;
		g_assert_cmpint(vms_gdb_stop(&gdb, &error), ==, cases[i].code < 0);
		if (cases[i].code >= 0)
			g_assert_error(error, VMS_ERROR, cases[i].code);
		else
			g_assert_cmpuint(gdb.signal, ==, cases[i].signal);
		g_assert_cmpint(gdb.stopped, ==, cases[i].code < 0);
		vms_gdb_close(&gdb);
		g_autoptr(GString) heard = peer_stop(&peer);
		g_assert_cmpint(heard->str[0], ==, 3);
	}
}

static void test_probe(void)
{
	static const struct {
		const char *lines;
		bool works, was_running;
	} cases[] = {
		{ "$T02thread:01;#04++$T05thread:01;#07$QC01#f5", true, true },
		{ "++$T05thread:01;#07+$#00", true, false },
		{ "++$OK#9a", false, false },
		{ "$T02#b6$T02#b6$T02#b6$T02#b6", false, false },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct peer peer;
		struct vms_gdb gdb;
		bool was_running = false;
		g_autoptr(GError) error = NULL;
		start(&peer, &gdb, cases[i].lines, PEER_CLOSES);
		g_assert_cmpint(vms_gdb_probe(&gdb, &was_running, &error), ==, cases[i].works);
		g_assert_cmpint(was_running, ==, cases[i].was_running);
		vms_gdb_close(&gdb);
		g_string_free(peer_stop(&peer), TRUE);
	}
}

/* An interrupt request goes along with the requests: the stub tells first if it has stopped
 * anything. */
static void test_interrupts(void)
{
	static const struct {
		const char *lines;
		bool works, was_running;
	} cases[] = {
		{ "$T02thread:01;#04+$QC01#f5", true, true },
		{ "+$QC01#f5", true, false },
		{ "$T02#b6$T02#b6+$QC01#f5", false, false },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct peer peer;
		struct vms_gdb gdb;
		bool was_running = !cases[i].was_running;
		g_autoptr(GError) error = NULL;
		start(&peer, &gdb, cases[i].lines, PEER_CLOSES);
		gdb.interrupts = true;
		g_assert_cmpint(vms_gdb_interrupt(&gdb, true, &was_running, &error), ==,
				cases[i].works);
		if (cases[i].works)
			g_assert_cmpint(was_running, ==, cases[i].was_running);
		vms_gdb_close(&gdb);
		g_autoptr(GString) heard = peer_stop(&peer);
		g_assert_true(g_str_has_prefix(heard->str, "\003$qC#b4"));
	}
}

/* A command to the monitor goes along with the interrupt, too. */
static void test_interrupts_for(void)
{
	static const struct {
		const char *lines, *text;
		bool was_running;
	} cases[] = {
		{ "$T02thread:01;#04+$O6869#2c$OK#9a", "hi", true },
		{ "+$O6869#2c$OK#9a", "hi", false },
		{ "$T02thread:01;#04+$E22#a9", NULL, true },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct peer peer;
		struct vms_gdb gdb;
		bool was_running = !cases[i].was_running;
		g_autofree char *text = NULL;
		g_autoptr(GError) error = NULL;
		start(&peer, &gdb, cases[i].lines, PEER_CLOSES);
		gdb.interrupts = true;
		g_assert_cmpint(vms_gdb_interrupt_for(&gdb, "help", &text, &was_running, &error),
				==, cases[i].text != NULL);
		g_assert_cmpstr(text, ==, cases[i].text);
		if (!cases[i].text)
			g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
		g_assert_cmpint(was_running, ==, cases[i].was_running);
		vms_gdb_close(&gdb);
		g_autoptr(GString) heard = peer_stop(&peer);
		g_assert_true(g_str_has_prefix(heard->str, "\003$qRcmd,68656c70#"));
	}
}

/* A stub whose vCPU ends no step before it is interrupted. */
static gpointer answer_interrupt(gpointer data)
{
	static const char ok[] = "$OK#9a", stopped[] = "$T02thread:01;#04";
	const struct peer *peer = data;
	g_autoptr(GString) heard = g_string_new(NULL);
	char byte;
	while (!strstr(heard->str, "vCont;s:1#") && recv(peer->fd, &byte, 1, 0) == 1)
		g_string_append_c(heard, byte);
	send(peer->fd, ok, strlen(ok), MSG_NOSIGNAL);
	while (recv(peer->fd, &byte, 1, 0) == 1 && byte != 3)
		;
	send(peer->fd, stopped, strlen(stopped), MSG_NOSIGNAL);
	return NULL;
}

/* The machine stands still by our interrupt then, and not by a step that has ended. */
static void test_lost_step(void)
{
	struct peer peer;
	struct vms_gdb gdb;
	g_autoptr(GError) error = NULL;
	start(&peer, &gdb, "", PEER_STAYS);
	gdb.stream.timeout_ms = PEER_PATIENCE_MS;
	g_autoptr(GThread) stub = g_thread_new("stub", answer_interrupt, &peer);
	g_assert_true(vms_gdb_end_lost_steps(&gdb, 1, &error));
	g_thread_join(g_steal_pointer(&stub));
	g_assert_true(gdb.stopped_by_request);
	vms_gdb_close(&gdb);
	g_string_free(peer_stop(&peer), TRUE);
}

/* A request that stops a machine whose owner had resumed it is answered all the same, once. */
static void test_interrupting_request(void)
{
	struct peer peer;
	struct vms_gdb gdb;
	g_autoptr(GError) error = NULL;
	start(&peer, &gdb, "$T02thread:01;#04+$OK#9a", PEER_CLOSES);
	gdb.interrupts = true;
	g_assert_true(vms_gdb_request(&gdb, "Hg1", &error));
	g_assert_cmpstr(gdb.payload->str, ==, "OK");
	g_assert_true(gdb.stopped_by_request);
	vms_gdb_close(&gdb);
	g_autoptr(GString) heard = peer_stop(&peer);
	g_assert_cmpstr(heard->str, ==, "\003$Hg1#e0+");
}

/* What somebody else has left unread on the connection is dropped. */
static void test_resync(void)
{
	struct peer peer;
	struct vms_gdb gdb;
	g_autoptr(GError) error = NULL;
	start(&peer, &gdb, "+$O4f#e9+$OK#9a$T02#b6+$#00+$QC01#f5", PEER_CLOSES);
	gdb.interrupts = true;
	gdb.owes_ack = true;
	g_assert_true(vms_gdb_resync(&gdb, &error));
	g_assert_cmpstr(gdb.payload->str, ==, "QC01");
	vms_gdb_close(&gdb);
	g_autoptr(GString) heard = peer_stop(&peer);
	g_assert_true(g_str_has_prefix(heard->str, "$#00$qC#b4"));
}

/* Packets "O…" with text in hexadecimal, then one that says how it went. */
static void test_monitor(void)
{
	static const struct {
		const char *packets[4];
		const char *text; /* or NULL */
		int code;
	} cases[] = {
		{ { "O61620d0a", "O63", "OK" }, "ab\nc", 0 },
		{ { "OK" }, "", 0 },
		{ { "O1b5b0d0a", "OK" }, "?[\n", 0 },
		{ { "" }, NULL, VMS_ERROR_UNSUPPORTED },
		{ { "O61", "E22" }, NULL, VMS_ERROR_UNSUPPORTED },
		{ { "O6", "OK" }, NULL, VMS_ERROR_PROTOCOL },
		{ { "O6x", "OK" }, NULL, VMS_ERROR_PROTOCOL },
		{ { "O61" }, NULL, VMS_ERROR_CLOSED },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct peer peer;
		struct vms_gdb gdb;
		g_autoptr(GString) lines = g_string_new("+");
		g_autoptr(GError) error = NULL;
		for (const char *const *packet = cases[i].packets; *packet; packet++)
			append_packet(lines, *packet);
		start(&peer, &gdb, lines->str, PEER_CLOSES);
		g_autofree char *text = vms_gdb_monitor(&gdb, "help", &error);
		g_assert_cmpstr(text, ==, cases[i].text);
		if (cases[i].code)
			g_assert_error(error, VMS_ERROR, cases[i].code);
		else
			g_assert_no_error(error);
		vms_gdb_close(&gdb);
		g_autoptr(GString) heard = peer_stop(&peer);
		g_assert_true(g_str_has_prefix(heard->str, "$qRcmd,68656c70#"));
	}
}

static void test_monitor_without_end(void)
{
	struct peer peer;
	struct vms_gdb gdb;
	g_autoptr(GError) error = NULL;
	g_autoptr(GString) packet = g_string_new(NULL);
	g_autofree char *text = g_strnfill(60000, '6');
	g_autofree char *payload = g_strconcat("O", text, NULL);
	append_packet(packet, payload);
	GBytes *lines = g_bytes_new(packet->str, packet->len);
	gdb = (struct vms_gdb) { .payload = g_string_new(NULL), .stopped = true };
	peer_start_long(&peer, &gdb.stream, lines, packet->len, 150, PEER_CLOSES);
	g_assert_null(vms_gdb_monitor(&gdb, "help", &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL);
	vms_gdb_close(&gdb);
	g_string_free(peer_stop(&peer), TRUE);
}

/* ---- a whole stub ------------------------------------------------------ */

/* What a stub answers to a request that begins so; the first that fits. "@" is the vCPU's digit. */
struct answer {
	const char *request, *payload;
};

struct stub {
	int fd;
	GThread *thread;
	const struct answer *answers;
	char selected;
	gint served; /* requests; atomic */
};

static void answer_request(struct stub *stub, const char *request, GString *reply)
{
	const struct answer *answer = stub->answers;
	if (g_str_has_prefix(request, "Hg"))
		stub->selected = request[2];
	while (answer->request && !g_str_has_prefix(request, answer->request))
		answer++;
	g_autofree char *payload = g_strdup(answer->request ? answer->payload : "");
	append_packet(reply, g_strdelimit(payload, "@", stub->selected));
	g_atomic_int_inc(&stub->served);
}

static gpointer serve(gpointer data)
{
	struct stub *stub = data;
	g_autoptr(GString) heard = g_string_new(NULL);
	char byte;
	while (recv(stub->fd, &byte, 1, 0) == 1) {
		if (byte == '$') {
			g_string_truncate(heard, 0);
		} else if (byte != '#') {
			g_string_append_c(heard, byte);
		} else {
			g_autoptr(GString) reply = g_string_new("+");
			answer_request(stub, heard->str, reply);
			if (send(stub->fd, reply->str, reply->len, MSG_NOSIGNAL) < 0)
				break;
		}
	}
	close(stub->fd);
	return NULL;
}

static void stub_start(struct stub *stub, struct vms_gdb *gdb, const struct answer *answers)
{
	int ends[2];
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
	*stub = (struct stub) { .fd = ends[1], .answers = answers };
	*gdb = (struct vms_gdb) { 0 };
	vms_stream_init(&gdb->stream, ends[0], g_strdup("test stub"));
	gdb->stream.timeout_ms = PEER_PATIENCE_MS;
	stub->thread = g_thread_new("stub", serve, stub);
}

static void stub_stop(struct stub *stub, struct vms_gdb *gdb)
{
	vms_gdb_close(gdb);
	g_thread_join(stub->thread);
}

#define TARGET(body)                                                                               \
	"l<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target>"              \
	"<architecture>i386:x86-64</architecture>" body "</target>"
#define FEATURES                                                                                   \
	{                                                                                          \
		"qSupported", "PacketSize=1000;qXfer:features:read+"                               \
	}
#define QUERIES                                                                                    \
	{ "?", "T05thread:01;" }, { "qfThreadInfo", "m1,p1.2" }, { "qsThreadInfo", "l" },          \
	{                                                                                          \
		"vCont?", "vCont;c;C;s;S"                                                          \
	}

static uint64_t value_of(const struct vms_gdb *gdb, const struct vms_regs *regs, const char *name)
{
	int index = vms_arch_reg(gdb->arch, name);
	g_assert_cmpint(index, >=, 0);
	g_assert_true(vms_regs_have(regs, (unsigned)index));
	return regs->value[index];
}

/* Registers in an order of the stub's own, of odd sizes, across documents, some beyond `g`. */
static void test_registers_by_name(void)
{
	static const struct answer answers[] = {
		FEATURES,
		{ "qXfer:features:read:target.xml:0,",
		  TARGET("<xi:include href=\"a.xml\"/><xi:include href=\"b.xml\"/>") },
		{ "qXfer:features:read:a.xml:0,",
		  "m<feature name=\"a\"><reg name=\"rip\" bitsize=\"64\"/><reg name=\"odd\" " },
		{ "qXfer:features:read:a.xml:40,",
		  "lbitsize=\"24\"/><reg name=\"eflags\" bitsize=\"32\"/></feature>" },
		{ "qXfer:features:read:b.xml:0,",
		  "l<feature name=\"b\"><reg name=\"cr3\" bitsize=\"64\" regnum=\"90\"/>"
		  "<reg name=\"rax\" bitsize=\"64\" regnum=\"7\"/>"
		  "<reg name=\"rbx\" bitsize=\"64\"/></feature>" },
		QUERIES,
		{ "qqemu", "0" },
		{ "Hg2", "OK" },
		/* rip, odd, eflags, rax, rbx (not known), and no cr3 */
		{ "g", "8877665544332211"
		       "ffffff"
		       "46020000"
		       "0100000000000080"
		       "xxxxxxxxxxxxxxxx" },
		{ "p5a", "00f0debc00000000" },
		{ NULL, NULL },
	};
	struct stub stub;
	struct vms_gdb gdb;
	struct vms_regs regs;
	g_autoptr(GError) error = NULL;
	stub_start(&stub, &gdb, answers);
	g_assert_true(vms_gdb_open(&gdb, &error));
	g_assert_true(gdb.arch == &vms_arch_x86_64);
	g_assert_cmpuint(gdb.threads->len, ==, 2);
	g_assert_true(gdb.has_vcont && gdb.has_phys_mode && gdb.stopped);
	g_assert_true(vms_gdb_regs(&gdb, 1, &regs, &error));
	g_assert_cmphex(value_of(&gdb, &regs, "rip"), ==, 0x1122334455667788);
	g_assert_cmphex(value_of(&gdb, &regs, "eflags"), ==, 0x246);
	g_assert_cmphex(value_of(&gdb, &regs, "rax"), ==, 0x8000000000000001);
	g_assert_cmphex(value_of(&gdb, &regs, "cr3"), ==, 0xbcdef000);
	g_assert_false(vms_regs_have(&regs, (unsigned)vms_arch_reg(gdb.arch, "rbx")));
	g_assert_false(vms_regs_have(&regs, (unsigned)vms_arch_reg(gdb.arch, "rsp")));
	g_assert_false(vms_gdb_regs(&gdb, 0, &regs, &error)); /* Hg1 is refused */
	g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
	stub_stop(&stub, &gdb);
}

/* Waits until the stub has answered so many requests more. */
static void await_served(struct stub *stub, gint *served, gint n)
{
	*served += n;
	while (g_atomic_int_get(&stub->served) < *served)
		g_usleep(1000);
	g_assert_cmpint(g_atomic_int_get(&stub->served), ==, *served);
}

/*
 * Those of all vCPUs are asked for at once, and then known until they are forgotten. Answers that
 * nobody has received yet do not mix with those to later requests.
 */
static void test_registers_together(void)
{
	static const struct answer answers[] = {
		FEATURES,
		{ "qXfer:features:read:target.xml:0,",
		  TARGET("<reg name=\"rip\" bitsize=\"64\"/>"
			 "<reg name=\"cr3\" bitsize=\"64\" regnum=\"90\"/>") },
		QUERIES,
		{ "qqemu", "0" },
		{ "Hg", "OK" },
		{ "g", "0@00000000000000" },
		{ "p5a", "f@00000000000000" },
		{ NULL, NULL },
	};
	struct stub stub;
	struct vms_gdb gdb;
	struct vms_regs regs;
	g_autoptr(GError) error = NULL;
	stub_start(&stub, &gdb, answers);
	g_assert_true(vms_gdb_open(&gdb, &error));
	/* The first time tells what `g` holds; from then on it is all or nothing. */
	g_assert_true(vms_gdb_regs(&gdb, 0, &regs, &error));
	for (unsigned round = 0; round < 3; round++) {
		gint served = g_atomic_int_get(&stub.served);
		vms_gdb_forget_regs(&gdb);
		for (unsigned i = 0; i < 4; i++) {
			g_assert_true(vms_gdb_regs(&gdb, i % 2, &regs, &error));
			g_assert_no_error(error);
			g_assert_cmphex(value_of(&gdb, &regs, "rip"), ==, i % 2 + 1);
			g_assert_cmphex(value_of(&gdb, &regs, "cr3"), ==, 0xf0 + i % 2 + 1);
			await_served(&stub, &served, i == 0 ? 6 : 0);
			if (i == round) {
				g_assert_true(vms_gdb_request(&gdb, "qqemu.PhyMemMode", &error));
				g_assert_cmpstr(gdb.payload->str, ==, "0");
				await_served(&stub, &served, 1);
			}
		}
	}
	stub_stop(&stub, &gdb);
}

/* An answer that is missing, or another's, must not become another vCPU's registers. */
static void test_registers_out_of_step(void)
{
	static const char *const answers[][4] = {
		{ "0200000000000000", "OK", "0100000000000000" }, /* the first OK is lost */
		{ "OK", "T02thread:01;" },
		{ "OK", "0100000000000000", "OK", "01000000" },
		{ "OK", "0100000000000000", "OK" },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(answers); i++) {
		struct peer peer;
		struct vms_gdb gdb;
		struct vms_regs regs;
		uint64_t ids[] = { 1, 2 };
		g_autoptr(GError) error = NULL;
		g_autoptr(GString) lines = g_string_new(NULL);
		for (size_t j = 0; j < G_N_ELEMENTS(answers[i]) && answers[i][j]; j++)
			append_packet(lines, answers[i][j]);
		start(&peer, &gdb, lines->str, PEER_CLOSES);
		gdb.arch = &vms_arch_x86_64;
		gdb.slots[vms_arch_reg(gdb.arch, "rip")] = (struct vms_gdb_slot) { .size = 8 };
		gdb.threads = g_array_new(FALSE, FALSE, sizeof(uint64_t));
		g_array_append_vals(gdb.threads, ids, G_N_ELEMENTS(ids));
		gdb.known = g_new0(struct vms_regs, G_N_ELEMENTS(ids));
		gdb.general_size = 8;
		gdb.has_phys_mode = true;
		/* The answers for the first vCPU are right in the last two. */
		g_assert_true(i < 2 || vms_gdb_regs(&gdb, 0, &regs, &error));
		g_assert_false(vms_gdb_regs(&gdb, i < 2 ? 0 : 1, &regs, &error));
		g_assert_error(error, VMS_ERROR, (i < 3 ? VMS_ERROR_PROTOCOL : VMS_ERROR_CLOSED));
		g_assert_true(gdb.broken);
		vms_gdb_close(&gdb);
		g_string_free(peer_stop(&peer), TRUE);
	}
}

static void test_physical_memory(void)
{
	static const struct answer answers[] = {
		FEATURES,
		{ "qXfer:features:read:target.xml:0,", TARGET("") },
		QUERIES,
		{ "qqemu", "0" },
		{ "Qqemu.PhyMemMode:1", "OK" },
		{ "m1000,4", "0123cdef" },
		{ "m2000,4", "E14" },
		{ "m3000,4", "0123" },
		{ "m4000,4", "0123zzzz" },
		{ NULL, NULL },
	};
	struct stub stub;
	struct vms_gdb gdb;
	uint8_t buf[4];
	static const uint8_t expected[] = { 0x01, 0x23, 0xcd, 0xef };
	g_autoptr(GError) error = NULL;
	stub_start(&stub, &gdb, answers);
	g_assert_true(vms_gdb_open(&gdb, &error));
	g_assert_true(vms_gdb_read_phys(&gdb, 0x1000, buf, 4, &error));
	g_assert_cmpmem(buf, 4, expected, 4);
	g_assert_false(vms_gdb_read_phys(&gdb, 0x2000, buf, 4, NULL));
	g_assert_false(vms_gdb_read_phys(&gdb, 0x3000, buf, 4, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE);
	g_clear_error(&error);
	g_assert_false(vms_gdb_read_phys(&gdb, 0x4000, buf, 4, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL);
	stub_stop(&stub, &gdb);
}

/* Memory that takes several packets, of which all are asked for before the first answer. */
static void test_rows_of_memory(void)
{
	static const struct answer answers[] = {
		{ "qSupported", "PacketSize=40;qXfer:features:read+" }, /* 28 bytes in each */
		{ "qXfer:features:read:target.xml:0,", TARGET("") },
		QUERIES,
		{ "qqemu", "0" },
		{ "Qqemu.PhyMemMode:1", "OK" },
		{ "m1000,1c", "00112233445566778899aabbccddeeff00112233445566778899aabb" },
		{ "m101c,1c", "ffeeddccbbaa99887766554433221100ffeeddccbbaa998877665544" },
		{ "m1038,2", "abcd" },
		{ "m2000,1c", "00112233445566778899aabbccddeeff00112233445566778899aabb" },
		{ "m201c,1c", "E14" },
		{ "m2038,2", "0123" },
		{ "m1010,2", "3344" },
		{ NULL, NULL },
	};
	static const uint8_t expected[] = { 0xaa, 0xbb, 0xff, 0xee }, next[] = { 0x33, 0x44 };
	struct stub stub;
	struct vms_gdb gdb;
	uint8_t buf[58];
	g_autoptr(GError) error = NULL;
	stub_start(&stub, &gdb, answers);
	g_assert_true(vms_gdb_open(&gdb, &error));
	g_assert_true(vms_gdb_read_phys(&gdb, 0x1000, buf, sizeof(buf), &error));
	g_assert_cmpmem(buf + 26, 4, expected, 4);
	g_assert_cmphex(buf[0], ==, 0);
	g_assert_cmphex(buf[57], ==, 0xcd);
	g_assert_false(vms_gdb_read_phys(&gdb, 0x2000, buf, sizeof(buf), &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE);
	g_clear_error(&error);
	/* The answers behind the refused part are none of the next request's. */
	g_assert_true(vms_gdb_read_phys(&gdb, 0x1010, buf, 2, &error));
	g_assert_cmpmem(buf, 2, next, 2);
	stub_stop(&stub, &gdb);
}

/* Descriptions, and lists of threads, that no stub should send. */
static void check_refused(const struct answer *first, const struct answer *second,
			  enum vms_error code)
{
	const struct answer none = { NULL, NULL };
	const struct answer answers[] = {
		first ? *first : (struct answer)FEATURES,
		second ? *second : none,
		{ "qXfer:features:read:target.xml:0,", TARGET("") },
		QUERIES,
		{ "qqemu", "0" },
		none,
	};
	struct stub stub;
	struct vms_gdb gdb;
	g_autoptr(GError) error = NULL;
	g_autofree char *shown = g_strescape(second ? second->payload : first->payload, NULL);
	g_test_message("%s", shown);
	stub_start(&stub, &gdb, answers);
	g_assert_false(vms_gdb_open(&gdb, &error));
	g_assert_error(error, VMS_ERROR, (int)code);
	/* The parser's place in the description helps nobody. */
	g_assert_null(strstr(error->message, "line 1"));
	stub_stop(&stub, &gdb);
}

static void test_refused_stubs(void)
{
	static const struct answer undescribed = { "qSupported", "PacketSize=1000" };
	static const char *const malformed[] = {
		"l<target",
		"ltarget",
		"l",
		"x",
		"m", /* no progress */
		"E00",
		"l<target>\xff\xfe</target>",
		TARGET("<xi:include href=\"target.xml\"/>"), /* itself */
		TARGET("<xi:include href=\"a,b\"/>"),
		TARGET("<xi:include/>"),
		TARGET("<reg bitsize=\"64\"/>"),
		TARGET("<reg name=\"rax\"/>"),
		TARGET("<reg name=\"rax\" bitsize=\"0\"/>"),
		TARGET("<reg name=\"rax\" bitsize=\"9999999999\"/>"),
		TARGET("<reg name=\"rax\" bitsize=\"64\" regnum=\"-1\"/>"),
	};
	static const struct answer endless = { "qXfer", "m<!-- again and again -->" };
	static const struct answer other = { "qXfer", "l<target><architecture>mips</architecture>"
						      "</target>" };
	static const struct answer threads[] = {
		{ "qfThreadInfo", "l" },
		{ "qfThreadInfo", "mp01.x" },
		{ "qfThreadInfo", "E01" },
		{ "qsThreadInfo", "m1" }, /* without end */
	};
	check_refused(&undescribed, NULL, VMS_ERROR_UNSUPPORTED);
	for (size_t i = 0; i < G_N_ELEMENTS(malformed); i++) {
		struct answer answer = { "qXfer:features:read:", malformed[i] };
		check_refused(NULL, &answer, VMS_ERROR_PROTOCOL);
	}
	check_refused(NULL, &endless, VMS_ERROR_PROTOCOL);
	check_refused(NULL, &other, VMS_ERROR_UNSUPPORTED);
	for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
		check_refused(NULL, &threads[i], VMS_ERROR_PROTOCOL);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/gdb/packets", test_packets);
	g_test_add_func("/gdb/bad-packets", test_bad_packets);
	g_test_add_func("/gdb/stop", test_stop);
	g_test_add_func("/gdb/probe", test_probe);
	g_test_add_func("/gdb/interrupts", test_interrupts);
	g_test_add_func("/gdb/lost-step", test_lost_step);
	g_test_add_func("/gdb/interrupts-for", test_interrupts_for);
	g_test_add_func("/gdb/interrupting-request", test_interrupting_request);
	g_test_add_func("/gdb/resync", test_resync);
	g_test_add_func("/gdb/monitor", test_monitor);
	g_test_add_func("/gdb/monitor-without-end", test_monitor_without_end);
	g_test_add_func("/gdb/registers-by-name", test_registers_by_name);
	g_test_add_func("/gdb/registers-together", test_registers_together);
	g_test_add_func("/gdb/registers-out-of-step", test_registers_out_of_step);
	g_test_add_func("/gdb/physical-memory", test_physical_memory);
	g_test_add_func("/gdb/rows-of-memory", test_rows_of_memory);
	g_test_add_func("/gdb/refused-stubs", test_refused_stubs);
	return g_test_run();
}
