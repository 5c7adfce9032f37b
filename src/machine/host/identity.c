/* SPDX-License-Identifier: MIT */
#include "machine/host/identity.h"

#include "base/process.h"
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vmscope/error.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* include/uapi/asm-generic/socket.h of Linux 6.5 */
#endif

bool vms_host_identity_is_alive(const struct vms_host_identity *identity)
{
	struct pollfd end = { .fd = identity->pidfd, .events = POLLIN };
	uint64_t start_time;
	if (identity->pid <= 0)
		return false;
	if (identity->pidfd >= 0)
		return poll(&end, 1, 0) == 0;
	return vms_process_start_time(identity->pid, &start_time) == VMS_PROCESS_ALIVE &&
	       start_time == identity->start_time;
}

/*
 * Adds the start time to a pid and its pidfd. If the process is still alive afterwards, the pid was
 * that process's all the time, and so the start time is its own.
 */
static enum vms_process_state add_start_time(struct vms_host_identity *identity)
{
	enum vms_process_state state = vms_process_start_time(identity->pid, &identity->start_time);
	if (state == VMS_PROCESS_ALIVE && !vms_host_identity_is_alive(identity))
		state = VMS_PROCESS_GONE;
	if (state != VMS_PROCESS_ALIVE)
		vms_host_identity_close(identity);
	return state;
}

/* Sets the error for a process in a state that is not ALIVE. Returns false. */
static bool set_state_error(pid_t pid, enum vms_process_state state, GError **error)
{
	if (state == VMS_PROCESS_GONE)
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "cannot look at process %d: there is no such process", (int)pid);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "cannot look at process %d: /proc does not show it; run as the user "
			    "that runs it, or as root",
			    (int)pid);
	return false;
}

bool vms_host_identity_open(struct vms_host_identity *ret, pid_t pid, GError **error)
{
	*ret = (struct vms_host_identity) { .pid = pid };
	ret->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (ret->pidfd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot look at process %d: %s",
			    (int)pid, g_strerror(errno));
		*ret = (struct vms_host_identity) { 0 };
		return false;
	}
	/* Other errors: no pidfds, or no such process, which add_start_time notices. */
	enum vms_process_state state = add_start_time(ret);
	return state == VMS_PROCESS_ALIVE || set_state_error(pid, state, error);
}

bool vms_host_identity_open_peer(struct vms_host_identity *ret, int socket_fd)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer), fd_size = sizeof(ret->pidfd);
	*ret = (struct vms_host_identity) { 0 };
	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0)
		return false;
	ret->pid = peer.pid;
	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &ret->pidfd, &fd_size) < 0) {
		/* A kernel that has the option fails in another way, for a peer that has ended. */
		bool old = errno == ENOPROTOOPT;
		ret->pidfd = old ? (int)syscall(SYS_pidfd_open, peer.pid, 0) : -1;
		if (!old || (ret->pidfd < 0 && errno != ENOSYS && errno != EPERM)) {
			*ret = (struct vms_host_identity) { 0 };
			return false;
		}
	}
	return add_start_time(ret) == VMS_PROCESS_ALIVE;
}

void vms_host_identity_close(struct vms_host_identity *identity)
{
	if (identity->pid > 0 && identity->pidfd >= 0)
		close(identity->pidfd);
	*identity = (struct vms_host_identity) { 0 };
}

bool vms_host_identity_is_peer(const struct vms_host_identity *identity, int socket_fd)
{
	struct vms_host_identity peer;
	if (!vms_host_identity_open_peer(&peer, socket_fd))
		return false;
	bool same = peer.pid == identity->pid && peer.start_time == identity->start_time;
	vms_host_identity_close(&peer);
	return same && vms_host_identity_is_alive(identity);
}
