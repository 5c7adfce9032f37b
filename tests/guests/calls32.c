/* SPDX-License-Identifier: MIT */
/*
 * A 32-bit program without a C library, which makes many kinds of system calls: by int 0x80, and
 * the way that the kernel recommends (sysenter or syscall, in its vDSO). For a trace that is
 * compared with strace's. The structures are those of the i386 interface.
 */
#include <asm/unistd_32.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/limits.h>
#include <linux/mman.h>
#include <linux/poll.h>
#include <linux/resource.h>
#include <linux/signal.h>
#include <linux/stat.h>
#include <linux/types.h>
#include <linux/uio.h>
#include <linux/un.h>

#define AF_UNIX	    1
#define SOCK_DGRAM  2
#define SOCK_STREAM 1
#define SOL_SOCKET  1
#define AT_SYSINFO  32 /* of the auxiliary vector */

static long (*enter)(void); /* of the vDSO; takes the registers that int 0x80 takes */

static long sixth; /* argument, in the frame pointer */

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	sixth = f;
	__asm__ volatile("push %%ebp\n"
			 "	mov %[sixth], %%ebp\n"
			 "	int $0x80\n"
			 "	pop %%ebp\n"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), [sixth] "m"(sixth)
			 : "memory");
	return result;
}

/* The same with three arguments, as the kernel recommends. */
static long call_vdso(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("call *%[enter]"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c), [enter] "m"(enter)
			 : "memory");
	return result;
}

#define CALL6(n, a, b, c, d, e, f)                                                                 \
	call(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define CALL5(n, a, b, c, d, e) CALL6(n, a, b, c, d, e, 0)
#define CALL4(n, a, b, c, d)	CALL5(n, a, b, c, d, 0)
#define CALL3(n, a, b, c)	CALL4(n, a, b, c, 0)
#define CALL2(n, a, b)		CALL3(n, a, b, 0)
#define CALL1(n, a)		CALL2(n, a, 0)

static char buffer[4096], more[4096];

static void make_files(void)
{
	const struct iovec pieces[] = { { (void *)"one ", 4 }, { (void *)"two\n", 4 } };
	struct iovec places[] = { { buffer, 3 }, { more, 20 } };
	const long fd = CALL3(__NR_open, "/tmp/file32", O_RDWR | O_CREAT | O_TRUNC, 0640);
	CALL3(__NR_writev, fd, pieces, 2);
	CALL3(__NR_write, fd, "text", 4);
	CALL5(__NR__llseek, fd, 0, 2, buffer, 0);
	CALL3(__NR_lseek, fd, 0, 0);
	CALL3(__NR_readv, fd, places, 2);
	CALL5(__NR_pread64, fd, buffer, 6, 4, 0);
	CALL5(__NR_pwrite64, fd, "far", 3, 8, 1);
	CALL2(__NR_fstat64, fd, buffer);
	CALL2(__NR_stat64, "/dev/null", buffer);
	CALL4(__NR_fstatat64, AT_FDCWD, "/tmp/absent", buffer, AT_SYMLINK_NOFOLLOW);
	CALL5(__NR_statx, AT_FDCWD, "/tmp/file32", 0, STATX_BASIC_STATS, buffer);
	CALL3(__NR_fcntl64, fd, F_GETFL, 0);
	CALL3(__NR_ftruncate64, fd, 4096, 0);
	CALL3(__NR_fchown32, fd, 0, -1);
	CALL6(__NR_mmap2, 0, 4096, PROT_READ, MAP_SHARED, fd, 0);
	CALL6(__NR_mmap2, 0, 4096, PROT_READ, MAP_PRIVATE, fd, 1);
	CALL1(__NR_close, fd);
	CALL1(__NR_unlink, "/tmp/file32");
}

static void make_times(void)
{
	const long short_time[] = { 0, 1000 };
	const long long wide_time[] = { 0, 1000 };
	long now[2];
	CALL2(__NR_clock_gettime, 1, now);
	CALL2(__NR_clock_gettime64, 1, buffer);
	CALL2(__NR_nanosleep, short_time, 0);
	CALL4(__NR_clock_nanosleep_time64, 1, 0, wide_time, 0);
	CALL2(__NR_gettimeofday, now, 0);
	CALL1(__NR_times, buffer);
}

static void make_sockets(void)
{
	static const struct sockaddr_un name = { AF_UNIX, "\0narrow" };
	struct {
		__u32 length;
		__s32 level, type, fd;
	} control = { 16, SOL_SOCKET, 1 /* SCM_RIGHTS */, 0 };
	struct iovec pieces[] = { { (void *)"sent", 4 } };
	struct {
		const void *name;
		__s32 name_size;
		struct iovec *pieces;
		__u32 n_pieces;
		void *control;
		__u32 control_size, flags;
	} message = { 0, 0, pieces, 1, &control, sizeof(control), 0 };
	int fds[2];
	const long fd = CALL3(__NR_socket, AF_UNIX, SOCK_STREAM, 0);
	CALL3(__NR_bind, fd, &name, 9);
	CALL4(__NR_socketpair, AF_UNIX, SOCK_DGRAM, 0, fds);
	CALL3(__NR_sendmsg, fds[0], &message, 0);
	pieces[0].iov_base = buffer;
	pieces[0].iov_len = 64;
	CALL3(__NR_recvmsg, fds[1], &message, 0);
	struct pollfd polled = { fds[1], POLLIN, 0 };
	CALL3(__NR_poll, &polled, 1, 1);
	CALL1(__NR_close, fd);
}

static void make_others(void)
{
	const struct {
		__u32 handler, flags, restorer, mask[2];
	} action = { 1, 0x10000000, 0, { 0x400, 0 } };
	const char *arguments[] = { "first", "second argument", 0 };
	const char *variables[] = { "A=1", 0 };
	__u32 limit[2];
	CALL4(__NR_rt_sigaction, 10, &action, buffer, 8);
	CALL4(__NR_rt_sigprocmask, 0, &action.mask, buffer, 8);
	CALL2(__NR_ugetrlimit, RLIMIT_STACK, limit);
	CALL4(__NR_prlimit64, 0, RLIMIT_CORE, 0, buffer);
	CALL1(__NR_uname, buffer);
	CALL1(__NR_sysinfo, buffer);
	CALL2(__NR_getrusage, 0, buffer);
	CALL3(__NR_getresuid32, buffer, buffer + 4, buffer + 8);
	CALL1(__NR_brk, 0);
	CALL2(__NR_pipe2, buffer, O_CLOEXEC);
	CALL3(__NR_execve, "/absent", arguments, variables);
}

__attribute__((used)) static void start(long *stack)
{
	long *vector = stack + 1 + stack[0] + 1;
	while (*vector++) /* variables */
		;
	for (; vector[0]; vector += 2)
		if (vector[0] == AT_SYSINFO)
			enter = (long (*)(void))vector[1];
	make_files();
	make_times();
	make_sockets();
	make_others();
	if (enter) {
		call_vdso(__NR_lseek, 77, 1234, 2);
		call_vdso(__NR_write, -1, (long)"by the vDSO", 11);
	}
	CALL1(__NR_exit_group, 3);
}

__asm__(".globl _start\n"
	"_start: mov %esp, %eax\n"
	"	and $-16, %esp\n"
	"	sub $12, %esp\n"
	"	push %eax\n"
	"	call start\n");
