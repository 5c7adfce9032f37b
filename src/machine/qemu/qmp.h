/* SPDX-License-Identifier: MIT */
/*
 * A QMP client: QEMU's machine protocol, one JSON object per message
 * (https://www.qemu.org/docs/master/interop/qmp-spec.html). Any thread may execute commands, one at
 * a time. What events have told is there for everybody at once, whoever read them.
 */
#pragma once

#include "base/stream.h"
#include "machine/qemu/pauses.h"
#include <json-c/json.h>
#include <stdatomic.h>

/* No message is longer, in bytes: `info mtree` of a machine with hundreds of devices is 1 MiB. */
#define VMS_QMP_MESSAGE_MAX (16U << 20)
/* A monitor that is free greets at once; one that serves another client is silent. */
#define VMS_QMP_GREETING_MS 2000

/* A command, and what it returned. */
struct vms_qmp_command {
	const char *name;
	struct json_object *arguments; /* taken over; or NULL */
	struct json_object *answer;    /* set when it succeeded, to be put */
	uint64_t stops;		       /* set: of the counts below, when it was answered */
};

struct vms_qmp {
	GMutex lock; /* guards the stream, all up to `events`, and the pauses */
	struct vms_stream stream;
	struct json_tokener *tokener;
	size_t message_size; /* bytes of the message that is being read */
	uint64_t id;	     /* of the last command */
	char *version;	     /* "10.0.2 (Debian …)" */
	atomic_bool broken;  /* after an error that leaves the stream out of step */

	/* What events have told since the connection was opened. */
	atomic_bool running; /* set from query-status by vms_qmp_open */
	atomic_bool has_shut_down;
	_Atomic uint64_t stops, resumes, resets; /* events seen */
	_Atomic uint64_t jobs;			 /* and those that a job has begun, or ended */
	_Atomic uint64_t
		guest_stops; /* events of what stops a running machine, see vms_event_stops */
	struct vms_pauses pauses;
};

/*
 * Reads the greeting from the connected `qmp->stream`, and enters command mode.
 * Errors: BUSY (no greeting), PROTOCOL, TIMEOUT, CLOSED. To be closed in any case.
 */
bool vms_qmp_open(struct vms_qmp *qmp, GError **error);
void vms_qmp_close(struct vms_qmp *qmp);

/*
 * Executes a command and returns what it returns. `arguments` (or NULL) is
 * taken over. `fd`, unless -1, is passed along. Errors: UNSUPPORTED with QEMU's
 * words when QEMU refuses, PROTOCOL, CLOSED, and TIMEOUT: QEMU may still execute it; other
 * commands may be tried.
 */
struct json_object *vms_qmp_execute(struct vms_qmp *qmp, const char *command,
				    struct json_object *arguments, int fd, GError **error);
/*
 * Executes `n` commands, all sent before any is answered. False when one fails, with its error; the
 * answers of others are there all the same.
 */
bool vms_qmp_execute_all(struct vms_qmp *qmp, struct vms_qmp_command *commands, size_t n,
			 GError **error);
/* A command of the human monitor; its text, newly allocated, fit for a terminal. */
char *vms_qmp_hmp(struct vms_qmp *qmp, const char *command_line, GError **error);
/* The same for a command about one vCPU. */
char *vms_qmp_hmp_vcpu(struct vms_qmp *qmp, const char *command_line, unsigned vcpu,
		       GError **error);
/*
 * Takes note of events that have arrived, without waiting: where another thread executes a command,
 * it is that one that reads them. False when the connection broke.
 */
bool vms_qmp_poll(struct vms_qmp *qmp);
/* For how long the machine had stood still at `time_ns`, as far as events have told. */
uint64_t vms_qmp_paused_ns(struct vms_qmp *qmp, uint64_t time_ns);

/* Members of an object; NULL, or false, when missing or of another type. */
const char *vms_json_string(struct json_object *object, const char *key);
bool vms_json_bool(struct json_object *object, const char *key, bool *ret);
bool vms_json_uint(struct json_object *object, const char *key, uint64_t max, uint64_t *ret);

static inline void vms_json_clear(struct json_object **object)
{
	if (*object)
		json_object_put(*object);
}
/* An owned local JSON object. */
#define vms_autojson __attribute__((cleanup(vms_json_clear))) struct json_object
