/* SPDX-License-Identifier: MIT */
/*
 * All that a jail says which has been taken over: it answers, asks for bytes and files, and logs.
 *
 * Covers: src/base/jail_exchange.c, src/base/jail_message.c.
 */
#include "base/jail_exchange.h"
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEADLINE_NS UINT64_MAX /* the end of what it says comes first */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_zeros(void *data, uint64_t offset, void *buf, size_t size)
{
	(void)data;
	g_assert_cmpuint(offset + size, <=, 100000);
	memset(buf, 0, size);
	return true;
}

static int open_null(void *data, const char *name)
{
	(void)data;
	return name[0] == 'a' ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct vms_budget_options options = { .size = sizeof(options), .bytes = 1 << 20 };
	g_autoptr(vms_budget) budget = vms_budget_new(&options, NULL);
	g_autoptr(GByteArray) answer = g_byte_array_new();
	g_autoptr(GError) error = NULL;
	struct vms_jail_holding holding = { .budget = budget };
	const struct vms_file_source source = { .size = 100000, .read = read_zeros };
	const struct vms_jail_request request = {
		.kind = 1, .sources = &source, .n_sources = 1, .open = open_null, .budget = budget
	};
	int ends[2];
	bool is_served = false;
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), ==, 0);
	if (send(ends[1], data, size, MSG_DONTWAIT) < 0)
		g_assert_cmpuint(size, >, 0);
	shutdown(ends[1], SHUT_WR);
	const int failure = vms_jail_exchange(ends[0], getpid(), &request, DEADLINE_NS, &holding,
					      answer, &is_served, &error);
	g_assert_true(!failure || !is_served);
	g_assert_true(is_served || failure || error);
	g_assert_cmpuint(answer->len, <=, 2 << 20);
	close(ends[0]);
	close(ends[1]);
	return 0;
}
