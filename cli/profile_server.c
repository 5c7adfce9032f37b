/* SPDX-License-Identifier: MIT */
#include "profile_server.h"
#include "base/clock.h"
#include "browser.h"
#include "end_signals.h"
#include "machine/host/peer_user.h"
#include "profile_pages.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_MS 200 /* how late the end may be noticed */

struct profile_server {
	const struct session *session;
	struct profile_pages pages;
	struct invoking_user user;
	enum vms_peer_source peer_source;
	bool has_refused; /* a connection of another user */
	GPid browser;	  /* 0: none, or it has ended */
	bool is_interrupted;
};

/* ---- who may connect ------------------------------------------------------ */

static void report_refusal(struct profile_server *server, uid_t uid)
{
	g_autofree char *stranger = invoking_user_describe(uid);
	g_autofree char *user = invoking_user_describe(server->user.uid);
	if (!server->has_refused)
		vms_log(VMS_LOG_WARNING,
			"refused a connection of %s: the profile is for %s and root (a tunnel has "
			"to be one of theirs, too)",
			stranger, user);
	server->has_refused = true;
}

/* The user who typed the command, and root, who can read everything anyway. */
static bool may_connect(int fd, void *data)
{
	struct profile_server *server = data;
	uid_t uid;
	if (!vms_peer_user(server->peer_source, fd, &uid))
		return false;
	if (uid == server->user.uid || uid == 0)
		return true;
	report_refusal(server, uid);
	return false;
}

static void answer_request(const struct vms_http_request *request, struct vms_http_answer *ret,
			   void *data)
{
	struct profile_server *server = data;
	profile_pages_answer(request, ret, &server->pages);
}

static void finish_answer(const struct vms_http_answer *answer, void *data)
{
	struct profile_server *server = data;
	profile_pages_finish(answer, &server->pages);
}

/* Returns a socket that listens on the loopback interface, and its port; -1 on failure. */
static int listen_on_loopback(unsigned *port, GError **error)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(address);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, size) == 0 &&
	    listen(fd, SOMAXCONN) == 0 &&
	    getsockname(fd, (struct sockaddr *)&address, &size) == 0) {
		*port = ntohs(address.sin_port);
		return fd;
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot listen on 127.0.0.1: %s",
		    g_strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---- the browser ---------------------------------------------------------- */

/* Tells the user to open the address, unless the line that has it was printed anyway. */
static void report_no_browser(const struct profile_server *server, const char *reason)
{
	if (server->session->quiet) /* warnings are not shown: nobody would know the address */
		fprintf(stderr, "vmscope: no browser was opened: %s: open %s\n", reason,
			server->pages.address);
	else
		vms_log(VMS_LOG_WARNING, "no browser was opened: %s: open the address above",
			reason);
}

/* One that has handed the address to a browser that runs already ends at once, too. */
static void note_browser_end(GPid pid, gint status, gpointer data)
{
	struct profile_server *server = data;
	g_autoptr(GError) failure = NULL;
	g_spawn_close_pid(pid);
	server->browser = 0;
	if (server->pages.was_opened || g_spawn_check_wait_status(status, &failure))
		return;
	g_autofree char *reason = g_strdup_printf("%s: %s", find_browser(), failure->message);
	report_no_browser(server, reason);
}

static void open_browser(struct profile_server *server)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *address =
		g_strconcat("http://", server->pages.host, server->pages.once, NULL);
	if (!start_browser(&server->user, address, &server->browser, &error))
		report_no_browser(server, error->message);
}

/* ---- until the end -------------------------------------------------------- */

static void set_flag(void *flag)
{
	*(bool *)flag = true;
}

static gboolean wake_up(gpointer data G_GNUC_UNUSED)
{
	return G_SOURCE_CONTINUE;
}

static bool is_idle(const struct profile_pages *pages, uint64_t idle_ns)
{
	return !pages->sending && vms_clock_now_ns() - pages->last_ns >= idle_ns;
}

static void wait_for_end(struct profile_server *server, uint64_t idle_ns)
{
	struct end_signals signals = { .end = set_flag, .data = &server->is_interrupted };
	end_signals_watch(&signals);
	const guint timer = g_timeout_add(LOOK_MS, wake_up, NULL);
	const guint watch =
		server->browser ? g_child_watch_add(server->browser, note_browser_end, server) : 0;
	while (!server->is_interrupted && !server->pages.is_over &&
	       !is_idle(&server->pages, idle_ns))
		g_main_context_iteration(NULL, TRUE);
	if (server->browser)
		g_source_remove(watch);
	g_source_remove(timer);
	end_signals_release(&signals);
}

/* False, with an error, if the address for one use was used by two. */
static bool check_uses(const struct profile_server *server, GError **error)
{
	if (!server->pages.was_used_twice)
		return true;
	g_autofree char *user = invoking_user_describe(server->user.uid);
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_PERMISSION,
		"the server has ended: the address that the browser was started with is for one "
		"use, and was used twice: another program of %s or root may have read the "
		"profile",
		user);
	return false;
}

static bool run_server(struct profile_server *server, int listener, uint64_t idle_ns,
		       GError **error)
{
	static const struct vms_http_calls calls = { may_connect, answer_request, finish_answer };
	struct vms_http_server *http = vms_http_server_new(listener, &calls, server);
	if (!server->session->quiet)
		fprintf(stderr, "vmscope: serving the profile until Ctrl-C: %s\n",
			server->pages.address);
	open_browser(server);
	wait_for_end(server, idle_ns);
	vms_http_server_free(http);
	return check_uses(server, error);
}

bool serve_profile(const struct session *session, const struct vms_exporter *exporter,
		   GString *profile, uint64_t idle_ns, GError **error)
{
	struct profile_server server = { .session = session };
	unsigned port;
	int listener = -1;
	bool done = invoking_user_find(&server.user, error) &&
		    (listener = listen_on_loopback(&port, error)) >= 0 &&
		    profile_pages_init(&server.pages, exporter, profile, port, error);
	if (done) {
		server.peer_source = vms_peer_source_find(listener, error);
		done = server.peer_source != VMS_PEER_UNKNOWN;
	}
	if (done)
		done = run_server(&server, g_steal_fd(&listener), idle_ns, error);
	if (listener >= 0)
		close(listener);
	profile_pages_clear(&server.pages);
	invoking_user_clear(&server.user);
	g_string_free(profile, TRUE);
	return done;
}
