/* SPDX-License-Identifier: MIT */
#include "machine/host/tcp_list.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define ADDRESS_SIZE 40

/*
 * Writes an address as /proc/net/tcp and tcp6 have it: the words of the address in the host's byte
 * order, and the port. In tcp6 an IPv4 address is an IPv6 address that begins with ::ffff.
 */
static void print_address(const struct sockaddr_storage *address, bool in_tcp6, char *ret)
{
	if (address->ss_family == AF_INET) {
		const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;
		snprintf(ret, ADDRESS_SIZE, "%s%08X:%04X",
			 in_tcp6 ? "0000000000000000FFFF0000" : "", ipv4->sin_addr.s_addr,
			 ntohs(ipv4->sin_port));
	} else {
		const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)address;
		const uint32_t *words = ipv6->sin6_addr.s6_addr32;
		snprintf(ret, ADDRESS_SIZE, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2],
			 words[3], ntohs(ipv6->sin6_port));
	}
}

/*
 * Lines are "SLOT: ADDRESS:PORT ADDRESS:PORT STATE QUEUES TIMER RETRANSMITS USER TIMEOUT INODE".
 */
static bool find_in_list(const char *list, const char *local, const char *remote,
			 struct vms_proc_tcp *ret)
{
	FILE *file = fopen(list, "re");
	char line[512];
	bool found = false;
	while (file && !found && fgets(line, sizeof(line), file))
		found = vms_proc_parse_tcp(line, ret) && strcmp(ret->local, local) == 0 &&
			strcmp(ret->remote, remote) == 0;
	if (file)
		fclose(file);
	return found;
}

bool vms_tcp_list_find(const struct sockaddr_storage *local, const struct sockaddr_storage *remote,
		       struct vms_proc_tcp *ret)
{
	const sa_family_t family = local->ss_family;
	bool found = false;
	if ((family != AF_INET && family != AF_INET6) || remote->ss_family != family)
		return false;
	for (int in_tcp6 = family == AF_INET6; in_tcp6 <= 1 && !found; in_tcp6++) {
		char from[ADDRESS_SIZE], to[ADDRESS_SIZE];
		print_address(local, in_tcp6, from);
		print_address(remote, in_tcp6, to);
		found = find_in_list(in_tcp6 ? "/proc/net/tcp6" : "/proc/net/tcp", from, to, ret);
	}
	return found;
}
