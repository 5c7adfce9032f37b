/* SPDX-License-Identifier: MIT */
/*
 * System calls of 32-bit programs in a 64-bit kernel. Many have the functions of 64-bit programs,
 * and their arguments. Others have functions with other names than programs have for them: what is
 * numbered twice, since users' numbers, times and file sizes have become wider.
 */
#include "guest/linux/syscalls.h"

#include <string.h>

/* Functions whose calls have other names. */
static const struct {
	const char *function, *call;
} renamed[] = {
	{ "time32", "time" },
	{ "stime32", "stime" },
	{ "utime32", "utime" },
	{ "mmap_pgoff", "mmap2" },
	{ "aarch32_mmap2", "mmap2" },
	{ "llseek", "_llseek" },
	{ "select", "_newselect" },
	{ "old_select", "select" },
	{ "getrlimit", "ugetrlimit" },
	{ "old_getrlimit", "getrlimit" },
	{ "old_readdir", "readdir" },
	{ "newstat", "stat" },
	{ "newlstat", "lstat" },
	{ "newfstat", "fstat" },
	{ "stat", "oldstat" },
	{ "lstat", "oldlstat" },
	{ "fstat", "oldfstat" },
	{ "newuname", "uname" },
	{ "uname", "olduname" },
	{ "olduname", "oldolduname" },
	{ "umount", "umount2" },
	{ "oldumount", "umount" },
	{ "clock_gettime", "clock_gettime64" },
	{ "clock_settime", "clock_settime64" },
	{ "clock_adjtime", "clock_adjtime64" },
	{ "clock_getres", "clock_getres_time64" },
	{ "clock_nanosleep", "clock_nanosleep_time64" },
	{ "timer_gettime", "timer_gettime64" },
	{ "timer_settime", "timer_settime64" },
	{ "timerfd_gettime", "timerfd_gettime64" },
	{ "timerfd_settime", "timerfd_settime64" },
	{ "utimensat", "utimensat_time64" },
	{ "mq_timedsend", "mq_timedsend_time64" },
	{ "mq_timedreceive", "mq_timedreceive_time64" },
	{ "semtimedop", "semtimedop_time64" },
	{ "futex", "futex_time64" },
	{ "sched_rr_get_interval", "sched_rr_get_interval_time64" },
	{ "io_pgetevents", "io_pgetevents_time64" },
};

/* Calls that came again with 32 bits for users and groups. */
static const char *const users[] = { "lchown",	  "getuid",    "getgid",    "geteuid",	 "getegid",
				     "setreuid",  "setregid",  "getgroups", "setgroups", "fchown",
				     "setresuid", "getresuid", "setresgid", "getresgid", "chown",
				     "setuid",	  "setgid",    "setfsuid",  "setfsgid",	 NULL };

/* Arguments of calls that 64-bit programs do not have, or not so. */
static const struct {
	const char *call, *arguments;
} others[] = {
	{ "pread64", "unsigned int fd, char * buf, size_t count, u64 pos, u32 pos_high" },
	{ "pwrite64", "unsigned int fd, const char * buf, size_t count, u64 pos, u32 pos_high" },
	{ "truncate64", "const char * path, u64 length, u32 length_high" },
	{ "ftruncate64", "unsigned int fd, u64 length, u32 length_high" },
	{ "fallocate", "int fd, int mode, u64 offset, u32 offset_high, u64 len, u32 len_high" },
	{ "stat64", "const char * filename, struct stat64 * statbuf" },
	{ "lstat64", "const char * filename, struct stat64 * statbuf" },
	{ "fstat64", "int fd, struct stat64 * statbuf" },
	{ "fstatat64", "int dfd, const char * filename, struct stat64 * statbuf, int flags" },
	{ "statfs64", "const char * path, size_t sz, struct compat_statfs64 * buf" },
	{ "fstatfs64", "unsigned int fd, size_t sz, struct compat_statfs64 * buf" },
	{ "mmap2",
	  "unsigned long addr, unsigned long len, unsigned long prot, unsigned long flags, "
	  "unsigned long fd, unsigned long pgoff" },
	{ "fcntl64", "unsigned int fd, unsigned int cmd, unsigned long arg" },
	{ "waitpid", "pid_t pid, int * stat_addr, int options" },
	{ "sendfile64", "int out_fd, int in_fd, loff_t * offset, size_t count" },
	{ "time", "old_time32_t * tloc" },
	{ "mmap", "struct mmap_arg_struct32 * arg" },
	{ "select", "struct compat_sel_arg_struct * arg" },
	{ "clone",
	  "unsigned long clone_flags, unsigned long newsp, int * parent_tidptr, unsigned long "
	  "tls, int * child_tidptr" },
	{ "_llseek", "unsigned int fd, u32 offset_high, long offset_low, loff_t * "
		     "result, unsigned int whence" },
	{ "set_thread_area", "struct user_desc * u_info" },
};

/* Structures that have other sizes. `is_time`: only where times have 32 bits. */
static const struct {
	const char *wide, *narrow;
	bool is_time;
} structures[] = {
	{ "struct stat *", "struct compat_stat *", false },
	{ "struct rlimit *", "struct compat_rlimit *", false },
	{ "struct rusage *", "struct compat_rusage *", false },
	{ "struct sysinfo *", "struct compat_sysinfo *", false },
	{ "struct tms *", "struct compat_tms *", false },
	{ "struct statfs *", "struct compat_statfs *", false },
	{ "const struct sigaction *", "const struct compat_sigaction *", false },
	{ "struct sigaction *", "struct compat_sigaction *", false },
	{ "struct user_msghdr *", "struct compat_msghdr *", false },
	{ "struct __kernel_old_timeval *", "struct old_timeval32 *", false },
	{ "struct __kernel_old_itimerval *", "struct old_itimerval32 *", false },
	{ "struct siginfo *", "struct compat_siginfo *", false },
	{ "siginfo_t *", "struct compat_siginfo *", false },
	{ "struct sigevent *", "struct compat_sigevent *", false },
	{ "const stack_t *", "const compat_stack_t *", false },
	{ "stack_t *", "compat_stack_t *", false },
	{ "struct __kernel_timespec *", "struct old_timespec32 *", true },
	{ "const struct __kernel_timespec *", "const struct old_timespec32 *", true },
	{ "struct __kernel_itimerspec *", "struct old_itimerspec32 *", true },
	{ "const struct __kernel_itimerspec *", "const struct old_itimerspec32 *", true },
	{ "struct __kernel_timex *", "struct old_timex32 *", true },
};

/* Takes an end off a name. False: it has another one. */
static bool take_suffix(char *name, const char *suffix)
{
	const bool has = g_str_has_suffix(name, suffix) && strlen(name) > strlen(suffix);
	if (has)
		name[strlen(name) - strlen(suffix)] = '\0';
	return has;
}

/* Writes the name that programs have for it. `function` is without its prefixes. */
static void name_call(const char *function, char name[64])
{
	g_strlcpy(name, function, 64);
	for (size_t i = 0; i < G_N_ELEMENTS(renamed); i++)
		if (strcmp(renamed[i].function, function) == 0) {
			g_strlcpy(name, renamed[i].call, 64);
			return;
		}
	if (g_strv_contains(users, name))
		g_strlcat(name, "32", 64);
	else if (!take_suffix(name, "_time32") && !take_suffix(name, "32"))
		take_suffix(name, "16");
}

/* Takes the arguments of the call that 64-bit programs make of the same function. */
static void take_wide_signature(const char *function, struct vms_syscall *call)
{
	struct vms_syscall wide = *call;
	const bool is_new = g_str_has_prefix(function, "newfstat") ||
			    strcmp(function, "newstat") == 0 || strcmp(function, "newlstat") == 0 ||
			    strcmp(function, "newuname") == 0;
	g_strlcpy(wide.name, is_new ? function + strlen("new") : function, sizeof(wide.name));
	if (!take_suffix(wide.name, "_time32") && !take_suffix(wide.name, "_time64") &&
	    !take_suffix(wide.name, "32"))
		take_suffix(wide.name, "16");
	vms_linux_take_signature(&vms_arch_x86_64, &wide);
	memcpy(call->arguments, wide.arguments, sizeof(call->arguments));
	call->n_arguments = wide.n_arguments;
	call->is_typed = wide.is_typed;
}

static void change_structures(struct vms_syscall *call, bool has_short_times)
{
	for (unsigned i = 0; i < call->n_arguments; i++)
		for (size_t k = 0; k < G_N_ELEMENTS(structures); k++)
			if (strcmp(structures[k].wide, call->arguments[i].type) == 0 &&
			    (has_short_times || !structures[k].is_time)) {
				g_strlcpy(call->arguments[i].type, structures[k].narrow,
					  sizeof(call->arguments[i].type));
				break;
			}
}

void vms_linux_describe_syscall_32(const char *function, struct vms_syscall *call)
{
	if (g_str_has_prefix(function, "ia32_"))
		function += strlen("ia32_");
	name_call(function, call->name);
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
		if (strcmp(others[i].call, call->name) == 0) {
			vms_linux_split_signature(others[i].arguments, call);
			return;
		}
	take_wide_signature(function, call);
	change_structures(call, g_str_has_suffix(function, "32"));
}
