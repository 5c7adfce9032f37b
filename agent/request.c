/* SPDX-License-Identifier: MIT */
#include "agent/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void reply_ok(struct reply *reply)
{
	reply->message = (struct vms_agent_message) { VMS_AGENT_MAGIC, VMS_AGENT_OK };
	reply->size = sizeof(reply->message);
}

void reply_error(struct reply *reply, enum vms_error code, const char *format, ...)
{
	va_list arguments;
	memset(&reply->failure, 0, sizeof(reply->failure));
	reply->message = (struct vms_agent_message) { VMS_AGENT_MAGIC, VMS_AGENT_ERROR };
	reply->failure.code = code;
	reply->size = sizeof(reply->failure);
	reply->n_fds = 0;
	va_start(arguments, format);
	vsnprintf(reply->failure.text, sizeof(reply->failure.text), format, arguments);
	va_end(arguments);
}
