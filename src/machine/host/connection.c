/* SPDX-License-Identifier: MIT */
#include "machine/host/connection.h"

#include "base/bytes.h"
#include "base/proc_text.h"
#include "base/text.h"
#include "machine/host/sock_diag.h"
#include "machine/host/tcp_list.h"
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- unix sockets: sock_diag(7) ------------------------------------------ */

/* Asks about one unix socket and its peer. */
static bool request_unix_socket(uint32_t inode, void *reply, size_t *size)
{
	struct {
		struct nlmsghdr header;
		struct unix_diag_req socket;
	} request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST },
		.socket = { .sdiag_family = AF_UNIX,
			    .udiag_states = ~0U,
			    .udiag_ino = inode,
			    .udiag_show = UDIAG_SHOW_PEER,
			    .udiag_cookie = { ~0U, ~0U } },
	};
	return vms_sock_diag_ask(&request, sizeof(request), reply, size);
}

/* The peer's inode among the attributes of a reply; 0 if it is not among them. */
static uint64_t find_peer_attribute(struct vms_bytes attributes)
{
	struct rtattr attribute;
	uint32_t inode = 0;
	for (uint64_t at = 0; vms_bytes_has(attributes, at, sizeof(attribute));
	     at += RTA_ALIGN(attribute.rta_len)) {
		memcpy(&attribute, attributes.data + at, sizeof(attribute));
		if (!vms_bytes_has(attributes, at, attribute.rta_len) ||
		    attribute.rta_len < sizeof(attribute))
			break;
		if (attribute.rta_type != UNIX_DIAG_PEER ||
		    attribute.rta_len != RTA_LENGTH(sizeof(inode)))
			continue;
		memcpy(&inode, attributes.data + at + RTA_LENGTH(0), sizeof(inode));
		break;
	}
	return inode;
}

/*
 * The inode of the peer of a unix socket, or 0. Sets *told if the kernel knows: then 0 says that
 * there is no peer.
 */
static uint64_t find_unix_peer(uint64_t socket_inode, bool *told)
{
	union {
		struct nlmsghdr header;
		uint8_t bytes[1024];
	} reply;
	size_t size = sizeof(reply);
	const size_t before = NLMSG_LENGTH(NLMSG_ALIGN(sizeof(struct unix_diag_msg)));
	if (!request_unix_socket((uint32_t)socket_inode, &reply, &size) ||
	    !NLMSG_OK(&reply.header, size) || reply.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    reply.header.nlmsg_len < before)
		return 0;
	*told = true;
	return find_peer_attribute(
		(struct vms_bytes) { reply.bytes + before, reply.header.nlmsg_len - before });
}

/* ---- any connection ------------------------------------------------------ */

/* The inode of the socket at the other end. *told: see find_unix_peer. */
static uint64_t find_peer(int fd, bool *told)
{
	struct sockaddr_storage ours = { 0 }, theirs = { 0 };
	socklen_t ours_size = sizeof(ours), theirs_size = sizeof(theirs);
	struct stat own;
	if (getsockname(fd, (struct sockaddr *)&ours, &ours_size) < 0)
		return 0;
	if (ours.ss_family == AF_UNIX)
		return fstat(fd, &own) == 0 ? find_unix_peer(own.st_ino, told) : 0;
	struct vms_proc_tcp socket;
	return getpeername(fd, (struct sockaddr *)&theirs, &theirs_size) == 0 &&
			       vms_tcp_list_find(&theirs, &ours, &socket)
		       ? socket.inode
		       : 0;
}

uint64_t vms_host_connection_inode(int fd)
{
	bool told;
	return find_peer(fd, &told);
}

/* ---- processes ------------------------------------------------------------ */

/* True if the process has the socket open. Sets *visible if this user may see its open files. */
static bool has_socket_open(pid_t pid, uint64_t inode, bool *visible)
{
	g_autofree char *file = g_strdup_printf("socket:[%" G_GUINT64_FORMAT "]", inode);
	g_autofree char *path = g_strdup_printf("/proc/%d/fd", (int)pid);
	g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
	const char *name;
	*visible = false;
	while (directory && (name = g_dir_read_name(directory))) {
		g_autofree char *link = g_build_filename(path, name, NULL);
		g_autofree char *target = g_file_read_link(link, NULL);
		*visible |= target != NULL;
		if (g_strcmp0(target, file) == 0)
			return true;
	}
	return false;
}

bool vms_host_has_socket(pid_t pid, uint64_t inode)
{
	bool visible;
	return inode && has_socket_open(pid, inode, &visible);
}

pid_t vms_host_find_process_with_socket(uint64_t inode, bool (*is_wanted)(pid_t pid))
{
	g_autoptr(GDir) directory = g_dir_open("/proc", 0, NULL);
	const char *name;
	while (directory && (name = g_dir_read_name(directory))) {
		uint64_t pid;
		if (g_ascii_string_to_unsigned(name, 10, 1, G_MAXINT, &pid, NULL) &&
		    (!is_wanted || is_wanted((pid_t)pid)) && vms_host_has_socket((pid_t)pid, inode))
			return (pid_t)pid;
	}
	return 0;
}

/* False for this process and for its children: its side processes have its connections, too. */
static bool is_other_process(pid_t pid)
{
	char stat[512];
	g_autofree char *path = g_strdup_printf("/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	const bool has_text = file && fgets(stat, sizeof(stat), file);
	const char *parent = has_text ? vms_proc_find_field(stat, 4) : NULL;
	if (file)
		fclose(file);
	return pid != getpid() && (!parent || strtol(parent, NULL, 10) != getpid());
}

/*
 * Another process that the server has accepted at its unix socket of this name, or 0. Another
 * server may have a socket of the same name: it may be relative to a directory.
 */
static pid_t find_client(pid_t server, const char *name)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512];
	pid_t client = 0;
	bool told;
	while (file && !client && fgets(line, sizeof(line), file)) {
		struct vms_proc_unix entry;
		if (!vms_proc_parse_unix(line, &entry) || !entry.is_connected ||
		    strcmp(entry.path, name) != 0 || !vms_host_has_socket(server, entry.inode))
			continue;
		const uint64_t inode = find_unix_peer(entry.inode, &told);
		if (inode && !vms_host_has_socket(getpid(), inode))
			client = vms_host_find_process_with_socket(inode, is_other_process);
	}
	if (file)
		fclose(file);
	return client;
}

/* "process PID (NAME)", newly allocated. */
static char *name_process(pid_t pid)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/comm", (int)pid);
	g_autofree char *name = NULL;
	if (!g_file_get_contents(path, &name, NULL, NULL))
		return g_strdup_printf("process %d", (int)pid);
	vms_text_clean(g_strchomp(name));
	return g_strdup_printf("process %d (%s)", (int)pid, name);
}

char *vms_host_connection_rival(int fd)
{
	struct sockaddr_storage zeros_follow = { 0 };
	struct sockaddr_un *address = (struct sockaddr_un *)&zeros_follow;
	socklen_t size = sizeof(zeros_follow);
	struct vms_host_identity server;
	if (getpeername(fd, (struct sockaddr *)address, &size) < 0 ||
	    address->sun_family != AF_UNIX || !address->sun_path[0] ||
	    !vms_host_identity_open_peer(&server, fd))
		return NULL;
	const pid_t pid = find_client(server.pid, address->sun_path);
	vms_host_identity_close(&server);
	return pid ? name_process(pid) : NULL;
}

bool vms_host_identity_serves(const struct vms_host_identity *identity, int fd)
{
	bool told = false, visible = false;
	uint64_t inode = find_peer(fd, &told);
	bool serves = inode && has_socket_open(identity->pid, inode, &visible);
	/* The process that answered has closed its end. It may have been any process. */
	if (told && !inode)
		return false;
	if (!visible)
		return vms_host_identity_is_peer(identity, fd);
	return serves && vms_host_identity_is_alive(identity);
}
