/* SPDX-License-Identifier: MIT */
#include "base/jail.h"
#include "base/clock.h"
#include "base/jail_message.h"
#include "base/sanitized.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/log.h>

#define STARTS_LIMIT 3
#define JAIL_FD	     3				/* of the jail: its socket */
#define LATEST_NS    (5 * UINT64_C(1000000000)) /* an answer, besides what its steps take */
#define SLOWNESS     10 /* how much longer than its processor time an answer may take */
#define HURRY_NS     (100 * UINT64_C(1000000))
#define REAP_MS	     100

struct vms_jail {
	struct vms_budget *budget;
	char *what;
	GMutex lock; /* held during a request; guards all that follows */
	int fd;	     /* -1: there is no process */
	pid_t pid;
	unsigned starts;
	uint64_t held; /* bytes that the process keeps */
};

struct vms_jail *vms_jail_new(struct vms_budget *budget, const char *what)
{
	if (!vms_budget_jail(budget))
		return NULL;
	struct vms_jail *jail = g_new0(struct vms_jail, 1);
	g_mutex_init(&jail->lock);
	jail->budget = vms_budget_ref(budget);
	jail->what = g_strdup(what);
	jail->fd = -1;
	return jail;
}

/* ---- the process ------------------------------------------------------- */

/* The environment of a sanitizer, which says where its reports go; nothing else is needed. */
static char **make_environment(void)
{
	GPtrArray *kept = g_ptr_array_new();
	for (char **one = environ; *one; one++)
		if (strstr(*one, "SAN_OPTIONS=") || g_str_has_prefix(*one, "LLVM_PROFILE_FILE="))
			g_ptr_array_add(kept, *one);
	g_ptr_array_add(kept, NULL);
	return (char **)g_ptr_array_free(kept, FALSE);
}

static int spawn(const char *program, int fd, pid_t *pid)
{
	char name[] = "vms-jail", argument[] = VMS_JAIL_ARGUMENT;
	char *const argv[] = { name, argument, NULL };
	g_autofree char **environment = make_environment();
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_adddup2(&actions, fd, JAIL_FD);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	/* What was taken over could write to a terminal; a sanitizer has something to say. */
	if (!VMS_IS_SANITIZED)
		posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
	/* Signals of the terminal are for the tool, which ends the jail. */
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &none);
	const int failure = posix_spawn(pid, program, &actions, &attributes, argv, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return failure;
}

static bool start_process(struct vms_jail *jail, GError **error)
{
	int ends[2] = { -1, -1 };
	if (jail->starts == STARTS_LIMIT) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED,
			    "the process that reads %s has ended %u times: it is not started again",
			    jail->what, jail->starts);
		return false;
	}
	jail->starts++;
	int failure = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ? errno : 0;
	if (!failure)
		failure = spawn(vms_budget_jail(jail->budget), ends[1], &jail->pid);
	if (ends[1] >= 0)
		close(ends[1]);
	if (!failure) {
		jail->fd = ends[0];
		return true;
	}
	if (ends[0] >= 0)
		close(ends[0]);
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot start a process to read %s: %s",
		    jail->what, g_strerror(failure));
	return false;
}

/*
 * Ends the process, and returns why it has ended, newly allocated. One that waits for a disk that
 * does not answer ends later, and is left to init.
 */
static char *end_process(struct vms_jail *jail)
{
	int status = 0;
	close(jail->fd);
	jail->fd = -1;
	const int process = (int)syscall(SYS_pidfd_open, jail->pid, 0);
	struct pollfd poller = { .fd = process, .events = POLLIN };
	const bool has_ended = process >= 0 && poll(&poller, 1, 1) > 0;
	kill(jail->pid, SIGKILL);
	if (process >= 0) {
		poll(&poller, 1, REAP_MS);
		close(process);
	}
	const bool is_reaped = waitpid(jail->pid, &status, WNOHANG) == jail->pid;
	vms_budget_give_back(jail->budget, VMS_BUDGET_BYTES, jail->held);
	jail->held = 0;
	if (is_reaped && has_ended && WIFSIGNALED(status))
		return g_strdup_printf("was ended by signal %d (%s)", WTERMSIG(status),
				       g_strsignal(WTERMSIG(status)));
	if (is_reaped && has_ended)
		return g_strdup_printf("has ended with status %d", WEXITSTATUS(status));
	return g_strdup("did not answer");
}

void vms_jail_free(struct vms_jail *jail)
{
	if (!jail)
		return;
	if (jail->fd >= 0)
		g_free(end_process(jail));
	vms_budget_unref(jail->budget);
	g_mutex_clear(&jail->lock);
	g_free(jail->what);
	g_free(jail);
}

/* ---- a request --------------------------------------------------------- */

/* A request that is being served. */
struct service_call {
	struct vms_jail *jail;
	const struct vms_jail_request *request;
	uint64_t deadline_ns;
	GByteArray *answer;
	GError **error;
	bool is_done, is_served; /* an answer came; it is no failure */
};

/* Returns when to give up; sooner once somebody waits for the end. */
static uint64_t get_deadline(const struct service_call *call)
{
	if (vms_budget_is_cancelled(call->request->budget))
		return 0;
	return vms_budget_hurries(call->request->budget)
		       ? MIN(call->deadline_ns, vms_clock_now_ns() + HURRY_NS)
		       : call->deadline_ns;
}

static int send_request(const struct service_call *call)
{
	const struct vms_jail_request *request = call->request;
	struct vms_jail_message message = {
		.kind = VMS_JAIL_REQUEST,
		.service = request->kind,
		.size = request->size,
		.n_fds = (uint32_t)request->n_fds,
		.n_sources = (uint32_t)request->n_sources,
		.steps = vms_budget_left(request->budget, VMS_BUDGET_STEPS),
		.bytes = vms_budget_left(request->budget, VMS_BUDGET_BYTES) + call->jail->held,
		.items = vms_budget_left(request->budget, VMS_BUDGET_ITEMS),
		.steps_per_ns = request->budget ? request->budget->steps_per_ns : 0,
	};
	for (size_t i = 0; i < request->n_sources; i++)
		message.source_sizes[i] = request->sources[i].size;
	return vms_jail_send(call->jail->fd, &message, request->bytes, request->fds,
			     get_deadline(call));
}

/* Sends bytes of a source that the jail asks for. */
static int serve_read(const struct service_call *call, const struct vms_jail_message *asked)
{
	const struct vms_jail_request *request = call->request;
	struct vms_jail_message message = { .kind = VMS_JAIL_BYTES };
	g_autofree uint8_t *bytes = NULL;
	if (asked->source >= request->n_sources || asked->steps > VMS_JAIL_PIECE)
		return EPROTO;
	bytes = g_malloc(asked->steps);
	message.done = vms_file_source_read(&request->sources[asked->source], asked->offset, bytes,
					    asked->steps);
	message.size = message.done ? asked->steps : 0;
	return vms_jail_send(call->jail->fd, &message, bytes, NULL, get_deadline(call));
}

/* Receives a text. It is not trusted. */
static int receive_text(const struct service_call *call, const struct vms_jail_message *message,
			char **ret)
{
	if (message->size > VMS_JAIL_PIECE)
		return EPROTO;
	g_autofree char *text = g_malloc0(message->size + 1);
	const int failure =
		vms_jail_receive_bytes(call->jail->fd, text, message->size, get_deadline(call));
	if (failure)
		return failure;
	vms_text_clean(text);
	*ret = g_steal_pointer(&text);
	return 0;
}

static int take_text(const struct service_call *call, const struct vms_jail_message *message)
{
	g_autofree char *text = NULL;
	const int failure = receive_text(call, message, &text);
	if (failure)
		return failure;
	if (message->kind == VMS_JAIL_LOSS)
		vms_budget_add_loss(call->request->budget, text);
	else
		vms_log(message->service == VMS_LOG_WARNING ? VMS_LOG_WARNING : VMS_LOG_DEBUG, "%s",
			text);
	return 0;
}

static void count_spending(const struct service_call *call, const struct vms_jail_message *message)
{
	struct vms_budget *budget = call->request->budget;
	struct vms_jail *jail = call->jail;
	const uint64_t steps = MIN(message->steps, vms_budget_left(budget, VMS_BUDGET_STEPS));
	vms_budget_step(budget, steps);
	vms_budget_take(budget, VMS_BUDGET_ITEMS,
			MIN(message->items, vms_budget_left(budget, VMS_BUDGET_ITEMS)));
	if (message->bytes < jail->held) {
		vms_budget_give_back(jail->budget, VMS_BUDGET_BYTES, jail->held - message->bytes);
		jail->held = message->bytes;
		return;
	}
	const uint64_t more =
		MIN(message->bytes - jail->held, vms_budget_left(jail->budget, VMS_BUDGET_BYTES));
	vms_budget_take(jail->budget, VMS_BUDGET_BYTES, more);
	jail->held += more;
}

static int take_answer(struct service_call *call, const struct vms_jail_message *message)
{
	count_spending(call, message);
	if (!message->done) {
		g_autofree char *text = NULL;
		const int failure = receive_text(call, message, &text);
		if (failure)
			return failure;
		call->is_done = true;
		g_set_error_literal(call->error, VMS_ERROR,
				    message->code <= VMS_ERROR_BUDGET ? (int)message->code
								      : VMS_ERROR_MALFORMED,
				    text);
		return 0;
	}
	if (message->size > VMS_JAIL_LIMIT || message->size > G_MAXUINT - call->answer->len)
		return EPROTO;
	const guint before = call->answer->len;
	g_byte_array_set_size(call->answer, before + (guint)message->size);
	const int failure = vms_jail_receive_bytes(call->jail->fd, call->answer->data + before,
						   message->size, get_deadline(call));
	if (failure)
		g_byte_array_set_size(call->answer, before);
	call->is_done = call->is_served = !failure;
	return failure;
}

static int take_message(struct service_call *call)
{
	struct vms_jail_message message;
	/* In short waits, to see soon that it was cancelled. */
	const uint64_t until_ns = MIN(vms_clock_now_ns() + HURRY_NS / 2, get_deadline(call));
	struct pollfd poller = { .fd = call->jail->fd, .events = POLLIN };
	if (poll(&poller, 1, (int)(HURRY_NS / 2 / 1000000)) == 0)
		return vms_clock_now_ns() >= get_deadline(call) ? ETIMEDOUT : 0;
	const int failure =
		vms_jail_receive(call->jail->fd, &message, NULL, NULL, MAX(until_ns, 1));
	if (failure)
		return failure;
	switch (message.kind) {
	case VMS_JAIL_READ: return serve_read(call, &message);
	case VMS_JAIL_LOG:
	case VMS_JAIL_LOSS: return take_text(call, &message);
	case VMS_JAIL_ANSWER: return take_answer(call, &message);
	default: return EPROTO;
	}
}

/* Reports why there is no answer, and ends the process. */
static void report_death(struct service_call *call)
{
	g_autofree char *reason = end_process(call->jail);
	if (vms_budget_hurries(call->request->budget)) {
		g_set_error(call->error, VMS_ERROR, VMS_ERROR_CANCELLED,
			    "cannot read %s: it was cancelled", call->jail->what);
		return;
	}
	g_set_error(call->error, VMS_ERROR, VMS_ERROR_CLOSED,
		    "cannot read %s: the process that reads it %s", call->jail->what, reason);
}

static bool serve_call(struct service_call *call)
{
	if (call->jail->fd < 0 && !start_process(call->jail, call->error))
		return false;
	int failure = send_request(call);
	while (!failure && !call->is_done)
		failure = take_message(call);
	if (failure)
		report_death(call);
	return call->is_served;
}

bool vms_jail_call(struct vms_jail *jail, const struct vms_jail_request *request,
		   GByteArray *answer, GError **error)
{
	const uint64_t steps = vms_budget_left(request->budget, VMS_BUDGET_STEPS);
	const uint64_t work_ns = MIN(steps, UINT64_MAX / VMS_BUDGET_STEP_NS / SLOWNESS / 2) *
				 VMS_BUDGET_STEP_NS * SLOWNESS;
	struct service_call call = {
		.jail = jail,
		.request = request,
		.deadline_ns = vms_clock_now_ns() + LATEST_NS + work_ns,
		.answer = answer,
		.error = error,
	};
	g_assert(request->n_fds <= VMS_JAIL_FDS && request->n_sources <= VMS_JAIL_SOURCES);
	g_mutex_lock(&jail->lock);
	const bool is_served = serve_call(&call);
	g_mutex_unlock(&jail->lock);
	return is_served;
}
