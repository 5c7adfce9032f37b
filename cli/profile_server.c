/* SPDX-License-Identifier: MIT */
/*
 * A page of another site may ask for what is on the loopback interface, and so may other users of
 * this host. So the path has a random part, only the viewer's own pages may read the answer, and a
 * request that names another host, as after a change of a site's address, is refused.
 */
#include "profile_server.h"
#include "base/clock.h"
#include "base/http_request.h"
#include <errno.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define TOKEN_BYTES	16
#define CONNECTIONS_MAX 64 /* browsers open some that they may never use, and so may strangers */
#define REQUEST_S	5  /* of one read; of all together at most twice as long */
#define ANSWER_S	30 /* of one write */
#define LOOK_NS		UINT64_C(200000000)

/* What shows a format, and how its address is made of the profile's. */
struct viewer {
	const char *format, *type;
	const char *origin; /* NULL: the browser shows the profile itself */
	const char *before; /* what stands before the profile's address, which is escaped then */
};

static const struct viewer viewers[] = {
	{ "firefox", "application/json", "https://profiler.firefox.com", "/from-url/" },
	{ "speedscope", "application/json", "https://www.speedscope.app", "/#profileURL=" },
	{ "svg", "image/svg+xml", NULL, NULL },
};

/* Connections may outlive serve_profile: whoever uses a server has a reference. */
struct server {
	const struct viewer *viewer;
	GString *profile;
	char *path; /* "/TOKEN/NAME" */
	char *host; /* "127.0.0.1:PORT" */
	GMutex lock;
	uint64_t last_ns; /* when the profile was sent */
	unsigned sending; /* answers with the profile that are being sent */
};

static void clear_server(gpointer data)
{
	struct server *server = data;
	if (server->profile)
		g_string_free(server->profile, TRUE);
	g_free(server->path);
	g_free(server->host);
	g_mutex_clear(&server->lock);
}

static void release_server(gpointer server)
{
	g_atomic_rc_box_release_full(server, clear_server);
}

static void release_closure(gpointer server, GClosure *closure G_GNUC_UNUSED)
{
	release_server(server);
}

const struct vms_exporter *profile_server_default(void)
{
	return vms_exporter_by_name(viewers[0].format, NULL);
}

static const struct viewer *find_viewer(const struct vms_exporter *exporter, GError **error)
{
	for (size_t i = 0; i < G_N_ELEMENTS(viewers); i++)
		if (strcmp(viewers[i].format, exporter->name) == 0)
			return &viewers[i];
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "--open: no viewer in a browser is known for the format %s: give firefox, "
		    "speedscope or svg",
		    exporter->name);
	return NULL;
}

/* ---- requests --------------------------------------------------------------------------- */

static bool read_request(GInputStream *in, uint8_t *head, struct vms_http_request *request)
{
	const uint64_t end_ns = vms_clock_now_ns() + REQUEST_S * UINT64_C(1000000000);
	enum vms_http_step step = VMS_HTTP_INCOMPLETE;
	for (size_t n = 0; step == VMS_HTTP_INCOMPLETE && vms_clock_now_ns() < end_ns;) {
		const gssize got =
			g_input_stream_read(in, head + n, VMS_HTTP_REQUEST_LIMIT - n, NULL, NULL);
		if (got <= 0)
			return false;
		n += (size_t)got;
		step = vms_http_request_parse((struct vms_bytes) { head, n }, request);
	}
	return step == VMS_HTTP_COMPLETE;
}

/* Returns the status line of the answer. */
static const char *judge_request(const struct server *server,
				 const struct vms_http_request *request)
{
	const struct vms_bytes method = request->method;
	if (!vms_http_request_is(request->host, server->host))
		return "403 Forbidden";
	if (!vms_http_request_is(request->path, server->path))
		return "404 Not Found";
	if (vms_http_request_is(method, "OPTIONS"))
		return "204 No Content";
	if (!vms_http_request_is(method, "GET") && !vms_http_request_is(method, "HEAD"))
		return "405 Method Not Allowed";
	return "200 OK";
}

static char *make_head(const struct server *server, const char *status, bool has_profile)
{
	const struct viewer *viewer = server->viewer;
	GString *head = g_string_new(NULL);
	g_string_printf(head,
			"HTTP/1.1 %s\r\nConnection: close\r\nCache-Control: no-store\r\n"
			"X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
			"Content-Length: %zu\r\n",
			status, has_profile ? server->profile->len : 0);
	if (has_profile)
		g_string_append_printf(head, "Content-Type: %s\r\n", viewer->type);
	/* Only whoever knows the path is told that the viewer may read it. */
	if (viewer->origin && (has_profile || strncmp(status, "204", 3) == 0))
		g_string_append_printf(head,
				       "Access-Control-Allow-Origin: %s\r\n"
				       "Access-Control-Allow-Methods: GET\r\n"
				       "Access-Control-Allow-Private-Network: true\r\n"
				       "Vary: Origin\r\n",
				       viewer->origin);
	g_string_append(head, "\r\n");
	return g_string_free(head, FALSE);
}

/* Sends the profile's head, and the profile if `body`. */
static void send_profile(struct server *server, GOutputStream *out, const char *head, bool body)
{
	g_mutex_lock(&server->lock);
	server->sending++;
	g_mutex_unlock(&server->lock);
	if (g_output_stream_write_all(out, head, strlen(head), NULL, NULL, NULL) && body)
		g_output_stream_write_all(out, server->profile->str, server->profile->len, NULL,
					  NULL, NULL);
	g_mutex_lock(&server->lock);
	server->sending--;
	server->last_ns = vms_clock_now_ns();
	g_mutex_unlock(&server->lock);
}

/* Answers one request. A thread of the service's calls it. */
static gboolean serve_connection(GThreadedSocketService *service G_GNUC_UNUSED,
				 GSocketConnection *connection, GObject *source G_GNUC_UNUSED,
				 gpointer data)
{
	struct server *server = data;
	uint8_t bytes[VMS_HTTP_REQUEST_LIMIT];
	struct vms_http_request request;
	GSocket *socket = g_socket_connection_get_socket(connection);
	GOutputStream *out = g_io_stream_get_output_stream(G_IO_STREAM(connection));
	g_socket_set_timeout(socket, REQUEST_S);
	const bool is_read = read_request(g_io_stream_get_input_stream(G_IO_STREAM(connection)),
					  bytes, &request);
	const char *status = is_read ? judge_request(server, &request) : "400 Bad Request";
	const bool is_found = strncmp(status, "200", 3) == 0;
	g_autofree char *head = make_head(server, status, is_found);
	g_socket_set_timeout(socket, ANSWER_S);
	if (is_found)
		send_profile(server, out, head, vms_http_request_is(request.method, "GET"));
	else
		g_output_stream_write_all(out, head, strlen(head), NULL, NULL, NULL);
	g_io_stream_close(G_IO_STREAM(connection), NULL, NULL);
	return TRUE;
}

/* ---- the server ------------------------------------------------------------------------- */

static GSocketService *listen_on_loopback(struct server *server, GError **error)
{
	g_autoptr(GInetAddress) loopback = g_inet_address_new_loopback(G_SOCKET_FAMILY_IPV4);
	g_autoptr(GSocketAddress) wanted = g_inet_socket_address_new(loopback, 0);
	g_autoptr(GSocketAddress) got = NULL;
	g_autoptr(GSocketService) service = g_threaded_socket_service_new(CONNECTIONS_MAX);
	g_autoptr(GError) failure = NULL;
	if (!g_socket_listener_add_address(G_SOCKET_LISTENER(service), wanted, G_SOCKET_TYPE_STREAM,
					   G_SOCKET_PROTOCOL_TCP, NULL, &got, &failure)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot listen on 127.0.0.1: %s",
			    failure->message);
		return NULL;
	}
	server->host = g_strdup_printf("127.0.0.1:%u",
				       g_inet_socket_address_get_port(G_INET_SOCKET_ADDRESS(got)));
	g_signal_connect_data(service, "run", G_CALLBACK(serve_connection),
			      g_atomic_rc_box_acquire(server), release_closure, 0);
	return g_steal_pointer(&service);
}

static bool make_path(struct server *server, const struct vms_exporter *exporter, GError **error)
{
	uint8_t token[TOKEN_BYTES];
	if (getrandom(token, sizeof(token), 0) != sizeof(token)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot get a random number: %s",
			    g_strerror(errno));
		return false;
	}
	GString *path = g_string_new("/");
	for (size_t i = 0; i < sizeof(token); i++)
		g_string_append_printf(path, "%02x", token[i]);
	g_string_append_printf(path, "/profile%s", exporter->suffix);
	server->path = g_string_free(path, FALSE);
	return true;
}

/* Returns the address that a browser is to open, newly allocated. */
static char *make_address(const struct server *server)
{
	g_autofree char *own = g_strconcat("http://", server->host, server->path, NULL);
	if (!server->viewer->origin)
		return g_steal_pointer(&own);
	g_autofree char *escaped = g_uri_escape_string(own, NULL, FALSE);
	return g_strconcat(server->viewer->origin, server->viewer->before, escaped, NULL);
}

/* Opens an address in the browser, if one can be started. The address is printed in any case. */
static void open_browser(const char *address)
{
	const char *browser = g_getenv("BROWSER");
	const char *const argv[] = { browser && browser[0] ? browser : "xdg-open", address, NULL };
	g_autoptr(GError) error = NULL;
	if (!g_spawn_async(NULL, (char **)argv, NULL,
			   G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL |
				   G_SPAWN_STDERR_TO_DEV_NULL,
			   NULL, NULL, NULL, &error))
		vms_log(VMS_LOG_WARNING, "no browser was opened: %s", error->message);
}

static bool is_idle(struct server *server, uint64_t idle_ns)
{
	g_mutex_lock(&server->lock);
	const bool idle = !server->sending && vms_clock_now_ns() - server->last_ns >= idle_ns;
	g_mutex_unlock(&server->lock);
	return idle;
}

static gboolean set_flag(gpointer data)
{
	*(bool *)data = true;
	return G_SOURCE_CONTINUE;
}

static gboolean wake_up(gpointer data G_GNUC_UNUSED)
{
	return G_SOURCE_CONTINUE;
}

static void wait_for_end(struct server *server, uint64_t idle_ns)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	guint sources[G_N_ELEMENTS(signals)];
	bool is_interrupted = false;
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
		sources[i] = g_unix_signal_add(signals[i], set_flag, &is_interrupted);
	const guint timer = g_timeout_add(LOOK_NS / 1000000, wake_up, NULL);
	while (!is_interrupted && !is_idle(server, idle_ns))
		g_main_context_iteration(NULL, TRUE);
	g_source_remove(timer);
	for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
		g_source_remove(sources[i]);
}

bool serve_profile(const struct session *session, const struct vms_exporter *exporter,
		   GString *profile, uint64_t idle_ns, GError **error)
{
	struct server *server = g_atomic_rc_box_new0(struct server);
	g_mutex_init(&server->lock);
	server->profile = profile;
	server->viewer = find_viewer(exporter, error);
	server->last_ns = vms_clock_now_ns();
	g_autoptr(GSocketService) service = server->viewer && make_path(server, exporter, error)
						    ? listen_on_loopback(server, error)
						    : NULL;
	if (service) {
		g_autofree char *address = make_address(server);
		if (!session->quiet)
			fprintf(stderr, "vmscope: serving the profile until Ctrl-C: %s\n", address);
		open_browser(address);
		wait_for_end(server, idle_ns);
		g_socket_service_stop(service);
		g_socket_listener_close(G_SOCKET_LISTENER(service));
	}
	release_server(server);
	return service;
}
