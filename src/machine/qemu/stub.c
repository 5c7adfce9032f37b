/* SPDX-License-Identifier: MIT */
/* Adds QEMU's gdb stub while the machine runs, and removes it. */
#include "machine/qemu/stub.h"

#include "base/owner.h"
#include "base/text.h"
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct json_object *object_with(const char *key, struct json_object *value)
{
	struct json_object *object = json_object_new_object();
	json_object_object_add(object, key, value);
	return object;
}

static bool run_gdbserver(struct vms_qemu *qemu, const char *device, const char *expected,
			  GError **error)
{
	g_autofree char *command = g_strdup_printf("gdbserver %s", device);
	g_autofree char *text = vms_qmp_hmp(&qemu->qmp, command, error);
	if (!text)
		return false;
	if (strstr(text, expected))
		return true;
	g_strdelimit(text, "\n", ' ');
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED, "%s: QEMU refused `%s`: %s",
		    qemu->qmp.stream.peer, command, g_strstrip(text));
	return false;
}

bool vms_qemu_close_descriptor(struct vms_qemu *qemu, const char *label)
{
	vms_autojson *closed =
		vms_qmp_execute(&qemu->qmp, "closefd",
				object_with("fdname", json_object_new_string(label)), -1, NULL);
	return closed || !qemu->qmp.broken;
}

/* QEMU removes the chardev together with its stub. If there was no stub, it is removed here. */
bool vms_qemu_remove_server(struct vms_qemu *qemu, const char *label, GError **error)
{
	if (!run_gdbserver(qemu, "none", "Disabled gdbserver", error))
		return false;
	vms_autojson *removed =
		vms_qmp_execute(&qemu->qmp, "chardev-remove",
				object_with("id", json_object_new_string(label)), -1, NULL);
	return removed || !qemu->qmp.broken;
}

/*
 * Checks one chardev. QEMU has only one gdb stub at a time. A stub of a process that is alive is
 * left alone, and a stub of a process that has died is removed.
 */
static bool check_chardev(struct vms_qemu *qemu, const char *label, const char *filename,
			  GError **error)
{
	if (strcmp(label, "gdb") == 0) {
		g_autofree char *where = g_strdup(filename ? filename : "address unknown");
		vms_text_clean(where);
		g_set_error(error, VMS_ERROR, VMS_ERROR_BUSY,
			    "%s: this QEMU has a gdb stub already (%s), which serves one client; "
			    "use --gdb with its address, or remove it by `gdbserver none`",
			    qemu->qmp.stream.peer, where);
		return false;
	}
	struct vms_owner owner;
	if (!vms_owner_parse(label, &owner))
		return true;
	switch (vms_owner_state(&owner)) {
	case VMS_OWNER_DEAD: return vms_qemu_remove_server(qemu, label, error);
	case VMS_OWNER_OURS:
	case VMS_OWNER_ALIVE:
		g_set_error(error, VMS_ERROR, VMS_ERROR_BUSY,
			    "%s: process %d is looking at this machine already",
			    qemu->qmp.stream.peer, (int)owner.pid);
		return false;
	case VMS_OWNER_UNKNOWN:
	default:
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_BUSY,
			"%s: a vmscope in another container seems to be looking at this machine; "
			"if there is none, `gdbserver none` in QEMU's monitor removes what it left",
			qemu->qmp.stream.peer);
		return false;
	}
}

static bool check_free(struct vms_qemu *qemu, GError **error)
{
	vms_autojson *chardevs = vms_qmp_execute(&qemu->qmp, "query-chardev", NULL, -1, error);
	if (!chardevs)
		return false;
	if (!json_object_is_type(chardevs, json_type_array))
		return true;
	for (size_t i = 0; i < json_object_array_length(chardevs); i++) {
		struct json_object *chardev = json_object_array_get_idx(chardevs, i);
		const char *label = vms_json_string(chardev, "label");
		if (label &&
		    !check_chardev(qemu, label, vms_json_string(chardev, "filename"), error))
			return false;
	}
	return true;
}

/* Adds a socket chardev. Takes `data` over. */
static bool add_chardev(struct vms_qemu *qemu, const char *label, struct json_object *data,
			GError **error)
{
	struct json_object *backend = object_with("type", json_object_new_string("socket"));
	json_object_object_add(backend, "data", data);
	struct json_object *arguments = object_with("id", json_object_new_string(label));
	json_object_object_add(arguments, "backend", backend);
	vms_autojson *added = vms_qmp_execute(&qemu->qmp, "chardev-add", arguments, -1, error);
	return added != NULL;
}

/* {"addr": {"type": TYPE, "data": DATA}, "server": SERVER}; takes `data` over. */
static struct json_object *socket_data(const char *type, struct json_object *data, bool server)
{
	struct json_object *address = object_with("type", json_object_new_string(type));
	json_object_object_add(address, "data", data);
	struct json_object *socket = object_with("addr", address);
	json_object_object_add(socket, "server", json_object_new_boolean(server));
	if (server)
		json_object_object_add(socket, "wait", json_object_new_boolean(false));
	return socket;
}

/* Makes one end of a socket pair the chardev `label`. Returns the other end, or -1. */
static int add_socket_pair(struct vms_qemu *qemu, const char *label, GError **error)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
			    "cannot make a socket pair for QEMU's gdb stub: %s", g_strerror(errno));
		return -1;
	}
	struct json_object *name = json_object_new_string(label);
	vms_autojson *passed = vms_qmp_execute(
		&qemu->qmp, "getfd", object_with("fdname", json_object_get(name)), ends[1], error);
	close(ends[1]);
	struct json_object *data = socket_data("fd", object_with("str", name), false);
	bool added = passed && add_chardev(qemu, label, json_object_get(data), error);
	json_object_put(data);
	if (added)
		return ends[0];
	close(ends[0]);
	vms_qemu_close_descriptor(qemu, label);
	return -1;
}

/* Finds the port that QEMU chose. query-chardev has "disconnected:tcp:127.0.0.1:41234,server=on".
 */
static bool find_port(struct vms_qemu *qemu, const char *label, uint64_t *ret)
{
	vms_autojson *chardevs = vms_qmp_execute(&qemu->qmp, "query-chardev", NULL, -1, NULL);
	if (!json_object_is_type(chardevs, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(chardevs); i++) {
		struct json_object *chardev = json_object_array_get_idx(chardevs, i);
		const char *filename = vms_json_string(chardev, "filename");
		if (!filename || g_strcmp0(vms_json_string(chardev, "label"), label) != 0)
			continue;
		g_autofree char *address = g_strndup(filename, strcspn(filename, ","));
		const char *colon = strrchr(address, ':');
		return colon &&
		       g_ascii_string_to_unsigned(colon + 1, 10, 1, G_MAXUINT16, ret, NULL);
	}
	return false;
}

/*
 * Makes a chardev that listens on QMP's host, on a new port, and connects to it. This is for QMP
 * over TCP, which cannot pass file descriptors.
 */
static bool add_listener(struct vms_qemu_stub *stub, const char *label, GError **error)
{
	const struct vms_stream *qmp = &stub->qemu.qmp.stream;
	char host[NI_MAXHOST];
	uint64_t port;
	if (getnameinfo((const struct sockaddr *)&qmp->address, qmp->address_size, host,
			sizeof(host), NULL, 0, NI_NUMERICHOST) != 0)
		return false;
	struct json_object *address = object_with("host", json_object_new_string(host));
	json_object_object_add(address, "port", json_object_new_string("0"));
	if (!add_chardev(&stub->qemu, label, socket_data("inet", address, true), error))
		return false;
	if (!find_port(&stub->qemu, label, &port)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
			    "%s: QEMU does not tell where its gdb stub listens", qmp->peer);
		return false;
	}
	g_autofree char *where = g_strdup_printf("[%s]:%u", host, (unsigned)port);
	return vms_stream_connect(&stub->gdb.stream, "gdb stub", where, error);
}

/* Adds the chardev `label`, and connects `gdb.stream` to it. */
static bool connect_chardev(struct vms_qemu_stub *stub, const char *label, GError **error)
{
	if (stub->qemu.qmp.stream.address.ss_family != AF_UNIX)
		return add_listener(stub, label, error);
	int fd = add_socket_pair(&stub->qemu, label, error);
	if (fd < 0)
		return false;
	vms_stream_init(&stub->gdb.stream, fd,
			g_strdup_printf("gdb stub of %s", stub->qemu.qmp.stream.peer));
	return true;
}

/*
 * True if the last stop that QEMU told of before its answer is not from before the request. That is
 * exact but for an owner's `stop` that QEMU does while the request is under way (docs/safety.md).
 * Times of QEMU's events are those of its host's clock.
 */
static bool has_stopped_since(const struct vms_qemu *qemu, const struct vms_qmp_command *command,
			      int64_t requested_us, int64_t last_stop_us)
{
	return command->last_stop_us != last_stop_us &&
	       (!qemu->process.pid || command->last_stop_us >= requested_us);
}

bool vms_qemu_stop_by(struct vms_qemu_stub *stub, struct vms_qmp_command *command, bool *stopped,
		      GError **error)
{
	struct vms_qemu *qemu = &stub->qemu;
	struct vms_hold *hold = vms_watchdog_hold(stub->watchdog);
	vms_qmp_poll(&qemu->qmp);
	int64_t last_stop_us = qemu->qmp.last_stop_us;
	int64_t requested_us = g_get_real_time();
	vms_hold_note_request(hold, requested_us);
	bool done = vms_qmp_execute_all(&qemu->qmp, command, 1, error);
	/* Without an answer the machine may have stopped, or may still do so, if it ran before. */
	*stopped = done ? has_stopped_since(qemu, command, requested_us, last_stop_us)
			: vms_hold_may_be_ours(vms_hold_phase(atomic_load(&hold->word)));
	if (done)
		vms_hold_note_answer(hold);
	return done;
}

bool vms_qemu_refuse_hold(const struct vms_qemu *qemu, const struct vms_qemu_condition *now,
			  GError **error)
{
	if (*now->busy)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_NOW,
			    "cannot hold %s while %s is under way: try again when that is over",
			    qemu->machine.info.name, now->busy);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_NOW,
			    "cannot hold %s in state %s: try again when that is over",
			    qemu->machine.info.name, vms_run_state_name(now->state));
	return false;
}

/* Notes that what QEMU has told so far came before the stop that is to be undone. */
static void note_all_before(struct vms_qemu_stub *stub)
{
	vms_qmp_poll(&stub->qemu.qmp);
	stub->resumes = stub->qemu.qmp.resumes;
	stub->guest_stops = stub->qemu.qmp.undone_stops;
}

void vms_qemu_begin_requests(struct vms_qemu_stub *stub, bool is_running)
{
	if (is_running)
		vms_watchdog_begin_stop(stub->watchdog, stub->qemu.machine.hold_limit_ns);
	else
		vms_hold_begin(vms_watchdog_hold(stub->watchdog), VMS_HOLD_LOOKING, 0, 0);
}

/*
 * Starts the stub. Its client is connected already, so this stops the machine if it runs; QEMU
 * tells of that stop before it answers. Queries go before, whose answers come after all older
 * events; what was asked before the preparations may have changed. Sets *resumes to what had been
 * counted at the answer.
 */
static bool start_stub(struct vms_qemu_stub *stub, bool *stopped, uint64_t *resumes, GError **error)
{
	struct vms_qemu *qemu = &stub->qemu;
	g_autofree char *line = g_strdup_printf("gdbserver chardev:%s", stub->label);
	struct vms_hold *hold = vms_watchdog_hold(stub->watchdog);
	struct vms_qemu_condition now;
	if (!vms_qemu_ask_condition(qemu, &now, error))
		return false;
	if (*now.busy)
		return vms_qemu_refuse_hold(qemu, &now, error);
	const bool is_looking = vms_hold_phase(atomic_load(&hold->word)) == VMS_HOLD_LOOKING;
	/* From here on the machine may stand still by our stop. */
	vms_qemu_begin_requests(stub, now.state == VMS_RUN_RUNNING);
	if (is_looking && now.state == VMS_RUN_RUNNING)
		note_all_before(stub);
	struct vms_qmp_command command = {
		.name = "human-monitor-command",
		.arguments = object_with("command-line", json_object_new_string(line)),
	};
	if (!vms_qemu_stop_by(stub, &command, stopped, error))
		return false;
	vms_autojson *text = command.answer;
	*resumes = command.resumes;
	if (*stopped)
		vms_hold_change(hold, VMS_HOLD_LOOKING, VMS_HOLD_HELD);
	else if (is_looking)
		vms_hold_change(hold, VMS_HOLD_HELD, VMS_HOLD_LOOKING);
	if (strstr(json_object_get_string(text), "Waiting for gdb connection"))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED, "%s: QEMU refused `%s`",
		    qemu->qmp.stream.peer, line);
	return false;
}

bool vms_qemu_add_stub(struct vms_qemu_stub *stub, bool *stopped, GError **error)
{
	*stopped = false;
	if (!check_free(&stub->qemu, error))
		return false;
	atomic_store(&vms_watchdog_hold(stub->watchdog)->stub, true);
	stub->connected = true;
	stub->gdb =
		(struct vms_gdb) { .interrupts = true, .hold = vms_watchdog_hold(stub->watchdog) };
	if (!connect_chardev(stub, stub->label, error))
		return false;
	stub->gdb.stream.give_up_ns = &stub->qemu.machine.give_up_ns;
	uint64_t resumes = 0;
	if (!start_stub(stub, stopped, &resumes, error) || !vms_gdb_open(&stub->gdb, error))
		return false;
	vms_qmp_poll(&stub->qemu.qmp);
	/* The owner has resumed the machine since. A request may have stopped it once more. */
	if (stub->qemu.qmp.resumes != resumes)
		*stopped = false;
	*stopped |= stub->gdb.stopped_by_request;
	stub->gdb.stopped_by_request = false;
	return true;
}

/*
 * Notes a stop by a request that was given up. It came after all that QEMU had done before, so that
 * it is owed from now on.
 */
static void note_late_stop(struct vms_qemu_stub *stub)
{
	if (!stub->gdb.stream.peer || !vms_gdb_told_late_stop(&stub->gdb))
		return;
	note_all_before(stub);
	vms_hold_change(vms_watchdog_hold(stub->watchdog), VMS_HOLD_LOOKING, VMS_HOLD_OWED);
}

bool vms_qemu_remove_stub(struct vms_qemu_stub *stub, GError **error)
{
	if (!stub->connected)
		return true;
	/* What was asked of one that failed may be carried out until QEMU says that it is gone. */
	const bool failed = stub->gdb.broken;
	if (!failed)
		vms_gdb_close(&stub->gdb);
	if (!vms_qemu_remove_server(&stub->qemu, stub->label, error))
		return false;
	if (failed) {
		note_late_stop(stub);
		vms_gdb_close(&stub->gdb);
	}
	stub->connected = false;
	atomic_store(&vms_watchdog_hold(stub->watchdog)->stub, false);
	return true;
}

bool vms_qemu_clear_breakpoints(struct vms_qemu *qemu, const char *label, struct vms_hold *hold,
				bool *stopped, GError **error)
{
	const uint64_t last_thread = MIN(atomic_load(&hold->last_thread), VMS_GDB_THREADS_MAX);
	struct vms_gdb gdb = { .interrupts = true };
	enum vms_run_state state;
	g_autofree char *device = g_strdup_printf("chardev:%s", label);
	if (!vms_qemu_ask_state(qemu, &state, error))
		return false;
	const int fd = add_socket_pair(qemu, label, error);
	if (fd < 0)
		return false;
	*stopped = state == VMS_RUN_RUNNING;
	/* If this process is killed, too, the next one undoes the stop. */
	if (*stopped)
		vms_hold_change_unheld(hold, VMS_HOLD_HELD);
	atomic_store(&hold->stub, true);
	const bool is_ours = *stopped || (state == VMS_RUN_DEBUG && vms_hold_owns_hits(hold));
	vms_stream_init(&gdb.stream, fd, g_strdup_printf("gdb stub of %s", qemu->qmp.stream.peer));
	gdb.payload = g_string_new(NULL);
	bool done = run_gdbserver(qemu, device, "Waiting for gdb connection", error) &&
		    vms_gdb_clear_points(&gdb, last_thread, error) &&
		    (!is_ours || !atomic_load(&hold->is_stepping) ||
		     vms_gdb_end_lost_steps(&gdb, last_thread, error));
	*stopped |= gdb.stopped_by_request;
	vms_gdb_close(&gdb);
	return vms_qemu_remove_server(qemu, label, done ? error : NULL) && done;
}
