/* SPDX-License-Identifier: MIT */
/*
 * Parses the head of an HTTP/1 request (RFC 9112), as far as a server needs that has one file for
 * one browser. Anybody on this host may send it.
 */
#pragma once

#include "base/bytes.h"

/* Bytes of the largest head that is taken. */
#define VMS_HTTP_REQUEST_LIMIT 8192

enum vms_http_step {
	VMS_HTTP_INCOMPLETE, /* more bytes are needed */
	VMS_HTTP_MALFORMED,
	VMS_HTTP_COMPLETE,
};

/* Parts of the bytes that were parsed. Those that are missing are empty. */
struct vms_http_request {
	struct vms_bytes method, path, host, origin;
};

enum vms_http_step vms_http_request_parse(struct vms_bytes bytes, struct vms_http_request *ret);
/* True if the bytes are that text. */
bool vms_http_request_is(struct vms_bytes bytes, const char *text);
