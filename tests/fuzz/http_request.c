/* SPDX-License-Identifier: MIT */
/*
 * The head of an HTTP request.
 *
 * Covers: src/base/http_request.c.
 */
#include "base/http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_part(struct vms_bytes whole, struct vms_bytes part)
{
	g_assert_true(part.size == 0 || (part.data >= whole.data &&
					 part.data + part.size <= whole.data + whole.size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct vms_bytes bytes = { data, size };
	struct vms_http_request request;
	if (vms_http_request_parse(bytes, &request) != VMS_HTTP_COMPLETE)
		return 0;
	check_part(bytes, request.method);
	check_part(bytes, request.path);
	check_part(bytes, request.host);
	check_part(bytes, request.origin);
	g_assert_cmpuint(request.method.size, >, 0);
	return 0;
}
