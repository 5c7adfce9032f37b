/* SPDX-License-Identifier: MIT */
#include "agent/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

void *request_read_file(const struct request *request, size_t size)
{
	struct stat stat;
	size_t done = 0;
	char *content = malloc(size ? size : 1);
	if (fstat(request->fd, &stat) == 0 && !S_ISREG(stat.st_mode))
		errno = EINVAL;
	else
		errno = 0;
	while (content && !errno && done < size) {
		ssize_t n = pread(request->fd, content + done, size - done, (off_t)done);
		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			errno = ENODATA;
	}
	if (done == size)
		return content;
	free(content);
	return NULL;
}
