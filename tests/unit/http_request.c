/* SPDX-License-Identifier: MIT */
#include "base/http_request.h"

static enum vms_http_step parse(const char *text, struct vms_http_request *ret)
{
	return vms_http_request_parse((struct vms_bytes) { (const uint8_t *)text, strlen(text) },
				      ret);
}

static void test_request(void)
{
	struct vms_http_request request;
	g_assert_cmpint(parse("GET /a/b?c HTTP/1.1\r\nhOsT: \t127.0.0.1:80 \r\nAccept: a b\r\n"
			      "Origin:https://x\r\n\r\nbody",
			      &request),
			==, VMS_HTTP_COMPLETE);
	g_assert_true(vms_http_request_is(request.method, "GET"));
	g_assert_true(vms_http_request_is(request.path, "/a/b?c"));
	g_assert_true(vms_http_request_is(request.host, "127.0.0.1:80"));
	g_assert_true(vms_http_request_is(request.origin, "https://x"));
	g_assert_false(vms_http_request_is(request.method, "GETS"));
	g_assert_cmpint(parse("GET / HTTP/1.0\r\n\r\n", &request), ==, VMS_HTTP_COMPLETE);
	g_assert_cmpuint(request.host.size, ==, 0);
}

/* Every beginning of a request needs more. */
static void test_incomplete(void)
{
	const char *text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	struct vms_http_request request;
	for (size_t n = 0; n < strlen(text); n++)
		g_assert_cmpint(vms_http_request_parse(
					(struct vms_bytes) { (const uint8_t *)text, n }, &request),
				==, VMS_HTTP_INCOMPLETE);
}

static void test_malformed(void)
{
	static const char *const texts[] = {
		"\r\n\r\n",
		"GET /\r\n\r\n",
		"GET / HTTP/2\r\n\r\n",
		"GET  HTTP/1.1\r\n\r\n",
		"GET /a b HTTP/1.1\r\n\r\n",
		"GET /\x01 HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nno field\r\n\r\n",
		"GET / HTTP/1.1\r\n folded: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	};
	struct vms_http_request request;
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
		g_assert_cmpint(parse(texts[i], &request), ==, VMS_HTTP_MALFORMED);
	g_autofree char *endless = g_strnfill(VMS_HTTP_REQUEST_LIMIT, 'a');
	g_assert_cmpint(parse(endless, &request), ==, VMS_HTTP_MALFORMED);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/http-request/request", test_request);
	g_test_add_func("/http-request/incomplete", test_incomplete);
	g_test_add_func("/http-request/malformed", test_malformed);
	return g_test_run();
}
