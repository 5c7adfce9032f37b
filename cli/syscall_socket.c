/* SPDX-License-Identifier: MIT */
#include "syscall_socket.h"

#include "syscall_bytes.h"
#include "syscall_names.h"
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- addresses ---------------------------------------------------------------------- */

static unsigned read_port(const void *bytes, size_t size, size_t at)
{
	return ntohs((uint16_t)syscall_read_number(bytes, size, at, sizeof(uint16_t)));
}

static void append_unix(GString *out, const uint8_t *bytes, size_t size)
{
	const size_t at = offsetof(struct sockaddr_un, sun_path);
	if (size <= at)
		return;
	g_string_append(out, ", sun_path=");
	if (bytes[at] == 0 && size > at + 1) { /* an abstract name, not a path */
		g_string_append_c(out, '@');
		syscall_append_bytes(out, bytes + at + 1, size - at - 1, false);
	} else {
		syscall_append_string(out, bytes + at, size - at);
	}
}

static void append_inet(GString *out, const uint8_t *bytes, size_t size)
{
	char text[INET_ADDRSTRLEN];
	inet_ntop(AF_INET, bytes + 4, text, sizeof(text));
	g_string_append_printf(out, ", sin_port=htons(%u), sin_addr=inet_addr(\"%s\")",
			       read_port(bytes, size, 2), text);
}

static void append_inet6(GString *out, const uint8_t *bytes, size_t size)
{
	char text[INET6_ADDRSTRLEN];
	inet_ntop(AF_INET6, bytes + 8, text, sizeof(text));
	g_string_append_printf(out,
			       ", sin6_port=htons(%u), sin6_flowinfo=htonl(%u), "
			       "inet_pton(AF_INET6, \"%s\", &sin6_addr), sin6_scope_id=%u",
			       read_port(bytes, size, 2),
			       ntohl((uint32_t)syscall_read_number(bytes, size, 4, 4)), text,
			       (uint32_t)syscall_read_number(bytes, size, 24, 4));
}

static void append_netlink(GString *out, const uint8_t *bytes, size_t size)
{
	g_string_append_printf(out, ", nl_pid=%d, nl_groups=%08x",
			       (int32_t)syscall_read_number(bytes, size, 4, 4),
			       (uint32_t)syscall_read_number(bytes, size, 8, 4));
}

void syscall_append_socket_address(GString *out, const void *data, size_t size)
{
	const uint8_t *bytes = data;
	const unsigned family = (unsigned)syscall_read_number(bytes, size, 0, sizeof(uint16_t));
	g_string_append(out, "{sa_family=");
	syscall_append_names(out, syscall_names_of_member("sockaddr", "sa_family"), family);
	if (family == AF_UNIX) {
		append_unix(out, bytes, size);
	} else if (family == AF_INET && size >= 8) {
		append_inet(out, bytes, size);
	} else if (family == AF_INET6 && size >= 28) {
		append_inet6(out, bytes, size);
	} else if (family == AF_NETLINK && size >= sizeof(struct sockaddr_nl)) {
		append_netlink(out, bytes, size);
	} else if (size > 2) {
		g_string_append(out, ", sa_data=");
		syscall_append_bytes(out, bytes + 2, size - 2, false);
	}
	g_string_append_c(out, '}');
}

/* ---- control messages --------------------------------------------------------------- */

static void append_data(GString *out, int level, int type, const uint8_t *bytes, size_t size)
{
	g_string_append(out, ", cmsg_data=");
	if (level == SOL_SOCKET && type == SCM_RIGHTS) {
		for (size_t at = 0; at + sizeof(int) <= size; at += sizeof(int))
			g_string_append_printf(
				out, "%s%d", at ? ", " : "[",
				(int)syscall_read_number(bytes, size, at, sizeof(int)));
		g_string_append(out, size >= sizeof(int) ? "]" : "[]");
	} else if (level == SOL_SOCKET && type == SCM_CREDENTIALS && size >= 12) {
		g_string_append_printf(out, "{pid=%d, uid=%d, gid=%d}",
				       (int)syscall_read_number(bytes, size, 0, 4),
				       (int)syscall_read_number(bytes, size, 4, 4),
				       (int)syscall_read_number(bytes, size, 8, 4));
	} else {
		syscall_append_hex_bytes(out, bytes, size, false);
	}
}

/* Appends the first message. Returns the offset of the next one, or 0 if there is none. */
static size_t append_message(GString *out, const uint8_t *bytes, size_t size, unsigned word_size)
{
	const size_t head_size = word_size + 8; /* struct cmsghdr: its length, level and type */
	if (size < head_size)
		return 0;
	const uint64_t length = syscall_read_number(bytes, size, 0, word_size);
	const int level = (int)syscall_read_number(bytes, size, word_size, 4);
	const int type = (int)syscall_read_number(bytes, size, word_size + 4, 4);
	g_string_append_printf(out, "{cmsg_len=%" G_GUINT64_FORMAT ", cmsg_level=", length);
	syscall_append_names(out, syscall_names_of_member("cmsghdr", "cmsg_level"),
			     (uint32_t)level);
	g_string_append(out, ", cmsg_type=");
	if (level == SOL_SOCKET)
		syscall_append_names(out, syscall_names_of_member("cmsghdr", "cmsg_type"),
				     (uint32_t)type);
	else
		g_string_append_printf(out, "0x%x", (unsigned)type);
	if (length > head_size)
		append_data(out, level, type, bytes + head_size, MIN(length, size) - head_size);
	g_string_append_c(out, '}');
	if (length < head_size || length > size)
		return 0;
	return (length + word_size - 1) / word_size * word_size;
}

void syscall_append_control(GString *out, const void *data, size_t n_bytes, size_t size,
			    unsigned word_size)
{
	const uint8_t *bytes = data;
	size_t at = 0, step;
	g_string_append_c(out, '[');
	for (; at < n_bytes; at += step) {
		if (at)
			g_string_append(out, ", ");
		step = append_message(out, bytes + at, n_bytes - at, word_size);
		if (step == 0) {
			at = n_bytes;
			break;
		}
	}
	g_string_append(out, n_bytes < size ? ", ...]" : "]");
}
