/* SPDX-License-Identifier: MIT */
#include "machine/host/sock_diag.h"

#include <glib.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

bool vms_sock_diag_ask(const void *request, size_t request_size, void *reply, size_t *size)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	/* The reply is there as soon as the request has been sent. */
	bool sent = fd >= 0 && send(fd, request, request_size, 0) == (ssize_t)request_size;
	ssize_t n = sent ? recv(fd, reply, *size, MSG_DONTWAIT) : -1;
	if (fd >= 0)
		close(fd);
	*size = (size_t)MAX(n, 0);
	return n > 0;
}
