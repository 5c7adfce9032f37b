/* SPDX-License-Identifier: MIT */
#include "probe_request.h"

#include <glib.h>
#include <sys/mman.h>
#include <unistd.h>

struct probe_set *probe_request_send(const struct vms_agent_probes *options, const void *file,
				     size_t size, unsigned vcpus, struct reply *reply)
{
	const int fd = memfd_create("places", MFD_CLOEXEC);
	g_assert_cmpint(write(fd, file, size), ==, size);
	const struct request request = { .message = &options->message,
					 .size = sizeof(*options),
					 .fd = fd };
	struct probe_set *set = probe_set_new(&request, vcpus, reply);
	close(fd);
	return set;
}
