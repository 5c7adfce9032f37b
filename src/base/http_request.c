/* SPDX-License-Identifier: MIT */
#include "base/http_request.h"

#define END_OF_LINE "\r\n"

bool vms_http_request_is(struct vms_bytes bytes, const char *text)
{
	return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

/* Cuts off what stands before `end`, and removes both from `rest`. False if there is no `end`. */
static bool cut_part(struct vms_bytes *rest, const char *end, struct vms_bytes *ret)
{
	const size_t size = strlen(end);
	const uint8_t *found = memmem(rest->data, rest->size, end, size);
	if (!found)
		return false;
	*ret = (struct vms_bytes) { rest->data, (size_t)(found - rest->data) };
	*rest = (struct vms_bytes) { found + size, rest->size - ret->size - size };
	return true;
}

/* True if no byte is a control character or a blank. */
static bool is_plain(struct vms_bytes bytes)
{
	for (size_t i = 0; i < bytes.size; i++)
		if (bytes.data[i] <= ' ' || bytes.data[i] >= 0x7f)
			return false;
	return bytes.size > 0;
}

static struct vms_bytes strip_blanks(struct vms_bytes bytes)
{
	while (bytes.size && (bytes.data[0] == ' ' || bytes.data[0] == '\t'))
		bytes = (struct vms_bytes) { bytes.data + 1, bytes.size - 1 };
	while (bytes.size &&
	       (bytes.data[bytes.size - 1] == ' ' || bytes.data[bytes.size - 1] == '\t'))
		bytes.size--;
	return bytes;
}

static bool has_name(struct vms_bytes name, const char *wanted)
{
	return name.size == strlen(wanted) &&
	       g_ascii_strncasecmp((const char *)name.data, wanted, name.size) == 0;
}

/* Takes a field. One that comes twice is malformed: which one counts is not to be guessed. */
static bool take_field(struct vms_bytes line, struct vms_http_request *request)
{
	struct vms_bytes name;
	if (!cut_part(&line, ":", &name) || !is_plain(name))
		return false;
	struct vms_bytes *field = has_name(name, "host")     ? &request->host
				  : has_name(name, "origin") ? &request->origin
							     : NULL;
	if (!field)
		return true;
	if (field->size)
		return false;
	*field = strip_blanks(line);
	return is_plain(*field);
}

static bool take_first_line(struct vms_bytes line, struct vms_http_request *request)
{
	return cut_part(&line, " ", &request->method) && cut_part(&line, " ", &request->path) &&
	       is_plain(request->method) && is_plain(request->path) &&
	       (vms_http_request_is(line, "HTTP/1.1") || vms_http_request_is(line, "HTTP/1.0"));
}

enum vms_http_step vms_http_request_parse(struct vms_bytes bytes, struct vms_http_request *ret)
{
	struct vms_bytes rest = bytes, line;
	*ret = (struct vms_http_request) { 0 };
	if (bytes.size == 0 || !memmem(bytes.data, bytes.size, END_OF_LINE END_OF_LINE, 4))
		return bytes.size < VMS_HTTP_REQUEST_LIMIT ? VMS_HTTP_INCOMPLETE
							   : VMS_HTTP_MALFORMED;
	if (!cut_part(&rest, END_OF_LINE, &line) || !take_first_line(line, ret))
		return VMS_HTTP_MALFORMED;
	while (cut_part(&rest, END_OF_LINE, &line) && line.size > 0)
		if (!take_field(line, ret))
			return VMS_HTTP_MALFORMED;
	return VMS_HTTP_COMPLETE;
}
