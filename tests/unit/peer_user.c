/* SPDX-License-Identifier: MIT */
/* Who has connected: compared with who did, by both ways in which the kernel tells. */
#include "machine/host/peer_user.h"

#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/error.h>

#define NOBODY 65534

static const enum vms_peer_source sources[] = { VMS_PEER_SOCK_DIAG, VMS_PEER_PROC_NET };

static int listen_on_loopback(struct sockaddr_in *address)
{
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(*address);
	*address = (struct sockaddr_in) { .sin_family = AF_INET,
					  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	g_assert_cmpint(bind(listener, (struct sockaddr *)address, size), ==, 0);
	g_assert_cmpint(listen(listener, 8), ==, 0);
	g_assert_cmpint(getsockname(listener, (struct sockaddr *)address, &size), ==, 0);
	return listener;
}

/* Accepts the connection of `client`, and checks whose it is, as long as the client has it open. */
static void check_client(int listener, int client, uid_t expected)
{
	const int fd = accept(listener, NULL, NULL);
	uid_t uid;
	g_assert_cmpint(fd, >=, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(sources); i++) {
		g_assert_true(vms_peer_user(sources[i], fd, &uid));
		g_assert_cmpuint(uid, ==, expected);
	}
	/* It has sent all, and waits for the answer. */
	g_assert_cmpint(shutdown(client, SHUT_WR), ==, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(sources); i++)
		g_assert_true(vms_peer_user(sources[i], fd, &uid));
	/* The kernel says root of a socket that nobody has open any more. */
	close(client);
	for (size_t i = 0; i < G_N_ELEMENTS(sources); i++)
		g_assert_false(vms_peer_user(sources[i], fd, &uid));
	close(fd);
}

static void test_self(void)
{
	struct sockaddr_in address;
	const int listener = listen_on_loopback(&address);
	const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(connect(client, (struct sockaddr *)&address, sizeof(address)), ==, 0);
	check_client(listener, client, getuid());
	close(listener);
}

/* A client that has connected from an IPv6 socket to our IPv4 address. */
static void test_mapped(void)
{
	struct sockaddr_in address;
	const int listener = listen_on_loopback(&address);
	const int client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = address.sin_port };
	mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&mapped.sin6_addr.s6_addr[12], &address.sin_addr, sizeof(address.sin_addr));
	if (client < 0 || connect(client, (struct sockaddr *)&mapped, sizeof(mapped)) < 0) {
		g_test_skip("this host has no IPv6");
		return;
	}
	check_client(listener, client, getuid());
	close(listener);
}

/* Returns a connected socket that another user has made. */
static int connect_as_nobody(const struct sockaddr_in *address)
{
	if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
	    setresuid(NOBODY, NOBODY, NOBODY) < 0)
		_exit(1);
	const int own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(own, (const struct sockaddr *)address, sizeof(*address)) < 0)
		_exit(1);
	return own;
}

static void test_another_user(void)
{
	struct sockaddr_in address;
	uid_t uid;
	if (getuid() != 0) {
		g_test_skip("only root can become another user");
		return;
	}
	const int listener = listen_on_loopback(&address);
	const pid_t child = fork();
	if (child == 0) {
		char byte;
		(void)!read(connect_as_nobody(&address), &byte, 1);
		_exit(0);
	}
	const int fd = accept(listener, NULL, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(sources); i++) {
		g_assert_true(vms_peer_user(sources[i], fd, &uid));
		g_assert_cmpuint(uid, ==, NOBODY);
	}
	close(fd);
	g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
	/* It has gone: where no connection is found, a socket that listens is none. */
	g_assert_false(vms_peer_user(VMS_PEER_SOCK_DIAG, listener, &uid));
	close(listener);
}

static void test_source(void)
{
	struct sockaddr_in address;
	g_autoptr(GError) error = NULL;
	const int listener = listen_on_loopback(&address);
	const enum vms_peer_source source = vms_peer_source_find(listener, &error);
	g_assert_no_error(error);
	g_assert_cmpint(source, ==, VMS_PEER_SOCK_DIAG);
	g_assert_false(vms_peer_user(VMS_PEER_UNKNOWN, listener, &(uid_t) { 0 }));
	close(listener);
	/* Where the kernel does not find our own socket, it will find no other one. */
	const int unbound = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(vms_peer_source_find(unbound, &error), ==, VMS_PEER_UNKNOWN);
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
	close(unbound);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/peer-user/self", test_self);
	g_test_add_func("/peer-user/mapped", test_mapped);
	g_test_add_func("/peer-user/another-user", test_another_user);
	g_test_add_func("/peer-user/source", test_source);
	return g_test_run();
}
