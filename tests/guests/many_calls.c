/* SPDX-License-Identifier: MIT */
/*
 * A program that makes many kinds of system calls, with structures, lists and sockets, for a trace
 * that is compared with strace's. It makes the calls themselves, not what a C library makes of
 * them.
 *
 *   many_calls [FOLDER]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *folder = "/tmp";

static void make_files(void)
{
	char bytes[64];
	struct stat status;
	struct statfs file_system;
	const int fd = open("file", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	const struct iovec pieces[] = { { (void *)"one ", 4 },
					{ (void *)"two\n", 4 },
					{ (void *)"a longer one, longer than what is shown of it",
					  45 } };
	struct iovec places[] = { { bytes, 3 }, { bytes + 8, 5 }, { bytes + 16, 40 } };
	syscall(SYS_writev, fd, pieces, 3);
	syscall(SYS_write, fd, "\1\0022\n\"\377", 6);
	syscall(SYS_lseek, fd, 0, SEEK_SET);
	syscall(SYS_readv, fd, places, 3);
	syscall(SYS_pread64, fd, bytes, 10, 2);
	syscall(SYS_fstat, fd, &status);
	syscall(SYS_newfstatat, AT_FDCWD, "file", &status, 0);
	syscall(SYS_newfstatat, AT_FDCWD, "absent", &status, AT_SYMLINK_NOFOLLOW);
	syscall(SYS_newfstatat, AT_FDCWD, "/dev/null", &status, 0);
	syscall(SYS_fstatfs, fd, &file_system);
	syscall(SYS_fcntl, fd, F_GETFD);
	syscall(SYS_fcntl, fd, F_SETFD, 0);
	syscall(SYS_fcntl, fd, F_GETFL);
	syscall(SYS_fcntl, fd, F_SETFL, O_RDWR | O_APPEND | O_NONBLOCK);
	syscall(SYS_dup3, fd, 99, O_CLOEXEC);
	syscall(SYS_ftruncate, fd, 4096);
	syscall(SYS_fallocate, fd, FALLOC_FL_KEEP_SIZE, 0, 8192);
	syscall(SYS_close, 99);
	syscall(SYS_close, fd);
	syscall(SYS_linkat, AT_FDCWD, "file", AT_FDCWD, "linked", 0);
	syscall(SYS_symlinkat, "file", AT_FDCWD, "symbolic");
	syscall(SYS_readlinkat, AT_FDCWD, "symbolic", bytes, sizeof(bytes));
	syscall(SYS_renameat2, AT_FDCWD, "linked", AT_FDCWD, "renamed", RENAME_NOREPLACE);
	syscall(SYS_fchmodat, AT_FDCWD, "file", 0600);
	syscall(SYS_fchownat, AT_FDCWD, "file", 0, -1, AT_SYMLINK_NOFOLLOW);
	syscall(SYS_faccessat, AT_FDCWD, "file", R_OK | W_OK);
	syscall(SYS_unlinkat, AT_FDCWD, "symbolic", 0);
	syscall(SYS_unlinkat, AT_FDCWD, "renamed", 0);
}

static void make_more_files(void)
{
	char entries[2048], path[64];
	struct statx extended;
	struct statfs file_system;
	const struct open_how how = { .flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV };
	int pipe_fds[2];
	loff_t offset = 1;
	syscall(SYS_statx, AT_FDCWD, "file", AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &extended);
	syscall(SYS_statfs, "/proc", &file_system);
	syscall(SYS_mkdirat, AT_FDCWD, "inner", 0755);
	syscall(SYS_mknodat, AT_FDCWD, "inner/fifo", S_IFIFO | 0600, 0);
	const int fd = open("inner", O_RDONLY | O_DIRECTORY);
	syscall(SYS_getdents64, fd, entries, sizeof(entries));
	syscall(SYS_getdents64, fd, entries, sizeof(entries));
	syscall(SYS_close, fd);
	syscall(SYS_getcwd, path, sizeof(path));
	syscall(SYS_unlinkat, AT_FDCWD, "inner/fifo", 0);
	syscall(SYS_unlinkat, AT_FDCWD, "inner", AT_REMOVEDIR);
	const long file = syscall(SYS_openat2, AT_FDCWD, "file", &how, sizeof(how));
	syscall(SYS_pipe2, pipe_fds, O_CLOEXEC | O_NONBLOCK);
	syscall(SYS_sendfile, pipe_fds[1], (int)file, &offset, 8);
	syscall(SYS_read, pipe_fds[0], path, sizeof(path));
	syscall(SYS_read, pipe_fds[0], path, sizeof(path));
	syscall(SYS_umask, 027);
	syscall(SYS_umask, 022);
	syscall(SYS_unlinkat, AT_FDCWD, "file", 0);
}

static void make_waits(void)
{
	const struct timespec short_time = { 0, 1000000 }, none = { 0, 0 };
	struct timespec now;
	struct timeval second = { 0, 0 };
	int fds[2];
	fd_set readable, writable;
	syscall(SYS_pipe2, fds, 0);
	struct pollfd polled[] = { { fds[0], POLLIN | POLLPRI, 0 }, { fds[1], POLLOUT, 0 } };
	syscall(SYS_ppoll, polled, 1, &none, NULL, 8);
	syscall(SYS_ppoll, polled, 2, NULL, NULL, 8);
	syscall(SYS_write, fds[1], "x", 1);
	syscall(SYS_ppoll, polled, 2, &short_time, NULL, 8);
	FD_ZERO(&readable);
	FD_SET(fds[0], &readable);
	writable = readable;
	FD_SET(fds[1], &writable);
	syscall(SYS_pselect6, fds[1] + 1, &readable, &writable, NULL, &none, NULL);
#ifdef SYS_select
	syscall(SYS_poll, polled, 2, 10);
	syscall(SYS_select, fds[1] + 1, &readable, &writable, NULL, &second);
#else
	(void)second;
#endif
	const long epoll = syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
	struct epoll_event event = { EPOLLIN | EPOLLET, { .u64 = 0x1234567890 } }, events[4];
	syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, fds[0], &event);
	syscall(SYS_epoll_pwait, epoll, events, 4, 10, NULL, 8);
	syscall(SYS_epoll_pwait, epoll, events, 4, 0, NULL, 8);
	syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_DEL, fds[0], NULL);
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	syscall(SYS_clock_getres, CLOCK_REALTIME, &now);
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &short_time, &now);
	syscall(SYS_nanosleep, &short_time, NULL);
	const struct itimerspec in_an_hour = { { 1, 500 }, { 3600, 0 } };
	struct itimerspec left;
	const long timer = syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC);
	syscall(SYS_timerfd_settime, timer, 0, &in_an_hour, NULL);
	syscall(SYS_timerfd_gettime, timer, &left);
	syscall(SYS_eventfd2, 3, EFD_CLOEXEC | EFD_SEMAPHORE);
	for (int fd = 3; fd < 10; fd++)
		syscall(SYS_close, fd);
}

static void make_connections(void)
{
	const struct sockaddr_in here = { .sin_family = AF_INET,
					  .sin_port = htons(2049),
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_in6 here6 = { .sin6_family = AF_INET6,
					    .sin6_port = htons(80),
					    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const struct sockaddr_un named = { AF_UNIX, "socket" };
	const struct sockaddr_un hidden = { AF_UNIX, "\0hidden" };
	struct sockaddr_storage other;
	socklen_t size = sizeof(other);
	int number = 1;
	const long inet = syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	syscall(SYS_setsockopt, inet, SOL_SOCKET, SO_REUSEADDR, &number, sizeof(number));
	syscall(SYS_bind, inet, &here, sizeof(here));
	syscall(SYS_connect, inet, &here, sizeof(here));
	syscall(SYS_getsockname, inet, &other, &size);
	size = sizeof(number);
	syscall(SYS_getsockopt, inet, SOL_SOCKET, SO_TYPE, &number, &size);
	const long inet6 = syscall(SYS_socket, AF_INET6, SOCK_DGRAM, 0);
	syscall(SYS_connect, inet6, &here6, sizeof(here6));
	const long listener = syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
	syscall(SYS_bind, listener, &hidden, 9);
	syscall(SYS_listen, listener, 5);
	const long client = syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	syscall(SYS_connect, client, &named, sizeof(named));
	syscall(SYS_connect, client, &hidden, 9);
	size = sizeof(other);
	const long accepted = syscall(SYS_accept4, listener, &other, &size, SOCK_CLOEXEC);
	syscall(SYS_sendto, client, "sent", 4, MSG_NOSIGNAL, NULL, 0);
	char bytes[32];
	syscall(SYS_recvfrom, accepted, bytes, sizeof(bytes), MSG_DONTWAIT, NULL, NULL);
	syscall(SYS_recvfrom, accepted, bytes, sizeof(bytes), MSG_DONTWAIT, NULL, NULL);
	syscall(SYS_shutdown, client, SHUT_WR);
	for (int fd = 3; fd < 10; fd++)
		syscall(SYS_close, fd);
}

static void make_messages(void)
{
	int fds[2];
	char control[CMSG_SPACE(sizeof(int))], bytes[16];
	struct iovec pieces[] = { { (void *)"first", 5 }, { (void *)"second", 6 } };
	struct msghdr message = { .msg_iov = pieces,
				  .msg_iovlen = 2,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	memset(control, 0, sizeof(control));
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	syscall(SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, fds);
	syscall(SYS_sendmsg, fds[0], &message, 0);
	message.msg_iov = pieces + 1;
	message.msg_iovlen = 1;
	message.msg_control = NULL;
	message.msg_controllen = 0;
	syscall(SYS_sendmsg, fds[0], &message, MSG_DONTWAIT);
	pieces[0] = (struct iovec) { bytes, 3 };
	pieces[1] = (struct iovec) { bytes + 4, 12 };
	message.msg_iov = pieces;
	message.msg_iovlen = 2;
	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	syscall(SYS_recvmsg, fds[1], &message, MSG_CMSG_CLOEXEC);
	message.msg_control = NULL;
	message.msg_controllen = 0;
	syscall(SYS_recvmsg, fds[1], &message, 0);
	syscall(SYS_recvmsg, fds[1], &message, MSG_DONTWAIT);
	syscall(SYS_close, fds[0]);
	syscall(SYS_close, fds[1]);
}

static void on_signal(int number)
{
	(void)number;
}

static void make_signals(void)
{
	const struct sigaction ours = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sigaction before;
	uint64_t set = 1 << (SIGUSR1 - 1) | 1 << (SIGTERM - 1), old;
	sigaction(SIGUSR2, &ours, &before);
	sigaction(SIGUSR2, &before, NULL);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, sizeof(set));
	syscall(SYS_kill, getpid(), SIGUSR1);
	syscall(SYS_rt_sigpending, &old, sizeof(old));
	const long fd = syscall(SYS_signalfd4, -1, &set, sizeof(set), SFD_CLOEXEC | SFD_NONBLOCK);
	char bytes[128];
	syscall(SYS_read, fd, bytes, sizeof(bytes));
	set = ~UINT64_C(0);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &set, NULL, sizeof(set));
	set = 0;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &set, &old, sizeof(set));
	syscall(SYS_tgkill, getpid(), getpid(), 0);
	syscall(SYS_close, fd);
}

static void make_limits(void)
{
	struct rlimit limit;
	struct rusage usage;
	struct utsname name;
	struct sysinfo info;
	struct tms times;
	struct sched_param parameter;
	unsigned ids[3];
	unsigned long cpus[2];
	const struct rlimit files = { 512, 4096 };
	syscall(SYS_getrlimit, RLIMIT_STACK, &limit);
	syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &files, &limit);
	syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, &limit);
	syscall(SYS_getrusage, RUSAGE_SELF, &usage);
	syscall(SYS_uname, &name);
	syscall(SYS_sysinfo, &info);
	syscall(SYS_times, &times);
	syscall(SYS_sched_getparam, 0, &parameter);
	syscall(SYS_sched_getaffinity, 0, sizeof(cpus), cpus);
	syscall(SYS_getresuid, &ids[0], &ids[1], &ids[2]);
	syscall(SYS_getuid);
	syscall(SYS_getppid);
	syscall(SYS_getpriority, PRIO_PROCESS, 0);
	syscall(SYS_sched_yield);
	syscall(SYS_getrandom, ids, 8, GRND_NONBLOCK);
}

static void make_memory(void)
{
	const size_t size = 16384;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(memory, 4096, PROT_NONE);
	madvise(memory, size, MADV_DONTNEED);
	memory = mremap(memory, size, 2 * size, MREMAP_MAYMOVE);
	munmap(memory, 2 * size);
	syscall(SYS_mlock, NULL, 0);
	const long fd = syscall(SYS_memfd_create, "memory", MFD_CLOEXEC);
	ftruncate((int)fd, 8192);
	memory = mmap(NULL, 4096, PROT_READ, MAP_SHARED, (int)fd, 4096);
	munmap(memory, 4096);
	syscall(SYS_close, fd);
	syscall(SYS_brk, NULL);
	int word = 1;
	const struct timespec none = { 0, 0 };
	syscall(SYS_futex, &word, 128 | 1, 1);
	syscall(SYS_futex, &word, 128 | 0, 1, &none);
	syscall(SYS_futex, &word, 0, 2, &none);
}

static void make_processes(void)
{
	const char *arguments[] = { "many_calls", "an argument", "", NULL };
	const char *variables[] = { "A=1", "B=2", NULL };
	int status;
	siginfo_t info;
	const pid_t child = fork();
	if (child == 0)
		_exit(7);
	syscall(SYS_wait4, child, &status, 0, NULL);
	syscall(SYS_wait4, -1, &status, WNOHANG, NULL);
	syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG, NULL);
	syscall(SYS_execve, "/absent", arguments, variables);
	syscall(SYS_execve, "/absent", NULL, (const char *[]) { NULL });
	syscall(SYS_openat, AT_FDCWD, NULL, O_RDONLY);
	syscall(SYS_newfstatat, AT_FDCWD, "file", 16, 0);
	syscall(SYS_write, 1, 16, 4);
}

int main(int argc, char **argv)
{
	static void (*const parts[])(void) = { make_files,	 make_more_files, make_waits,
					       make_connections, make_messages,	  make_signals,
					       make_limits,	 make_memory,	  make_processes };
	if (argc > 1)
		folder = argv[1];
	if (chdir(folder) != 0)
		return 1;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		parts[i]();
	return 0;
}
