/* SPDX-License-Identifier: MIT */
/* Who serves a connection: compared with which child has accepted it. */
#include "machine/host/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A connection of ours to a socket on which we listen, and which a child serves. */
struct served {
	int listener, fd;
	pid_t child;
	struct vms_host_identity self, server;
};

static void child_serves(int listener)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int fd = accept(listener, NULL, NULL);
	struct stat own;
	if (fd < 0 || fstat(fd, &own) < 0 ||
	    write(fd, &own.st_ino, sizeof(own.st_ino)) != sizeof(own.st_ino))
		_exit(1);
	for (;;)
		pause();
}

/* Waits for the child to answer; it tells the inode of its socket. */
static void start(struct served *served, int type, const void *address, socklen_t size,
		  const void *connect_to, socklen_t connect_size)
{
	const struct sockaddr *bound = address, *goal = connect_to;
	ino_t inode;
	served->listener = socket(bound->sa_family, type | SOCK_CLOEXEC, 0);
	served->fd = socket(goal->sa_family, type | SOCK_CLOEXEC, 0);
	g_assert_cmpint(bind(served->listener, bound, size), ==, 0);
	g_assert_cmpint(listen(served->listener, 1), ==, 0);
	struct sockaddr_storage to;
	memcpy(&to, connect_to, connect_size);
	if (goal->sa_family != AF_UNIX) {
		struct sockaddr_storage chosen;
		socklen_t chosen_size = sizeof(chosen);
		getsockname(served->listener, (struct sockaddr *)&chosen, &chosen_size);
		in_port_t port = ((struct sockaddr_in *)&chosen)->sin_port; /* as in IPv6's */
		((struct sockaddr_in *)&to)->sin_port = port;
	}
	served->child = fork();
	if (served->child == 0) {
		close(served->fd);
		child_serves(served->listener);
	}
	g_assert_cmpint(connect(served->fd, (struct sockaddr *)&to, connect_size), ==, 0);
	g_assert_cmpint(recv(served->fd, &inode, sizeof(inode), MSG_WAITALL), ==, sizeof(inode));
	g_assert_true(vms_host_identity_open(&served->self, getpid(), NULL));
	g_assert_true(vms_host_identity_open(&served->server, served->child, NULL));
	g_assert_cmpuint(vms_host_connection_inode(served->fd), ==, inode);
}

static void check(struct served *served)
{
	uint64_t inode = vms_host_connection_inode(served->fd);
	g_assert_true(vms_host_has_socket(served->child, inode));
	g_assert_false(vms_host_has_socket(getpid(), inode));
	g_assert_true(vms_host_identity_serves(&served->server, served->fd));
	g_assert_false(vms_host_identity_serves(&served->self, served->fd));
	struct vms_host_identity reused = served->server;
	reused.pidfd = -1;
	reused.start_time--;
	g_assert_false(vms_host_identity_serves(&reused, served->fd));
}

static void finish(struct served *served)
{
	kill(served->child, SIGKILL);
	g_assert_cmpint(waitpid(served->child, NULL, 0), ==, served->child);
	g_assert_cmpuint(vms_host_connection_inode(served->fd), ==, 0);
	g_assert_false(vms_host_identity_serves(&served->server, served->fd));
	vms_host_identity_close(&served->self);
	vms_host_identity_close(&served->server);
	close(served->listener);
	close(served->fd);
}

static void test_unix(gconstpointer data)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct served served;
	g_autofree char *folder = g_dir_make_tmp("vmscope-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(folder, "s", NULL);
	g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
	start(&served, GPOINTER_TO_INT(data), &address, sizeof(address), &address, sizeof(address));
	/* We have called listen(2), and handed the socket on. */
	g_assert_true(vms_host_identity_is_peer(&served.self, served.fd));
	check(&served);
	finish(&served);
	unlink(path);
	rmdir(folder);
}

/* Nobody has accepted it: nobody serves it. */
static void test_not_accepted(void)
{
	int pair[2];
	struct vms_host_identity self;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(address);
	g_assert_true(vms_host_identity_open(&self, getpid(), NULL));
	g_assert_cmpuint(vms_host_connection_inode(fd), ==, 0);
	g_assert_cmpuint(vms_host_connection_inode(-1), ==, 0);
	g_assert_false(vms_host_identity_serves(&self, fd));
	/* A name that the kernel chooses */
	g_assert_cmpint(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)), ==, 0);
	g_assert_cmpint(listen(listener, 1), ==, 0);
	g_assert_cmpint(getsockname(listener, (struct sockaddr *)&address, &size), ==, 0);
	g_assert_cmpint(connect(fd, (struct sockaddr *)&address, size), ==, 0);
	g_assert_cmpuint(vms_host_connection_inode(fd), ==, 0);
	close(listener);
	close(fd);

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), ==, 0);
	struct stat other;
	g_assert_cmpint(fstat(pair[1], &other), ==, 0);
	g_assert_cmpuint(vms_host_connection_inode(pair[0]), ==, other.st_ino);
	g_assert_true(vms_host_identity_serves(&self, pair[0]));
	/* It has gone; whoever it was, nobody serves any more. */
	close(pair[1]);
	g_assert_true(vms_host_identity_is_peer(&self, pair[0]));
	g_assert_false(vms_host_identity_serves(&self, pair[0]));
	close(pair[0]);
	vms_host_identity_close(&self);
}

static void connect_and_stay(const struct sockaddr_un *address)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "a\033[m client");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		_exit(1);
	for (;;)
		pause();
}

/* A process that is not our child, whose own child has connected. Both end with us. */
static void start_client(const struct sockaddr_un *address)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fork() == 0)
		connect_and_stay(address);
	for (;;)
		pause();
}

/* A server that has accepted one client lets the next one wait. */
static void test_rival(void)
{
	struct ucred client;
	socklen_t client_size = sizeof(client);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	g_autofree char *folder = g_dir_make_tmp("vmscope-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(folder, "s", NULL);
	g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(bind(listener, (struct sockaddr *)&address, sizeof(address)), ==, 0);
	g_assert_cmpint(listen(listener, 2), ==, 0);
	pid_t child = fork();
	if (child == 0)
		start_client(&address);
	int accepted = accept(listener, NULL, NULL);
	g_assert_cmpint(accepted, >=, 0);
	g_assert_cmpint(connect(fd, (struct sockaddr *)&address, sizeof(address)), ==, 0);
	g_assert_cmpint(getsockopt(accepted, SOL_SOCKET, SO_PEERCRED, &client, &client_size), ==,
			0);
	g_autofree char *expected = g_strdup_printf("process %d (a?[m client)", (int)client.pid);
	g_autofree char *rival = vms_host_connection_rival(fd);
	g_assert_cmpstr(rival, ==, expected);

	kill(child, SIGKILL);
	g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
	/* Its own child ends a moment later. */
	g_assert_cmpint(read(accepted, &(char) { 0 }, 1), ==, 0);
	g_assert_null(vms_host_connection_rival(fd));
	g_assert_null(vms_host_connection_rival(-1));
	close(accepted);
	g_assert_null(vms_host_connection_rival(fd));
	/* It has accepted our own connection, and says nothing. */
	accepted = accept(listener, NULL, NULL);
	g_assert_cmpint(accepted, >=, 0);
	g_assert_null(vms_host_connection_rival(fd));
	close(accepted);
	close(fd);
	close(listener);
	unlink(path);
	rmdir(folder);
}

static struct sockaddr_in make_loopback(void)
{
	return (struct sockaddr_in) { .sin_family = AF_INET,
				      .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

static void test_tcp(void)
{
	struct served served;
	struct sockaddr_in loopback = make_loopback();
	start(&served, SOCK_STREAM, &loopback, sizeof(loopback), &loopback, sizeof(loopback));
	check(&served);
	finish(&served);
}

static bool have_ipv6(void)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6,
					.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool can = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	if (fd >= 0)
		close(fd);
	return can;
}

static void test_tcp6(void)
{
	struct served served;
	struct sockaddr_in loopback = make_loopback();
	struct sockaddr_in6 one = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT };
	if (!have_ipv6()) {
		g_test_skip("this host has no IPv6");
		return;
	}
	start(&served, SOCK_STREAM, &one, sizeof(one), &one, sizeof(one));
	check(&served);
	finish(&served);
	/* An IPv4 client of an IPv6 server */
	start(&served, SOCK_STREAM, &any, sizeof(any), &loopback, sizeof(loopback));
	check(&served);
	finish(&served);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/connection/stream", GINT_TO_POINTER(SOCK_STREAM), test_unix);
	g_test_add_data_func("/connection/packets", GINT_TO_POINTER(SOCK_SEQPACKET), test_unix);
	g_test_add_func("/connection/not-accepted", test_not_accepted);
	g_test_add_func("/connection/rival", test_rival);
	g_test_add_func("/connection/tcp", test_tcp);
	g_test_add_func("/connection/tcp6", test_tcp6);
	return g_test_run();
}
