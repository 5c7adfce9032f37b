/* SPDX-License-Identifier: MIT */
/* Receives file descriptors with a packet of the agent's protocol. Both ends use this. */
#pragma once

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Takes up to `max` descriptors out of a message and closes the others. Returns how many. The
 * caller owns them.
 */
static inline unsigned vms_agent_take_fds(struct msghdr *message, int *fds, unsigned max)
{
	unsigned n = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (n < max)
				fds[n++] = fd;
			else
				close(fd);
		}
	}
	return n;
}
