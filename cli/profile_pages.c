/* SPDX-License-Identifier: MIT */
#include "profile_pages.h"
#include "base/clock.h"
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <vmscope/error.h>

#define TOKEN_BYTES 16

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

enum page {
	PAGE_NONE,     /* the status says all */
	PAGE_PROFILE,  /* the profile */
	PAGE_HEAD,     /* only its head */
	PAGE_READABLE, /* a question whether the viewer may read it */
	PAGE_ONCE,     /* the way to the viewer */
	PAGE_GONE,
};

static const char gone_text[] = "This address was for one use. vmscope has printed the address of "
				"the profile in the terminal.\n";

const struct vms_exporter *profile_pages_default(void)
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

/* ---- addresses ------------------------------------------------------------ */

/* Returns a number that nobody can guess, in hexadecimal; NULL if there is none. */
static char *make_token(GError **error)
{
	uint8_t token[TOKEN_BYTES];
	if (getrandom(token, sizeof(token), 0) != sizeof(token)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot get a random number: %s",
			    g_strerror(errno));
		return NULL;
	}
	GString *text = g_string_new(NULL);
	for (size_t i = 0; i < sizeof(token); i++)
		g_string_append_printf(text, "%02x", token[i]);
	return g_string_free(text, FALSE);
}

/* Returns the address of the profile in its viewer, newly allocated. */
static char *make_address(const struct profile_pages *pages)
{
	g_autofree char *own = g_strconcat("http://", pages->host, pages->path, NULL);
	if (!pages->viewer->origin)
		return g_steal_pointer(&own);
	g_autofree char *escaped = g_uri_escape_string(own, NULL, FALSE);
	return g_strconcat(pages->viewer->origin, pages->viewer->before, escaped, NULL);
}

bool profile_pages_init(struct profile_pages *pages, const struct vms_exporter *exporter,
			const GString *profile, unsigned port, GError **error)
{
	*pages = (struct profile_pages) { .viewer = find_viewer(exporter, error),
					  .profile = profile,
					  .last_ns = vms_clock_now_ns() };
	g_autofree char *secret = pages->viewer ? make_token(error) : NULL;
	g_autofree char *once = secret ? make_token(error) : NULL;
	if (!once)
		return false;
	pages->host = g_strdup_printf("127.0.0.1:%u", port);
	pages->path = g_strdup_printf("/%s/profile%s", secret, exporter->suffix);
	pages->once = g_strconcat("/open/", once, NULL);
	pages->address = make_address(pages);
	return true;
}

void profile_pages_clear(struct profile_pages *pages)
{
	g_free(pages->host);
	g_free(pages->path);
	g_free(pages->once);
	g_free(pages->address);
}

/* ---- answers -------------------------------------------------------------- */

/*
 * The first who uses the address for one use is led to the profile. Whether that was the browser is
 * not known: a browser that runs already gets the address handed over. But if somebody comes
 * second, one of the two was not the browser.
 */
static const char *use_once(struct profile_pages *pages, enum page *page)
{
	*page = pages->was_opened ? PAGE_GONE : PAGE_ONCE;
	pages->was_used_twice = pages->was_opened;
	pages->was_opened = true;
	return pages->was_used_twice ? "410 Gone" : "303 See Other";
}

/* Returns the status of the answer, and which page it has. */
static const char *judge_request(struct profile_pages *pages,
				 const struct vms_http_request *request, enum page *page)
{
	*page = PAGE_NONE;
	if (!request)
		return "400 Bad Request";
	const struct vms_bytes method = request->method;
	const bool is_get = vms_http_request_is(method, "GET");
	const bool is_once = vms_http_request_is(request->path, pages->once);
	if (!vms_http_request_is(request->host, pages->host))
		return "403 Forbidden";
	if (!is_once && !vms_http_request_is(request->path, pages->path))
		return "404 Not Found";
	if (pages->was_used_twice)
		*page = PAGE_GONE;
	else if (is_once && is_get)
		return use_once(pages, page);
	else if (!is_once && is_get)
		*page = PAGE_PROFILE;
	else if (!is_once && vms_http_request_is(method, "HEAD"))
		*page = PAGE_HEAD;
	else if (!is_once && vms_http_request_is(method, "OPTIONS"))
		*page = PAGE_READABLE;
	return *page == PAGE_GONE	? "410 Gone"
	       : *page == PAGE_NONE	? "405 Method Not Allowed"
	       : *page == PAGE_READABLE ? "204 No Content"
					: "200 OK";
}

/* The fields that belong to a page. */
static void append_page_fields(const struct profile_pages *pages, enum page page, GString *head)
{
	const struct viewer *viewer = pages->viewer;
	const bool has_profile = page == PAGE_PROFILE || page == PAGE_HEAD;
	if (page == PAGE_ONCE)
		g_string_append_printf(head, "Location: %s\r\n", pages->address);
	if (page == PAGE_GONE)
		g_string_append(head, "Content-Type: text/plain\r\n");
	if (has_profile)
		g_string_append_printf(head, "Content-Type: %s\r\n", viewer->type);
	/* Only whoever knows the path is told that the viewer may read it. */
	if (viewer->origin && (has_profile || page == PAGE_READABLE))
		g_string_append_printf(head,
				       "Access-Control-Allow-Origin: %s\r\n"
				       "Access-Control-Allow-Methods: GET\r\n"
				       "Access-Control-Allow-Private-Network: true\r\n"
				       "Vary: Origin\r\n",
				       viewer->origin);
}

void profile_pages_answer(const struct vms_http_request *request, struct vms_http_answer *ret,
			  void *data)
{
	struct profile_pages *pages = data;
	enum page page;
	const char *status = judge_request(pages, request, &page);
	const bool has_profile = page == PAGE_PROFILE || page == PAGE_HEAD;
	const size_t gone_size = page == PAGE_GONE ? strlen(gone_text) : 0;
	GString *head = g_string_new(NULL);
	g_string_printf(head,
			"HTTP/1.1 %s\r\nConnection: close\r\nCache-Control: no-store\r\n"
			"X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
			"Content-Length: %zu\r\n",
			status, has_profile ? pages->profile->len : gone_size);
	append_page_fields(pages, page, head);
	g_string_append(head, "\r\n");
	*ret = (struct vms_http_answer) { .head = g_string_free(head, FALSE), .kind = page };
	if (page == PAGE_PROFILE) {
		ret->body = pages->profile->str;
		ret->body_size = pages->profile->len;
	} else if (page == PAGE_GONE) {
		ret->body = gone_text;
		ret->body_size = gone_size;
	}
	pages->sending += has_profile;
}

void profile_pages_finish(const struct vms_http_answer *answer, void *data)
{
	struct profile_pages *pages = data;
	if (answer->kind == PAGE_GONE)
		pages->is_over = true;
	if (answer->kind != PAGE_PROFILE && answer->kind != PAGE_HEAD)
		return;
	pages->sending--;
	pages->last_ns = vms_clock_now_ns();
}
