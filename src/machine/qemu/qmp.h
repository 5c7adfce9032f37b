/* SPDX-License-Identifier: MIT */
/*
 * A QMP client: QEMU's machine protocol, one JSON object per message
 * (https://www.qemu.org/docs/master/interop/qmp-spec.html). Any thread may execute commands; they
 * are executed one at a time. What events tell can be read by all threads, whichever has received
 * them.
 */
#pragma once

#include "base/stream.h"
#include "machine/qemu/pause_times.h"
#include <json-c/json.h>
#include <stdatomic.h>

/* The longest message, in bytes. `info mtree` of a machine with hundreds of devices has 1 MiB. */
#define VMS_QMP_MESSAGE_MAX (16U << 20)
/* How long to wait for the greeting. A free monitor greets at once, one in use does not greet. */
#define VMS_QMP_GREETING_MS 2000

/* A command and its answer. */
struct vms_qmp_command {
	const char *name;
	struct json_object *arguments; /* taken over; or NULL */
	struct json_object *answer;    /* set if it succeeded; the caller puts it */
	/* What events had told when the answer came: QEMU tells all in the order of its doing. */
	uint64_t resumes;
	int64_t last_stop_us;
};

struct vms_qmp {
	GMutex lock; /* guards the stream, all up to `events`, and the pauses */
	struct vms_stream stream;
	struct json_tokener *tokener;
	size_t message_size; /* bytes of the message that is being read */
	uint64_t id;	     /* of the last command; see vms_qmp_open */
	char *version;	     /* "10.0.2 (Debian …)" */
	atomic_bool broken;  /* answers cannot be told from each other any more */
	/* The command of vms_qmp_ask. */
	uint64_t asked_id;	    /* 0: it was answered, or there was none */
	struct json_object *answer; /* NULL: it has not come, or was taken */

	/* What events have told since the connection was opened. */
	atomic_bool running; /* vms_qmp_open takes the first value from query-status */
	atomic_bool has_shut_down;
	_Atomic uint64_t stops, resumes, resets; /* events seen */
	_Atomic uint64_t jobs;			 /* events of jobs that begin or end */
	_Atomic uint64_t memory_changes;	 /* events after which there may be other memory */
	_Atomic int64_t last_stop_us, last_resume_us; /* by QEMU's wall clock; 0: never */
	_Atomic int64_t *_Atomic tell_resume_us; /* gets the time of every resume, too; NULL: not */
	_Atomic uint64_t guest_stops;		 /* events for which vms_event_stops is true */
	_Atomic uint64_t undone_stops;		 /* guest_stops at the last resume */
	struct vms_pauses pauses;
};

/*
 * Reads the greeting from the connected `qmp->stream`, and enters command mode. QEMU may send us
 * what a client before us has asked for, if that was killed. So the caller sets `qmp->id` to a
 * number that no other client begins at.
 * The caller closes it even if this fails. Errors: BUSY (no greeting), PROTOCOL, TIMEOUT, CLOSED.
 */
bool vms_qmp_open(struct vms_qmp *qmp, GError **error);
void vms_qmp_close(struct vms_qmp *qmp);

/*
 * Executes a command and returns its answer. Takes `arguments` (or NULL) over. Sends the descriptor
 * `fd` along, unless that is -1. Errors: UNSUPPORTED (QEMU refuses; the message has QEMU's words),
 * PROTOCOL, CLOSED, TIMEOUT. After a TIMEOUT QEMU may still execute the command, and other commands
 * may be tried.
 */
struct json_object *vms_qmp_execute(struct vms_qmp *qmp, const char *command,
				    struct json_object *arguments, int fd, GError **error);
/*
 * Executes `n` commands. All are sent before the first answer is received. If any command fails, it
 * gives false and the first error; the answers to the others are set all the same.
 */
bool vms_qmp_execute_all(struct vms_qmp *qmp, struct vms_qmp_command *commands, size_t n,
			 GError **error);
/*
 * Sends a command whose answer nobody waits for: whoever polls or executes something notes it when
 * it has come. There is one at a time: an earlier one is forgotten. False if it was not sent, also
 * because another thread executes something.
 */
bool vms_qmp_ask(struct vms_qmp *qmp, const char *command);
/*
 * Gives the answer to it, once, which the caller puts. NULL: it has not come, QEMU has
 * refused the command, or another thread executes something.
 */
struct json_object *vms_qmp_take_answer(struct vms_qmp *qmp);
/* Runs a command of the human monitor. Returns its text, newly allocated, fit for a terminal. */
char *vms_qmp_hmp(struct vms_qmp *qmp, const char *command_line, GError **error);
/*
 * Runs `n` commands of the human monitor; all are sent before the first answer is received.
 * texts[i] becomes the text as above, or NULL if it failed.
 */
void vms_qmp_hmp_all(struct vms_qmp *qmp, char *const *command_lines, size_t n, char **texts);
/* Runs a command of the human monitor about one vCPU. */
char *vms_qmp_hmp_vcpu(struct vms_qmp *qmp, const char *command_line, unsigned vcpu,
		       GError **error);
/*
 * Notes events that have arrived, without waiting. While another thread executes a command, that
 * thread notes them instead. False if the connection is broken.
 */
bool vms_qmp_poll(struct vms_qmp *qmp);
/* How long, in ns, the machine had stood still at `time_ns`, as far as events have told. */
uint64_t vms_qmp_paused_ns(struct vms_qmp *qmp, uint64_t time_ns);

/* Give a member of an object; NULL or false if it is missing or of another type. */
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
