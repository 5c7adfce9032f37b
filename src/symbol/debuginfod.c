/* SPDX-License-Identifier: MIT */
#include "symbol/debuginfod.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/log.h>

#define REQUESTS_LIMIT 512 /* of one run: a guest may map any number of files */
#define CHILDREN_LIMIT 4
#define CHILD_LIMIT_NS (UINT64_C(90) * 1000 * 1000 * 1000)
#define PATH_LIMIT     4096

struct request {
	char *build_id;
	enum vms_debuginfod_answer answer;
	GPid child; /* 0: it has not begun, or has ended */
	int output; /* of the child */
	uint64_t begin_ns;
	GString *path; /* what the child has written so far */
};

struct vms_debuginfod {
	GPtrArray *requests; /* struct request */
	unsigned n_children;
	bool is_off; /* a server did not answer in time, or the program is missing */
};

static void end_child(struct request *request)
{
	if (request->child == 0)
		return;
	kill(request->child, SIGKILL);
	/* It may hang in the kernel. Then it is init's when this process ends. */
	waitpid(request->child, NULL, WNOHANG);
	close(request->output);
	request->child = 0;
}

static void free_request(void *data)
{
	struct request *request = data;
	end_child(request);
	g_string_free(request->path, TRUE);
	g_free(request->build_id);
	g_free(request);
}

struct vms_debuginfod *vms_debuginfod_new(void)
{
	const char *urls = g_getenv("DEBUGINFOD_URLS");
	if (!urls || strspn(urls, " ") == strlen(urls))
		return NULL;
	struct vms_debuginfod *servers = g_new0(struct vms_debuginfod, 1);
	servers->requests = g_ptr_array_new_with_free_func(free_request);
	return servers;
}

void vms_debuginfod_free(struct vms_debuginfod *servers)
{
	if (!servers)
		return;
	g_ptr_array_unref(servers->requests);
	g_free(servers);
}

/* ---- one child -------------------------------------------------------- */

/* Returns the child's environment. What the user has set there stays. */
static char **make_environment(void)
{
	char **environment = g_get_environ();
	environment = g_environ_setenv(environment, "DEBUGINFOD_TIMEOUT", "15", FALSE);
	environment = g_environ_setenv(environment, "DEBUGINFOD_MAXTIME", "60", FALSE);
	environment = g_environ_setenv(environment, "DEBUGINFOD_MAXSIZE", "1073741824", FALSE);
	return g_environ_unsetenv(environment, "DEBUGINFOD_PROGRESS");
}

static void start_child(struct vms_debuginfod *servers, struct request *request)
{
	char program[] = "debuginfod-find", kind[] = "debuginfo";
	char *words[] = { program, kind, request->build_id, NULL };
	g_auto(GStrv) environment = make_environment();
	g_autoptr(GError) failure = NULL;
	if (!g_spawn_async_with_pipes(
		    NULL, words, environment,
		    G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDERR_TO_DEV_NULL,
		    NULL, NULL, &request->child, NULL, &request->output, NULL, &failure)) {
		vms_log(VMS_LOG_WARNING,
			"DEBUGINFOD_URLS is set, but debuginfod-find cannot be started: %s: "
			"install elfutils' debuginfod client for more names",
			failure->message);
		request->child = 0;
		request->answer = VMS_DEBUGINFOD_MISSING;
		servers->is_off = true;
		return;
	}
	g_unix_set_fd_nonblocking(request->output, TRUE, NULL);
	request->begin_ns = vms_clock_now_ns();
	servers->n_children++;
}

/* Reads what the child has written. False if that is too much for a path. */
static bool read_output(struct request *request)
{
	char part[512];
	ssize_t n;
	while (request->path->len <= PATH_LIMIT &&
	       (n = read(request->output, part, sizeof(part))) > 0)
		g_string_append_len(request->path, part, n);
	return request->path->len <= PATH_LIMIT;
}

static void check_child(struct vms_debuginfod *servers, struct request *request)
{
	int status;
	const bool is_sane = read_output(request);
	const pid_t ended = is_sane ? waitpid(request->child, &status, WNOHANG) : 0;
	if (is_sane && ended == 0 && vms_clock_now_ns() - request->begin_ns < CHILD_LIMIT_NS)
		return;
	if (ended == request->child) {
		read_output(request);
		close(request->output);
		request->child = 0;
		g_strchomp(request->path->str);
		request->answer = WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
						  request->path->str[0] == '/'
					  ? VMS_DEBUGINFOD_FOUND
					  : VMS_DEBUGINFOD_MISSING;
	} else {
		end_child(request);
		request->answer = VMS_DEBUGINFOD_MISSING;
		servers->is_off = true;
	}
	servers->n_children--;
}

/* ---- all of them ------------------------------------------------------ */

static void update_requests(struct vms_debuginfod *servers)
{
	for (guint i = 0; i < servers->requests->len; i++) {
		struct request *request = servers->requests->pdata[i];
		if (request->answer != VMS_DEBUGINFOD_PENDING)
			continue;
		if (request->child)
			check_child(servers, request);
		else if (servers->is_off)
			request->answer = VMS_DEBUGINFOD_MISSING;
		else if (servers->n_children < CHILDREN_LIMIT)
			start_child(servers, request);
	}
}

static struct request *find_request(const struct vms_debuginfod *servers, const char *build_id)
{
	for (guint i = 0; i < servers->requests->len; i++) {
		struct request *request = servers->requests->pdata[i];
		if (strcmp(request->build_id, build_id) == 0)
			return request;
	}
	return NULL;
}

enum vms_debuginfod_answer vms_debuginfod_find(struct vms_debuginfod *servers, const char *build_id,
					       const char **path)
{
	struct request *request = find_request(servers, build_id);
	if (!request) {
		if (servers->is_off || servers->requests->len >= REQUESTS_LIMIT)
			return VMS_DEBUGINFOD_MISSING;
		request = g_new0(struct request, 1);
		request->build_id = g_strdup(build_id);
		request->answer = VMS_DEBUGINFOD_PENDING;
		request->path = g_string_new(NULL);
		g_ptr_array_add(servers->requests, request);
	}
	update_requests(servers);
	*path = request->path->str;
	return request->answer;
}

/* Waits until a child writes or ends, for 100 ms at most. */
static void wait_for_child(const struct vms_debuginfod *servers)
{
	struct pollfd fds[CHILDREN_LIMIT];
	nfds_t n = 0;
	for (guint i = 0; i < servers->requests->len && n < CHILDREN_LIMIT; i++) {
		const struct request *request = servers->requests->pdata[i];
		if (request->child)
			fds[n++] = (struct pollfd) { .fd = request->output, .events = POLLIN };
	}
	poll(fds, n, n ? 100 : 0);
}

void vms_debuginfod_wait(struct vms_debuginfod *servers, uint64_t deadline_ns)
{
	unsigned late = 0;
	update_requests(servers);
	while (servers->n_children > 0 && vms_clock_now_ns() < deadline_ns) {
		wait_for_child(servers);
		update_requests(servers);
	}
	for (guint i = 0; i < servers->requests->len; i++) {
		struct request *request = servers->requests->pdata[i];
		if (request->answer != VMS_DEBUGINFOD_PENDING)
			continue;
		if (request->child)
			servers->n_children--;
		end_child(request);
		request->answer = VMS_DEBUGINFOD_MISSING;
		late++;
	}
	if (late > 0) {
		servers->is_off = true;
		vms_log(VMS_LOG_WARNING,
			"the servers of DEBUGINFOD_URLS are too slow: %u file%s without their "
			"symbols",
			late, late == 1 ? " is" : "s are");
	}
}
