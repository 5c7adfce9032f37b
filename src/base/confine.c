/* SPDX-License-Identifier: MIT */
#include "base/confine.h"
#include "base/sanitized.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vmscope/error.h>

#define FILES_LIMIT 256 /* descriptors, those that requests bring included */

static bool report_failure(const char *what, int number, GError **error)
{
	g_set_error(error, VMS_ERROR, number == ENOSYS ? VMS_ERROR_UNSUPPORTED : VMS_ERROR_IO,
		    "cannot confine a process: %s: %s", what, g_strerror(number));
	return false;
}

/* ---- limits ------------------------------------------------------------ */

/* Lowers a limit. One that is lower already stays: to raise it may not be allowed. */
static bool set_limit(int resource, uint64_t value)
{
	struct rlimit limit;
	if (getrlimit(resource, &limit) != 0)
		return false;
	limit.rlim_max = MIN(limit.rlim_max, value);
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(resource, &limit) == 0;
}

/* A sanitizer has terabytes of data, which it does not use. */
static bool set_limits(uint64_t memory)
{
	return set_limit(RLIMIT_CORE, 0) && set_limit(RLIMIT_FSIZE, 0) &&
	       set_limit(RLIMIT_NOFILE, FILES_LIMIT) &&
	       (VMS_IS_SANITIZED || set_limit(RLIMIT_DATA, memory));
}

/* ---- Landlock ---------------------------------------------------------- */

/* As linux/landlock.h of newer kernels has it; older ones take the first members. */
struct landlock_rules {
	uint64_t files, network, scopes;
};

/* Returns a mask of the rights to handle, which grew from version to version. */
static struct landlock_rules list_landlock_rules(int version, size_t *size)
{
	static const unsigned file_rights[] = { 0, 13, 14, 15, 15, 16 }; /* by version */
	const unsigned n = file_rights[MIN((size_t)version, G_N_ELEMENTS(file_rights) - 1)];
	*size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
	return (struct landlock_rules) {
		.files = (UINT64_C(1) << n) - 1,
		.network = version >= 4 ? 3 : 0, /* bind, connect */
		.scopes = version >= 6 ? 3 : 0,	 /* abstract sockets, signals */
	};
}

/* Forbids everything that Landlock knows. Does nothing on kernels without it. */
static bool forbid_by_landlock(void)
{
	const int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	if (version <= 0)
		return true;
	size_t size;
	const struct landlock_rules rules = list_landlock_rules(version, &size);
	const int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
	if (fd < 0)
		return false;
	const bool done = syscall(SYS_landlock_restrict_self, fd, 0) == 0;
	close(fd);
	return done;
}

/* ---- system calls ------------------------------------------------------ */

/* What computing, threads, and descriptors that are there need. */
static const int allowed_calls[] = {
	SCMP_SYS(read),
	SCMP_SYS(pread64),
	SCMP_SYS(readv),
	SCMP_SYS(preadv),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(close),
	SCMP_SYS(lseek),
	SCMP_SYS(fstat),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(brk),
	SCMP_SYS(futex),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(getrandom),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getrlimit),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(membarrier),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
};

/* A call that is allowed if an argument, masked, has a value. */
struct conditional_call {
	int call;
	unsigned argument;
	uint64_t mask, value;
};

static const struct conditional_call conditional_calls[] = {
	/* Threads, not processes. */
	{ SCMP_SYS(clone), 0, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM },
	/* No memory becomes code. */
	{ SCMP_SYS(mmap), 2, PROT_EXEC, 0 },
	{ SCMP_SYS(mprotect), 2, PROT_EXEC, 0 },
	/* The size of a file behind a descriptor. */
	{ SCMP_SYS(newfstatat), 3, AT_EMPTY_PATH, AT_EMPTY_PATH },
	{ SCMP_SYS(fcntl), 1, UINT64_MAX, F_GETFL },
	{ SCMP_SYS(fcntl), 1, UINT64_MAX, F_DUPFD_CLOEXEC },
	{ SCMP_SYS(prctl), 0, UINT64_MAX, PR_SET_NAME },
	/* Limits are read, not set. */
	{ SCMP_SYS(prlimit64), 2, UINT64_MAX, 0 },
};

static int add_rules(scmp_filter_ctx filter)
{
	int failure = 0;
	for (size_t i = 0; i < G_N_ELEMENTS(allowed_calls) && !failure; i++)
		failure = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed_calls[i], 0);
	for (size_t i = 0; i < G_N_ELEMENTS(conditional_calls) && !failure; i++) {
		const struct conditional_call *one = &conditional_calls[i];
		failure = seccomp_rule_add(
			filter, SCMP_ACT_ALLOW, one->call, 1,
			SCMP_CMP(one->argument, SCMP_CMP_MASKED_EQ, one->mask, one->value));
	}
	/* abort() needs signals to the process itself. */
	if (!failure)
		failure = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
					   SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	/* The C library falls back to clone(2), whose flags a filter can see. */
	if (!failure)
		failure = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return failure;
}

static bool forbid_calls(GError **error)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int failure = filter ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) : -ENOMEM;
	if (!failure)
		failure = add_rules(filter);
	if (!failure)
		failure = seccomp_load(filter);
	seccomp_release(filter);
	return !failure || report_failure("seccomp", -failure, error);
}

/* ---- all of it --------------------------------------------------------- */

/* Nobody who is gone needs the work. */
static bool follow_parent(void)
{
	const pid_t parent = getppid();
	return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}

bool vms_confine_process(uint64_t memory, GError **error)
{
	capng_clear(CAPNG_SELECT_ALL);
	if (!follow_parent())
		return report_failure("PR_SET_PDEATHSIG", errno, error);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0)
		return report_failure("PR_SET_NO_NEW_PRIVS", errno, error);
	if (!set_limits(memory))
		return report_failure("limits", errno, error);
	if (!forbid_by_landlock())
		return report_failure("Landlock", errno, error);
	/* A user without rights cannot lower the bounding set, and has no use for it. */
	if (capng_apply(CAPNG_SELECT_BOUNDS) != 0 && geteuid() == 0)
		return report_failure("capabilities", EPERM, error);
	if (capng_apply(CAPNG_SELECT_CAPS) != 0)
		return report_failure("capabilities", EPERM, error);
	return forbid_calls(error);
}
