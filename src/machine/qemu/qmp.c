/* SPDX-License-Identifier: MIT */
#include "machine/qemu/qmp.h"

#include "base/clock.h"
#include "base/text.h"
#include "machine/host/connection.h"
#include "machine/qemu/run_state.h"
#include <string.h>
#include <vmscope/error.h>
#include <vmscope/log.h>

/* How deep a message may be nested. No answer that is used here is as deep. */
#define JSON_DEPTH_MAX 32

const char *vms_json_string(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;
	if (!json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, json_type_string))
		return NULL;
	return json_object_get_string(value);
}

bool vms_json_bool(struct json_object *object, const char *key, bool *ret)
{
	struct json_object *value = NULL;
	if (!json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, json_type_boolean))
		return false;
	*ret = json_object_get_boolean(value);
	return true;
}

bool vms_json_uint(struct json_object *object, const char *key, uint64_t max, uint64_t *ret)
{
	struct json_object *value = NULL;
	if (!json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, json_type_int))
		return false;
	int64_t number = json_object_get_int64(value);
	if (number < 0 || (uint64_t)number > max)
		return false;
	*ret = (uint64_t)number;
	return true;
}

/* Sets an error after which the connection cannot be used any more. Returns false. */
static bool fail_connection(struct vms_qmp *qmp, enum vms_error code, const char *what,
			    GError **error)
{
	qmp->broken = true;
	g_set_error(error, VMS_ERROR, code, "%s: %s", qmp->stream.peer, what);
	return false;
}

/* Feeds the unread bytes to the tokener. *ret is a message, or NULL if it is not complete yet. */
static bool parse_unread(struct vms_qmp *qmp, struct json_object **ret, GError **error)
{
	struct vms_stream *stream = &qmp->stream;
	size_t unread = vms_stream_unread(stream);
	*ret = json_tokener_parse_ex(qmp->tokener, (const char *)stream->buffer + stream->start,
				     (int)unread);
	enum json_tokener_error outcome = json_tokener_get_error(qmp->tokener);
	size_t used = MIN(json_tokener_get_parse_end(qmp->tokener), unread);
	stream->start += used;
	qmp->message_size += used;
	if (outcome == json_tokener_continue && qmp->message_size <= VMS_QMP_MESSAGE_MAX)
		return true;
	if (outcome == json_tokener_success && json_object_is_type(*ret, json_type_object)) {
		qmp->message_size = 0;
		return true;
	}
	json_object_put(g_steal_pointer(ret));
	if (outcome == json_tokener_continue)
		return fail_connection(qmp, VMS_ERROR_PROTOCOL,
				       "it sent a message longer than 16 MiB", error);
	return fail_connection(qmp, VMS_ERROR_PROTOCOL,
			       "it sent something that is not QMP; is this address a QMP socket?",
			       error);
}

/* Receives a message. With deadline 0 it does not wait, and it is no error if there is none. */
static bool receive_message(struct vms_qmp *qmp, uint64_t deadline_ns, struct json_object **ret,
			    GError **error)
{
	*ret = NULL;
	while (!*ret) {
		GError *failure = NULL;
		if (!vms_stream_fill(&qmp->stream, deadline_ns, &failure)) {
			/* The connection survives a timeout: a late answer is known by its id. */
			qmp->broken |= !g_error_matches(failure, VMS_ERROR, VMS_ERROR_TIMEOUT);
			g_propagate_error(error, failure);
			return false;
		}
		if (vms_stream_unread(&qmp->stream) == 0)
			return true;
		/*
		 * A peer that sends without end must not keep this loop running. What it has sent
		 * is left for the next call.
		 */
		if (deadline_ns && vms_clock_now_ns() > deadline_ns) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT, "%s: no answer in time",
				    qmp->stream.peer);
			return false;
		}
		if (!parse_unread(qmp, ret, error))
			return false;
	}
	return true;
}

/* The time of an event by QEMU's wall clock, in us; 0: it does not tell. */
static int64_t event_stamp_us(struct json_object *message)
{
	struct json_object *stamp = json_object_object_get(message, "timestamp");
	uint64_t seconds, microseconds;
	if (!stamp || !vms_json_uint(stamp, "seconds", G_MAXINT32 * UINT64_C(4), &seconds) ||
	    !vms_json_uint(stamp, "microseconds", G_USEC_PER_SEC - 1, &microseconds))
		return 0;
	return (int64_t)(seconds * G_USEC_PER_SEC + microseconds);
}

/* The time of an event, in ns of CLOCK_MONOTONIC; now, where it is not known. */
static uint64_t event_time_ns(struct json_object *message)
{
	uint64_t now_ns = vms_clock_now_ns();
	int64_t stamp_us = event_stamp_us(message);
	int64_t ago_us = stamp_us ? g_get_real_time() - stamp_us : 0;
	return ago_us > 0 && (uint64_t)ago_us * 1000 < now_ns ? now_ns - (uint64_t)ago_us * 1000
							      : now_ns;
}

/*
 * Does it follow that the guest may have other memory? The guest has dealt with a plugged device
 * (QEMU sends nothing when one is plugged), has given one back, or has changed the size of its
 * virtio-mem.
 */
static bool is_about_memory(const char *event)
{
	return strcmp(event, "ACPI_DEVICE_OST") == 0 || strcmp(event, "DEVICE_DELETED") == 0 ||
	       strcmp(event, "MEMORY_DEVICE_SIZE_CHANGE") == 0;
}

static void note_event(struct vms_qmp *qmp, const char *event, struct json_object *message)
{
	if (strcmp(event, "STOP") == 0) {
		qmp->last_stop_us = event_stamp_us(message);
		qmp->stops++;
		qmp->running = false;
		vms_pauses_begin(&qmp->pauses, event_time_ns(message));
	} else if (strcmp(event, "RESUME") == 0) {
		qmp->last_resume_us = event_stamp_us(message);
		if (qmp->tell_resume_us)
			atomic_store(qmp->tell_resume_us, qmp->last_resume_us);
		qmp->resumes++;
		qmp->undone_stops = qmp->guest_stops;
		qmp->running = true;
		vms_pauses_end(&qmp->pauses, event_time_ns(message));
	} else if (strcmp(event, "SUSPEND") == 0) {
		qmp->running = false;
	} else if (strcmp(event, "WAKEUP") == 0) {
		qmp->running = true;
	} else if (strcmp(event, "RESET") == 0) {
		qmp->resets++;
	} else if (strcmp(event, "JOB_STATUS_CHANGE") == 0) {
		qmp->jobs++;
	} else if (strcmp(event, "SHUTDOWN") == 0) {
		qmp->has_shut_down = true;
	} else if (is_about_memory(event)) {
		qmp->memory_changes++;
	}
	if (vms_event_stops(event,
			    vms_json_string(json_object_object_get(message, "data"), "action")))
		qmp->guest_stops++;
}

/* Sends a command with the next id. */
static bool send_command(struct vms_qmp *qmp, const struct vms_qmp_command *command, int fd,
			 uint64_t deadline_ns, GError **error)
{
	vms_autojson *request = json_object_new_object();
	json_object_object_add(request, "execute", json_object_new_string(command->name));
	if (command->arguments)
		json_object_object_add(request, "arguments", command->arguments);
	json_object_object_add(request, "id", json_object_new_int64((int64_t)++qmp->id));
	if (qmp->broken)
		return fail_connection(qmp, VMS_ERROR_CLOSED,
				       "the connection is closed: QEMU has ended, or hung up",
				       error);
	g_autofree char *line = g_strconcat(
		json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN), "\n", NULL);
	bool sent = vms_stream_write(&qmp->stream, line, strlen(line), fd, deadline_ns, error);
	qmp->broken |= !sent;
	return sent;
}

/* Takes the result from an answer. NULL, with QEMU's words as the error, if QEMU refused. */
static struct json_object *take_answer(struct vms_qmp *qmp, const char *command,
				       struct json_object *message, GError **error)
{
	struct json_object *value = NULL;
	if (json_object_object_get_ex(message, "return", &value) && value)
		return json_object_get(value);
	if (json_object_object_get_ex(message, "error", &value)) {
		const char *words = vms_json_string(value, "desc");
		g_autofree char *text = g_strdup(words ? words : "no reason given");
		vms_text_clean(text);
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED, "%s: QEMU refused %s: %s",
			    qmp->stream.peer, command, text);
		return NULL;
	}
	fail_connection(qmp, VMS_ERROR_PROTOCOL, "an answer has neither a result nor an error",
			error);
	return NULL;
}

/* Notes a message that nobody waits for: an event, or the answer to vms_qmp_ask. */
static void note_message(struct vms_qmp *qmp, struct json_object *message)
{
	const char *event = vms_json_string(message, "event");
	uint64_t id;
	if (event) {
		note_event(qmp, event, message);
	} else if (qmp->asked_id && vms_json_uint(message, "id", G_MAXINT64, &id) &&
		   id == qmp->asked_id) {
		qmp->asked_id = 0;
		qmp->answer = json_object_get(json_object_object_get(message, "return"));
	}
}

/* Waits for the answer to the command `id`, and notes what comes before it. */
static struct json_object *receive_answer(struct vms_qmp *qmp, const char *command, uint64_t id,
					  uint64_t deadline_ns, GError **error)
{
	for (;;) {
		vms_autojson *message = NULL;
		uint64_t of;
		if (!receive_message(qmp, deadline_ns, &message, error))
			return NULL;
		if (vms_json_uint(message, "id", G_MAXINT64, &of) && of == id)
			return take_answer(qmp, command, message, error);
		note_message(qmp, message);
	}
}

/* Executes commands. Sends `fd` along with the first one, unless that is -1. */
static bool execute_commands(struct vms_qmp *qmp, struct vms_qmp_command *commands, size_t n,
			     int fd, GError **error)
{
	g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&qmp->lock);
	uint64_t deadline_ns = vms_stream_deadline(&qmp->stream), first = qmp->id + 1;
	size_t sent = 0;
	bool done = true;
	(void)locker;
	for (; sent < n && done; sent++)
		done = send_command(qmp, &commands[sent], sent == 0 ? fd : -1, deadline_ns, error);
	for (size_t i = sent; i < n; i++)
		json_object_put(commands[i].arguments);
	if (!done)
		return false;
	for (size_t i = 0; i < n && !qmp->broken; i++) {
		commands[i].answer = receive_answer(qmp, commands[i].name, first + i, deadline_ns,
						    done ? error : NULL);
		commands[i].resumes = qmp->resumes;
		commands[i].last_stop_us = qmp->last_stop_us;
		done &= commands[i].answer != NULL;
	}
	return done;
}

struct json_object *vms_qmp_execute(struct vms_qmp *qmp, const char *name,
				    struct json_object *arguments, int fd, GError **error)
{
	struct vms_qmp_command command = { .name = name, .arguments = arguments };
	execute_commands(qmp, &command, 1, fd, error);
	return command.answer;
}

bool vms_qmp_execute_all(struct vms_qmp *qmp, struct vms_qmp_command *commands, size_t n,
			 GError **error)
{
	return execute_commands(qmp, commands, n, -1, error);
}

/* Notes what has arrived, without waiting. */
static void receive_arrived(struct vms_qmp *qmp)
{
	const uint64_t deadline_ns = vms_stream_deadline(&qmp->stream);
	while (!qmp->broken && vms_clock_now_ns() < deadline_ns) {
		vms_autojson *message = NULL;
		if (!receive_message(qmp, 0, &message, NULL) || !message)
			break;
		note_message(qmp, message);
	}
}

bool vms_qmp_poll(struct vms_qmp *qmp)
{
	if (g_mutex_trylock(&qmp->lock)) {
		receive_arrived(qmp);
		g_mutex_unlock(&qmp->lock);
	}
	return !qmp->broken;
}

bool vms_qmp_ask(struct vms_qmp *qmp, const char *name)
{
	const struct vms_qmp_command command = { .name = name };
	if (!g_mutex_trylock(&qmp->lock))
		return false;
	g_clear_pointer(&qmp->answer, json_object_put);
	const bool sent = send_command(qmp, &command, -1, vms_stream_deadline(&qmp->stream), NULL);
	qmp->asked_id = sent ? qmp->id : 0;
	g_mutex_unlock(&qmp->lock);
	return sent;
}

struct json_object *vms_qmp_take_answer(struct vms_qmp *qmp)
{
	struct json_object *answer = NULL;
	if (!g_mutex_trylock(&qmp->lock))
		return NULL;
	receive_arrived(qmp);
	answer = g_steal_pointer(&qmp->answer);
	g_mutex_unlock(&qmp->lock);
	return answer;
}

/* `vcpu` -1: the command is about the monitor's current vCPU. */
static struct vms_qmp_command hmp_command(const char *command_line, int vcpu)
{
	struct json_object *arguments = json_object_new_object();
	json_object_object_add(arguments, "command-line", json_object_new_string(command_line));
	if (vcpu >= 0)
		json_object_object_add(arguments, "cpu-index", json_object_new_int(vcpu));
	return (struct vms_qmp_command) { .name = "human-monitor-command", .arguments = arguments };
}

/* Takes the text from an answer; NULL: there is no answer, or no text in it. */
static char *take_hmp_text(struct vms_qmp *qmp, struct vms_qmp_command *command, GError **error)
{
	vms_autojson *answer = g_steal_pointer(&command->answer);
	if (!answer)
		return NULL;
	if (!json_object_is_type(answer, json_type_string)) {
		fail_connection(qmp, VMS_ERROR_PROTOCOL, "the human monitor's answer is not text",
				error);
		return NULL;
	}
	return vms_text_clean_lines(json_object_get_string(answer));
}

static char *run_hmp(struct vms_qmp *qmp, const char *command_line, int vcpu, GError **error)
{
	struct vms_qmp_command command = hmp_command(command_line, vcpu);
	execute_commands(qmp, &command, 1, -1, error);
	return take_hmp_text(qmp, &command, error);
}

void vms_qmp_hmp_all(struct vms_qmp *qmp, char *const *command_lines, size_t n, char **texts)
{
	g_autofree struct vms_qmp_command *commands = g_new(struct vms_qmp_command, n);
	for (size_t i = 0; i < n; i++)
		commands[i] = hmp_command(command_lines[i], -1);
	execute_commands(qmp, commands, n, -1, NULL);
	for (size_t i = 0; i < n; i++)
		texts[i] = take_hmp_text(qmp, &commands[i], NULL);
}

char *vms_qmp_hmp(struct vms_qmp *qmp, const char *command_line, GError **error)
{
	return run_hmp(qmp, command_line, -1, error);
}

char *vms_qmp_hmp_vcpu(struct vms_qmp *qmp, const char *command_line, unsigned vcpu, GError **error)
{
	return run_hmp(qmp, command_line, (int)vcpu, error);
}

uint64_t vms_qmp_paused_ns(struct vms_qmp *qmp, uint64_t time_ns)
{
	vms_qmp_poll(qmp);
	g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&qmp->lock);
	(void)locker;
	return vms_pauses_until(&qmp->pauses, time_ns);
}

/* The greeting names the version: {"QMP": {"version": {"qemu": {"major": …}, "package": …}}}. */
static bool read_greeting(struct vms_qmp *qmp, struct json_object *message)
{
	struct json_object *body = NULL, *version = NULL, *numbers = NULL;
	uint64_t major, minor, micro;
	if (!json_object_object_get_ex(message, "QMP", &body) ||
	    !json_object_is_type(body, json_type_object) ||
	    !json_object_object_get_ex(body, "version", &version) ||
	    !json_object_is_type(version, json_type_object) ||
	    !json_object_object_get_ex(version, "qemu", &numbers) ||
	    !vms_json_uint(numbers, "major", G_MAXINT, &major) ||
	    !vms_json_uint(numbers, "minor", G_MAXINT, &minor) ||
	    !vms_json_uint(numbers, "micro", G_MAXINT, &micro))
		return false;
	const char *package = vms_json_string(version, "package");
	bool has_package = package && *package;
	qmp->version = g_strdup_printf("%u.%u.%u%s%s%s", (unsigned)major, (unsigned)minor,
				       (unsigned)micro, has_package ? " (" : "",
				       has_package ? package : "", has_package ? ")" : "");
	vms_text_clean(qmp->version);
	return true;
}

static void set_no_greeting(const struct vms_qmp *qmp, GError **error)
{
	static const char hint[] = "a QMP socket serves one client at a time; a guest of libvirt "
				   "needs a second -qmp";
	g_autofree char *rival = vms_host_connection_rival(qmp->stream.fd);
	if (rival)
		g_set_error(error, VMS_ERROR, VMS_ERROR_BUSY,
			    "%s does not greet: %s is using it (%s)", qmp->stream.peer, rival,
			    hint);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_BUSY,
			    "%s does not greet: QEMU hangs or is stopped, or another client is "
			    "using it (%s), or it is no QMP socket",
			    qmp->stream.peer, hint);
}

/* True if QEMU sent the message for the client before us, which has gone. */
static bool is_leftover(struct json_object *message)
{
	return json_object_object_get_ex(message, "event", NULL) ||
	       json_object_object_get_ex(message, "return", NULL) ||
	       json_object_object_get_ex(message, "error", NULL);
}

/* Waits for the first message that is not left over from the client before. */
static bool receive_first(struct vms_qmp *qmp, struct json_object **ret, GError **error)
{
	const unsigned wait_ms = MIN(qmp->stream.timeout_ms, VMS_QMP_GREETING_MS);
	const uint64_t deadline_ns = vms_clock_now_ns() + (uint64_t)wait_ms * 1000000;
	while (receive_message(qmp, deadline_ns, ret, error)) {
		if (!is_leftover(*ret))
			return true;
		g_clear_pointer(ret, json_object_put);
	}
	return false;
}

static bool receive_greeting(struct vms_qmp *qmp, GError **error)
{
	vms_autojson *greeting = NULL;
	g_autoptr(GError) failure = NULL;
	if (!receive_first(qmp, &greeting, &failure)) {
		if (!g_error_matches(failure, VMS_ERROR, VMS_ERROR_TIMEOUT)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return false;
		}
		set_no_greeting(qmp, error);
		return false;
	}
	if (!read_greeting(qmp, greeting))
		return fail_connection(
			qmp, VMS_ERROR_PROTOCOL,
			"it does not greet as QMP does; is this address a QMP socket?", error);
	return true;
}

bool vms_qmp_open(struct vms_qmp *qmp, GError **error)
{
	qmp->tokener = json_tokener_new_ex(JSON_DEPTH_MAX);
	if (!receive_greeting(qmp, error))
		return false;
	vms_autojson *ready = vms_qmp_execute(qmp, "qmp_capabilities", NULL, -1, error);
	if (!ready)
		return false;
	vms_autojson *status = vms_qmp_execute(qmp, "query-status", NULL, -1, error);
	bool running;
	if (!status)
		return false;
	if (!vms_json_bool(status, "running", &running))
		return fail_connection(qmp, VMS_ERROR_PROTOCOL,
				       "query-status does not tell the status", error);
	qmp->running = running;
	if (!running)
		vms_pauses_begin(&qmp->pauses, vms_clock_now_ns());
	return true;
}

void vms_qmp_close(struct vms_qmp *qmp)
{
	vms_stream_close(&qmp->stream);
	g_clear_pointer(&qmp->answer, json_object_put);
	g_clear_pointer(&qmp->tokener, json_tokener_free);
	g_clear_pointer(&qmp->version, g_free);
	vms_pauses_clear(&qmp->pauses);
}
