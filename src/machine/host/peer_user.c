/* SPDX-License-Identifier: MIT */
#include "machine/host/peer_user.h"

#include "machine/host/sock_diag.h"
#include "machine/host/tcp_list.h"
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <vmscope/error.h>

/* Both ends of a socket. */
struct ends {
	struct sockaddr_storage local, remote;
};

/* A socket that a process has open. */
struct owned {
	uid_t user;
	uint64_t inode;
};

/* ---- sock_diag(7) --------------------------------------------------------- */

/* Fills in one end of an IPv4 or IPv6 socket. */
static void set_end(const struct sockaddr_storage *address, __be16 *port, __be32 *words)
{
	if (address->ss_family == AF_INET6) {
		const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)address;
		*port = ipv6->sin6_port;
		memcpy(words, &ipv6->sin6_addr, sizeof(ipv6->sin6_addr));
	} else {
		const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;
		*port = ipv4->sin_port;
		words[0] = ipv4->sin_addr.s_addr;
	}
}

/*
 * A client that has connected from an IPv6 socket to an IPv4 address is found by its IPv4 address,
 * too. Where the kernel finds no connection, it may answer with a listening socket: its remote port
 * is 0.
 */
static bool ask_sock_diag(const struct ends *ends, struct owned *ret)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 socket;
	} request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST },
		.socket = { .sdiag_family = (uint8_t)ends->local.ss_family,
			    .sdiag_protocol = IPPROTO_TCP,
			    .idiag_states = ~0U,
			    .id.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } },
	};
	union {
		struct nlmsghdr header;
		uint8_t bytes[1024];
	} reply;
	size_t size = sizeof(reply);
	struct inet_diag_sockid *id = &request.socket.id;
	struct inet_diag_msg found;
	set_end(&ends->local, &id->idiag_sport, id->idiag_src);
	set_end(&ends->remote, &id->idiag_dport, id->idiag_dst);
	if (!vms_sock_diag_ask(&request, sizeof(request), &reply, &size) ||
	    !NLMSG_OK(&reply.header, size) || reply.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    reply.header.nlmsg_len < NLMSG_LENGTH(sizeof(found)))
		return false;
	memcpy(&found, NLMSG_DATA(&reply.header), sizeof(found));
	*ret = (struct owned) { found.idiag_uid, found.idiag_inode };
	return found.id.idiag_sport == id->idiag_sport && found.id.idiag_dport == id->idiag_dport;
}

/* ---- both ways ------------------------------------------------------------ */

/* False if the socket is not found, or no process has it open. */
static bool find_owner(enum vms_peer_source source, const struct ends *ends, struct owned *ret)
{
	struct vms_proc_tcp entry;
	bool found = false;
	*ret = (struct owned) { 0 };
	if (source == VMS_PEER_SOCK_DIAG) {
		found = ask_sock_diag(ends, ret);
	} else if (source == VMS_PEER_PROC_NET) {
		found = vms_tcp_list_find(&ends->local, &ends->remote, &entry);
		if (found)
			*ret = (struct owned) { entry.user, entry.inode };
	}
	return found && ret->inode > 0;
}

enum vms_peer_source vms_peer_source_find(int listener, GError **error)
{
	struct ends ends = { 0 };
	struct owned owned;
	struct stat own;
	socklen_t size = sizeof(ends.local);
	const bool is_known = fstat(listener, &own) == 0 &&
			      getsockname(listener, (struct sockaddr *)&ends.local, &size) == 0;
	ends.remote.ss_family = ends.local.ss_family;
	for (enum vms_peer_source source = VMS_PEER_SOCK_DIAG;
	     is_known && source <= VMS_PEER_PROC_NET; source++)
		if (find_owner(source, &ends, &owned) && owned.inode == own.st_ino)
			return source;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "the kernel does not tell whose a connection is: it has no inet_diag, and "
		    "/proc/net/tcp cannot be read");
	return VMS_PEER_UNKNOWN;
}

bool vms_peer_user(enum vms_peer_source source, int fd, uid_t *ret)
{
	struct ends ends = { 0 };
	struct owned owned;
	socklen_t local_size = sizeof(ends.local), remote_size = sizeof(ends.remote);
	/* The client's socket has our ends the other way round. */
	if (getpeername(fd, (struct sockaddr *)&ends.local, &local_size) < 0 ||
	    getsockname(fd, (struct sockaddr *)&ends.remote, &remote_size) < 0 ||
	    !find_owner(source, &ends, &owned))
		return false;
	*ret = owned.user;
	return true;
}
