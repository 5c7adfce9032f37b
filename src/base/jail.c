/* SPDX-License-Identifier: MIT */
#include "base/jail.h"
#include "base/clock.h"
#include "base/jail_exchange.h"
#include "base/sanitized.h"
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

#define STARTS_LIMIT 3
#define JAIL_FD	     3				/* of the jail: its socket */
#define LATEST_NS    (5 * UINT64_C(1000000000)) /* an answer, besides what its steps take */
#define SLOWNESS     10 /* how much longer than its processor time an answer may take */
#define REAP_MS	     100

struct vms_jail {
	gatomicrefcount refs;
	struct vms_budget *budget;
	char *what;
	GMutex lock; /* held during a request; guards all that follows */
	int fd;	     /* -1: there is no process */
	pid_t pid;
	unsigned starts;
	struct vms_jail_holding holding; /* of the process */
};

struct vms_jail *vms_jail_new(struct vms_budget *budget, const char *what)
{
	if (!vms_budget_jail(budget))
		return NULL;
	struct vms_jail *jail = g_new0(struct vms_jail, 1);
	g_atomic_ref_count_init(&jail->refs);
	g_mutex_init(&jail->lock);
	jail->budget = vms_budget_ref(budget);
	jail->what = g_strdup(what);
	jail->holding.budget = jail->budget;
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
	vms_budget_give_back(jail->budget, VMS_BUDGET_BYTES, jail->holding.bytes);
	jail->holding.bytes = 0;
	if (is_reaped && has_ended && WIFSIGNALED(status))
		return g_strdup_printf("was ended by signal %d (%s)", WTERMSIG(status),
				       g_strsignal(WTERMSIG(status)));
	if (is_reaped && has_ended)
		return g_strdup_printf("has ended with status %d", WEXITSTATUS(status));
	return g_strdup("did not answer");
}

struct vms_jail *vms_jail_ref(struct vms_jail *jail)
{
	if (jail)
		g_atomic_ref_count_inc(&jail->refs);
	return jail;
}

void vms_jail_unref(struct vms_jail *jail)
{
	if (!jail || !g_atomic_ref_count_dec(&jail->refs))
		return;
	if (jail->fd >= 0)
		g_free(end_process(jail));
	vms_budget_unref(jail->budget);
	g_mutex_clear(&jail->lock);
	g_free(jail->what);
	g_free(jail);
}

/* ---- a request --------------------------------------------------------- */

/* Reports why there is no answer, and ends the process. */
static void report_death(struct vms_jail *jail, const struct vms_budget *budget, GError **error)
{
	g_autofree char *reason = end_process(jail);
	if (vms_budget_hurries(budget))
		g_set_error(error, VMS_ERROR, VMS_ERROR_CANCELLED,
			    "cannot read %s: it was cancelled", jail->what);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED,
			    "cannot read %s: the process that reads it %s", jail->what, reason);
}

/* Returns when to give up waiting for an answer. */
static uint64_t choose_deadline(const struct vms_jail_request *request)
{
	const uint64_t steps = MIN(vms_budget_left(request->budget, VMS_BUDGET_STEPS),
				   UINT64_MAX / VMS_BUDGET_STEP_NS / SLOWNESS / 2);
	return vms_clock_now_ns() + LATEST_NS + steps * VMS_BUDGET_STEP_NS * SLOWNESS;
}

bool vms_jail_call(struct vms_jail *jail, const struct vms_jail_request *request,
		   GByteArray *answer, GError **error)
{
	bool is_served = false;
	g_assert(request->n_fds <= VMS_JAIL_FDS && request->n_sources <= VMS_JAIL_SOURCES);
	g_mutex_lock(&jail->lock);
	if ((jail->fd >= 0 || start_process(jail, error)) &&
	    vms_jail_exchange(jail->fd, jail->pid, request, choose_deadline(request),
			      &jail->holding, answer, &is_served, error) != 0)
		report_death(jail, request->budget, error);
	g_mutex_unlock(&jail->lock);
	return is_served;
}

bool vms_jail_has_died(const GError *error)
{
	return g_error_matches(error, VMS_ERROR, VMS_ERROR_CLOSED) ||
	       g_error_matches(error, VMS_ERROR, VMS_ERROR_CANCELLED);
}
