/* SPDX-License-Identifier: MIT */
#include "syscall_names.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* A number has a name if its bits in `mask` are `value`. */
struct row {
	const char *name;
	uint32_t value, mask;
};

struct syscall_names {
	const struct row *rows; /* names of several bits come before those of single bits */
	size_t n;
};

/* Each macro uses #name itself: another macro in between would turn SEEK_CUR into "1". */
#define FLAG(name)                                                                                 \
	{                                                                                          \
#name, (uint32_t)(name), (uint32_t)(name)                                          \
	}
#define FIELD(name, mask)                                                                          \
	{                                                                                          \
#name, (uint32_t)(name), mask                                                      \
	}
#define ALL(name)                                                                                  \
	{                                                                                          \
#name, (uint32_t)(name), UINT32_MAX                                                \
	} /* the number is nothing else */
#define NAMES(rows)                                                                                \
	{                                                                                          \
		rows, G_N_ELEMENTS(rows)                                                           \
	}

/* ---- files ---------------------------------------------------------------------------- */

/*
 * Flags that differ between architectures are numbers here, because the host may differ from the
 * guest.
 */
#define OPEN_FLAGS(direct, largefile, directory, nofollow)                                         \
	FIELD(O_RDONLY, 3), FIELD(O_WRONLY, 3), FIELD(O_RDWR, 3), FLAG(O_CREAT), FLAG(O_EXCL),     \
		FLAG(O_NOCTTY), FLAG(O_TRUNC), FLAG(O_APPEND), FLAG(O_NONBLOCK),                   \
		{ "O_SYNC", 04010000, 04010000 }, FLAG(O_DSYNC), FLAG(O_ASYNC),                    \
		{ "O_DIRECT", direct, direct }, { "O_LARGEFILE", largefile, largefile },           \
		{ "O_TMPFILE", 020000000 | (directory), 020000000 | (directory) },                 \
		{ "O_NOFOLLOW", nofollow, nofollow }, FLAG(O_NOATIME), FLAG(O_CLOEXEC),            \
		FLAG(O_PATH),                                                                      \
	{                                                                                          \
		"O_DIRECTORY", directory, directory                                                \
	}

static const struct row open_x86_64[] = { OPEN_FLAGS(040000, 0100000, 0200000, 0400000) };
static const struct row open_aarch64[] = { OPEN_FLAGS(0200000, 0400000, 040000, 0100000) };
static const struct row at_flags[] = { FLAG(AT_SYMLINK_NOFOLLOW), FLAG(AT_REMOVEDIR),
				       FLAG(AT_SYMLINK_FOLLOW), FLAG(AT_NO_AUTOMOUNT),
				       FLAG(AT_EMPTY_PATH) };
static const struct row statx_flags[] = {
	FIELD(AT_STATX_SYNC_AS_STAT, AT_STATX_SYNC_TYPE),
	FIELD(AT_STATX_FORCE_SYNC, AT_STATX_SYNC_TYPE),
	FIELD(AT_STATX_DONT_SYNC, AT_STATX_SYNC_TYPE),
	FLAG(AT_SYMLINK_NOFOLLOW),
	FLAG(AT_NO_AUTOMOUNT),
	FLAG(AT_EMPTY_PATH),
};
static const struct row eaccess_flags[] = { FLAG(AT_EACCESS), FLAG(AT_SYMLINK_NOFOLLOW),
					    FLAG(AT_EMPTY_PATH) };
static const struct row access_modes[] = { ALL(F_OK), FLAG(R_OK), FLAG(W_OK), FLAG(X_OK) };
static const struct row statx_masks[] = {
	FLAG(STATX_ALL),    FLAG(STATX_BASIC_STATS), FLAG(STATX_TYPE),	 FLAG(STATX_MODE),
	FLAG(STATX_NLINK),  FLAG(STATX_UID),	     FLAG(STATX_GID),	 FLAG(STATX_ATIME),
	FLAG(STATX_MTIME),  FLAG(STATX_CTIME),	     FLAG(STATX_INO),	 FLAG(STATX_SIZE),
	FLAG(STATX_BLOCKS), FLAG(STATX_BTIME),	     FLAG(STATX_MNT_ID),
};
static const struct row whences[] = { ALL(SEEK_SET), ALL(SEEK_CUR), ALL(SEEK_END), ALL(SEEK_DATA),
				      ALL(SEEK_HOLE) };
static const struct row fcntl_commands[] = {
	ALL(F_DUPFD),	   ALL(F_GETFD),      ALL(F_SETFD),	ALL(F_GETFL),
	ALL(F_SETFL),	   ALL(F_GETLK),      ALL(F_SETLK),	ALL(F_SETLKW),
	ALL(F_SETOWN),	   ALL(F_GETOWN),     ALL(F_SETSIG),	ALL(F_GETSIG),
	ALL(F_SETOWN_EX),  ALL(F_OFD_GETLK),  ALL(F_OFD_SETLK), ALL(F_OFD_SETLKW),
	ALL(F_SETLEASE),   ALL(F_GETLEASE),   ALL(F_NOTIFY),	ALL(F_DUPFD_CLOEXEC),
	ALL(F_SETPIPE_SZ), ALL(F_GETPIPE_SZ), ALL(F_ADD_SEALS), ALL(F_GET_SEALS),
};
static const struct row ioctl_requests[] = {
	ALL(TCGETS),	ALL(TCSETS),	ALL(TCSETSW),	   ALL(TCSETSF),    ALL(TCSBRK),
	ALL(TCFLSH),	ALL(TIOCGPGRP), ALL(TIOCSPGRP),	   ALL(TIOCGWINSZ), ALL(TIOCSWINSZ),
	ALL(TIOCSCTTY), ALL(TIOCNOTTY), ALL(TIOCGSID),	   ALL(FIONREAD),   ALL(FIONBIO),
	ALL(FIOCLEX),	ALL(FIONCLEX),	ALL(BLKGETSIZE64),
};
static const struct row flock_operations[] = { FIELD(LOCK_SH, 11), FIELD(LOCK_EX, 11),
					       FIELD(LOCK_UN, 11), FLAG(LOCK_NB) };
static const struct row rename_flags[] = { FLAG(RENAME_NOREPLACE), FLAG(RENAME_EXCHANGE),
					   FLAG(RENAME_WHITEOUT) };
static const struct row fallocate_modes[] = {
	FLAG(FALLOC_FL_KEEP_SIZE),  FLAG(FALLOC_FL_PUNCH_HOLE),	  FLAG(FALLOC_FL_COLLAPSE_RANGE),
	FLAG(FALLOC_FL_ZERO_RANGE), FLAG(FALLOC_FL_INSERT_RANGE), FLAG(FALLOC_FL_UNSHARE_RANGE),
};
static const struct row splice_flags[] = { FLAG(SPLICE_F_MOVE), FLAG(SPLICE_F_NONBLOCK),
					   FLAG(SPLICE_F_MORE), FLAG(SPLICE_F_GIFT) };
static const struct row mount_flags[] = {
	FLAG(MS_RDONLY),      FLAG(MS_NOSUID),	   FLAG(MS_NODEV),	 FLAG(MS_NOEXEC),
	FLAG(MS_SYNCHRONOUS), FLAG(MS_REMOUNT),	   FLAG(MS_MANDLOCK),	 FLAG(MS_DIRSYNC),
	FLAG(MS_NOATIME),     FLAG(MS_NODIRATIME), FLAG(MS_BIND),	 FLAG(MS_MOVE),
	FLAG(MS_REC),	      FLAG(MS_SILENT),	   FLAG(MS_PRIVATE),	 FLAG(MS_SLAVE),
	FLAG(MS_SHARED),      FLAG(MS_RELATIME),   FLAG(MS_STRICTATIME), FLAG(MS_LAZYTIME),
};
static const struct row umount_flags[] = { FLAG(MNT_FORCE), FLAG(MNT_DETACH), FLAG(MNT_EXPIRE),
					   FLAG(UMOUNT_NOFOLLOW) };
static const struct row inotify_masks[] = {
	FLAG(IN_ACCESS),	FLAG(IN_MODIFY),      FLAG(IN_ATTRIB),	    FLAG(IN_CLOSE_WRITE),
	FLAG(IN_CLOSE_NOWRITE), FLAG(IN_OPEN),	      FLAG(IN_MOVED_FROM),  FLAG(IN_MOVED_TO),
	FLAG(IN_CREATE),	FLAG(IN_DELETE),      FLAG(IN_DELETE_SELF), FLAG(IN_MOVE_SELF),
	FLAG(IN_ONLYDIR),	FLAG(IN_DONT_FOLLOW), FLAG(IN_EXCL_UNLINK), FLAG(IN_MASK_ADD),
	FLAG(IN_ISDIR),		FLAG(IN_ONESHOT),
};
static const struct row pipe_flags[] = { FLAG(O_NONBLOCK),
					 FLAG(O_CLOEXEC),
					 { "O_DIRECT", 040000, 040000 } };
static const struct row timerfd_flags[] = { FLAG(TFD_CLOEXEC), FLAG(TFD_NONBLOCK) };
static const struct row signalfd_flags[] = { FLAG(SFD_CLOEXEC), FLAG(SFD_NONBLOCK) };
static const struct row inotify_flags[] = { FLAG(IN_NONBLOCK), FLAG(IN_CLOEXEC) };
static const struct row epoll_flags[] = { FLAG(EPOLL_CLOEXEC) };
static const struct row file_types[] = {
	FIELD(S_IFSOCK, S_IFMT), FIELD(S_IFLNK, S_IFMT), FIELD(S_IFREG, S_IFMT),
	FIELD(S_IFBLK, S_IFMT),	 FIELD(S_IFDIR, S_IFMT), FIELD(S_IFCHR, S_IFMT),
	FIELD(S_IFIFO, S_IFMT),	 FLAG(S_ISUID),		 FLAG(S_ISGID),
	FLAG(S_ISVTX),
};
static const struct row descriptor_state[] = { FLAG(FD_CLOEXEC) };
static const struct row statx_attributes[] = {
	FLAG(STATX_ATTR_COMPRESSED), FLAG(STATX_ATTR_IMMUTABLE), FLAG(STATX_ATTR_APPEND),
	FLAG(STATX_ATTR_NODUMP),     FLAG(STATX_ATTR_ENCRYPTED), FLAG(STATX_ATTR_AUTOMOUNT),
	FLAG(STATX_ATTR_MOUNT_ROOT), FLAG(STATX_ATTR_VERITY),	 FLAG(STATX_ATTR_DAX),
};
static const struct row file_systems[] = {
	ALL(EXT4_SUPER_MAGIC),	  ALL(TMPFS_MAGIC),	  ALL(RAMFS_MAGIC),
	ALL(PROC_SUPER_MAGIC),	  ALL(SYSFS_MAGIC),	  ALL(DEVPTS_SUPER_MAGIC),
	ALL(CGROUP2_SUPER_MAGIC), ALL(BTRFS_SUPER_MAGIC), ALL(OVERLAYFS_SUPER_MAGIC),
	ALL(XFS_SUPER_MAGIC),	  ALL(NFS_SUPER_MAGIC),	  ALL(PIPEFS_MAGIC),
	ALL(SOCKFS_MAGIC),
};
static const struct row mount_state[] = {
	{ "ST_VALID", 0x20, 0x20 },
	FLAG(ST_RDONLY),
	FLAG(ST_NOSUID),
	FLAG(ST_NODEV),
	FLAG(ST_NOEXEC),
	FLAG(ST_SYNCHRONOUS),
	FLAG(ST_MANDLOCK),
	FLAG(ST_NOATIME),
	FLAG(ST_NODIRATIME),
	{ "ST_RELATIME", 4096, 4096 },
	{ "ST_NOSYMFOLLOW", 0x2000, 0x2000 },
};
static const struct row resolutions[] = {
	FLAG(RESOLVE_NO_XDEV), FLAG(RESOLVE_NO_MAGICLINKS), FLAG(RESOLVE_NO_SYMLINKS),
	FLAG(RESOLVE_BENEATH), FLAG(RESOLVE_IN_ROOT),	    FLAG(RESOLVE_CACHED),
};
static const struct row poll_events[] = {
	FLAG(POLLIN),	  FLAG(POLLPRI),    FLAG(POLLOUT),    FLAG(POLLRDNORM),
	FLAG(POLLRDBAND), FLAG(POLLWRNORM), FLAG(POLLWRBAND), FLAG(POLLERR),
	FLAG(POLLHUP),	  FLAG(POLLNVAL),   FLAG(POLLRDHUP),
};
static const struct row epoll_events[] = {
	FLAG(EPOLLIN),	   FLAG(EPOLLPRI),     FLAG(EPOLLOUT),	  FLAG(EPOLLRDNORM),
	FLAG(EPOLLRDBAND), FLAG(EPOLLWRNORM),  FLAG(EPOLLWRBAND), FLAG(EPOLLMSG),
	FLAG(EPOLLERR),	   FLAG(EPOLLHUP),     FLAG(EPOLLRDHUP),  FLAG(EPOLLEXCLUSIVE),
	FLAG(EPOLLWAKEUP), FLAG(EPOLLONESHOT), FLAG(EPOLLET),
};
static const struct row eventfd_flags[] = { FLAG(EFD_SEMAPHORE), FLAG(EFD_CLOEXEC),
					    FLAG(EFD_NONBLOCK) };

/* ---- memory --------------------------------------------------------------------------- */

static const struct row protections[] = {
	ALL(PROT_NONE),	 FLAG(PROT_READ),      FLAG(PROT_WRITE),
	FLAG(PROT_EXEC), FLAG(PROT_GROWSDOWN), FLAG(PROT_GROWSUP)
};
static const struct row mmap_flags[] = {
	FIELD(MAP_SHARED, MAP_TYPE),
	FIELD(MAP_PRIVATE, MAP_TYPE),
	FIELD(MAP_SHARED_VALIDATE, MAP_TYPE),
	FLAG(MAP_FIXED),
	FLAG(MAP_ANONYMOUS),
	{ "MAP_32BIT", 0x40, 0x40 },
	FLAG(MAP_GROWSDOWN),
	FLAG(MAP_DENYWRITE),
	FLAG(MAP_LOCKED),
	FLAG(MAP_NORESERVE),
	FLAG(MAP_POPULATE),
	FLAG(MAP_NONBLOCK),
	FLAG(MAP_STACK),
	FLAG(MAP_HUGETLB),
	FLAG(MAP_SYNC),
	FLAG(MAP_FIXED_NOREPLACE),
};
static const struct row mremap_flags[] = { FLAG(MREMAP_MAYMOVE), FLAG(MREMAP_FIXED),
					   FLAG(MREMAP_DONTUNMAP) };
static const struct row msync_flags[] = { FLAG(MS_ASYNC), FLAG(MS_INVALIDATE), FLAG(MS_SYNC) };
static const struct row advices[] = {
	ALL(MADV_NORMAL),     ALL(MADV_RANDOM),	       ALL(MADV_SEQUENTIAL),
	ALL(MADV_WILLNEED),   ALL(MADV_DONTNEED),      ALL(MADV_FREE),
	ALL(MADV_REMOVE),     ALL(MADV_DONTFORK),      ALL(MADV_DOFORK),
	ALL(MADV_MERGEABLE),  ALL(MADV_UNMERGEABLE),   ALL(MADV_HUGEPAGE),
	ALL(MADV_NOHUGEPAGE), ALL(MADV_DONTDUMP),      ALL(MADV_DODUMP),
	ALL(MADV_WIPEONFORK), ALL(MADV_KEEPONFORK),    ALL(MADV_COLD),
	ALL(MADV_PAGEOUT),    ALL(MADV_POPULATE_READ), ALL(MADV_POPULATE_WRITE),
};
static const struct row memfd_flags[] = { FLAG(MFD_CLOEXEC), FLAG(MFD_ALLOW_SEALING),
					  FLAG(MFD_HUGETLB) };
static const struct row mlock_flags[] = { FLAG(MCL_CURRENT), FLAG(MCL_FUTURE), FLAG(MCL_ONFAULT) };

/* ---- processes and signals ------------------------------------------------------------- */

#define SIGNALS(as)                                                                                \
	as(SIGHUP), as(SIGINT), as(SIGQUIT), as(SIGILL), as(SIGTRAP), as(SIGABRT), as(SIGBUS),     \
		as(SIGFPE), as(SIGKILL), as(SIGUSR1), as(SIGSEGV), as(SIGUSR2), as(SIGPIPE),       \
		as(SIGALRM), as(SIGTERM), as(SIGSTKFLT), as(SIGCHLD), as(SIGCONT), as(SIGSTOP),    \
		as(SIGTSTP), as(SIGTTIN), as(SIGTTOU), as(SIGURG), as(SIGXCPU), as(SIGXFSZ),       \
		as(SIGVTALRM), as(SIGPROF), as(SIGWINCH), as(SIGIO), as(SIGPWR), as(SIGSYS)
/* The lowest byte is the signal to the parent. */
#define AT_EXIT(name)                                                                              \
	{                                                                                          \
#name, name, 0xff                                                                  \
	}

static const struct row signals[] = { SIGNALS(ALL) };
static const struct row clone_flags[] = {
	FLAG(CLONE_VM),
	FLAG(CLONE_FS),
	FLAG(CLONE_FILES),
	FLAG(CLONE_SIGHAND),
	FLAG(CLONE_PIDFD),
	FLAG(CLONE_PTRACE),
	FLAG(CLONE_VFORK),
	FLAG(CLONE_PARENT),
	FLAG(CLONE_THREAD),
	FLAG(CLONE_NEWNS),
	FLAG(CLONE_SYSVSEM),
	FLAG(CLONE_SETTLS),
	FLAG(CLONE_PARENT_SETTID),
	FLAG(CLONE_CHILD_CLEARTID),
	FLAG(CLONE_DETACHED),
	FLAG(CLONE_UNTRACED),
	FLAG(CLONE_CHILD_SETTID),
	FLAG(CLONE_NEWCGROUP),
	FLAG(CLONE_NEWUTS),
	FLAG(CLONE_NEWIPC),
	FLAG(CLONE_NEWUSER),
	FLAG(CLONE_NEWPID),
	FLAG(CLONE_NEWNET),
	FLAG(CLONE_IO),
	SIGNALS(AT_EXIT),
};
static const struct row action_flags[] = {
	{ "SA_RESTORER", 0x04000000, 0x04000000 },
	FLAG(SA_ONSTACK),
	FLAG(SA_RESTART),
	FLAG(SA_NODEFER),
	FLAG(SA_RESETHAND),
	FLAG(SA_NOCLDSTOP),
	FLAG(SA_NOCLDWAIT),
	FLAG(SA_SIGINFO),
};
static const struct row stack_flags[] = { FLAG(SS_ONSTACK), FLAG(SS_DISABLE) };
static const struct row mask_changes[] = { ALL(SIG_BLOCK), ALL(SIG_UNBLOCK), ALL(SIG_SETMASK) };
static const struct row wait_options[] = { FLAG(WNOHANG),
					   FLAG(WUNTRACED),
					   FLAG(WEXITED),
					   FLAG(WCONTINUED),
					   FLAG(WNOWAIT),
					   { "__WALL", 0x40000000, 0x40000000 },
					   { "__WCLONE", 0x80000000, 0x80000000 } };
static const struct row wait_whom[] = { ALL(P_ALL), ALL(P_PID), ALL(P_PGID), ALL(P_PIDFD) };
/* The operation, and whether the lock is private to the process. */
#define FUTEX_MASK (FUTEX_CMD_MASK | FUTEX_PRIVATE_FLAG)
static const struct row futex_operations[] = {
	FIELD(FUTEX_WAIT_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_WAIT, FUTEX_MASK),
	FIELD(FUTEX_WAKE_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_WAKE, FUTEX_MASK),
	FIELD(FUTEX_REQUEUE_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_REQUEUE, FUTEX_MASK),
	FIELD(FUTEX_CMP_REQUEUE_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_CMP_REQUEUE, FUTEX_MASK),
	FIELD(FUTEX_WAKE_OP_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_WAKE_OP, FUTEX_MASK),
	FIELD(FUTEX_LOCK_PI_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_LOCK_PI, FUTEX_MASK),
	FIELD(FUTEX_UNLOCK_PI_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_UNLOCK_PI, FUTEX_MASK),
	FIELD(FUTEX_TRYLOCK_PI_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_TRYLOCK_PI, FUTEX_MASK),
	FIELD(FUTEX_WAIT_BITSET_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_WAIT_BITSET, FUTEX_MASK),
	FIELD(FUTEX_WAKE_BITSET_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_WAKE_BITSET, FUTEX_MASK),
	FIELD(FUTEX_WAIT_REQUEUE_PI_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_WAIT_REQUEUE_PI, FUTEX_MASK),
	FIELD(FUTEX_CMP_REQUEUE_PI_PRIVATE, FUTEX_MASK),
	FIELD(FUTEX_CMP_REQUEUE_PI, FUTEX_MASK),
	FLAG(FUTEX_CLOCK_REALTIME),
};
static const struct row prctl_options[] = {
	ALL(PR_SET_PDEATHSIG),	  ALL(PR_GET_PDEATHSIG),
	ALL(PR_GET_DUMPABLE),	  ALL(PR_SET_DUMPABLE),
	ALL(PR_SET_KEEPCAPS),	  ALL(PR_SET_NAME),
	ALL(PR_GET_NAME),	  ALL(PR_GET_SECCOMP),
	ALL(PR_SET_SECCOMP),	  ALL(PR_CAPBSET_READ),
	ALL(PR_CAPBSET_DROP),	  ALL(PR_SET_SECUREBITS),
	ALL(PR_SET_TIMERSLACK),	  ALL(PR_GET_TIMERSLACK),
	ALL(PR_SET_MM),		  ALL(PR_SET_CHILD_SUBREAPER),
	ALL(PR_SET_NO_NEW_PRIVS), ALL(PR_GET_NO_NEW_PRIVS),
	ALL(PR_SET_THP_DISABLE),  ALL(PR_CAP_AMBIENT),
};
/* Only x86-64 has arch_prctl. */
static const struct row arch_prctl_options[] = { { "ARCH_SET_GS", 0x1001, UINT32_MAX },
						 { "ARCH_SET_FS", 0x1002, UINT32_MAX },
						 { "ARCH_GET_FS", 0x1003, UINT32_MAX },
						 { "ARCH_GET_GS", 0x1004, UINT32_MAX },
						 { "ARCH_CET_STATUS", 0x3001, UINT32_MAX } };
static const struct row resources[] = {
	ALL(RLIMIT_CPU),      ALL(RLIMIT_FSIZE), ALL(RLIMIT_DATA),   ALL(RLIMIT_STACK),
	ALL(RLIMIT_CORE),     ALL(RLIMIT_RSS),	 ALL(RLIMIT_NPROC),  ALL(RLIMIT_NOFILE),
	ALL(RLIMIT_MEMLOCK),  ALL(RLIMIT_AS),	 ALL(RLIMIT_LOCKS),  ALL(RLIMIT_SIGPENDING),
	ALL(RLIMIT_MSGQUEUE), ALL(RLIMIT_NICE),	 ALL(RLIMIT_RTPRIO), ALL(RLIMIT_RTTIME),
};
static const struct row usage_of[] = { ALL(RUSAGE_SELF), ALL(RUSAGE_CHILDREN), ALL(RUSAGE_THREAD) };
static const struct row priority_of[] = { ALL(PRIO_PROCESS), ALL(PRIO_PGRP), ALL(PRIO_USER) };
static const struct row policies[] = { FIELD(SCHED_OTHER, 0xff), FIELD(SCHED_FIFO, 0xff),
				       FIELD(SCHED_RR, 0xff),	 FIELD(SCHED_BATCH, 0xff),
				       FIELD(SCHED_IDLE, 0xff),	 FIELD(SCHED_DEADLINE, 0xff),
				       FLAG(SCHED_RESET_ON_FORK) };
static const struct row random_flags[] = { FLAG(GRND_NONBLOCK), FLAG(GRND_RANDOM),
					   FLAG(GRND_INSECURE) };

/* ---- time ------------------------------------------------------------------------------ */

static const struct row clocks[] = {
	ALL(CLOCK_REALTIME),	      ALL(CLOCK_MONOTONIC),	ALL(CLOCK_PROCESS_CPUTIME_ID),
	ALL(CLOCK_THREAD_CPUTIME_ID), ALL(CLOCK_MONOTONIC_RAW), ALL(CLOCK_REALTIME_COARSE),
	ALL(CLOCK_MONOTONIC_COARSE),  ALL(CLOCK_BOOTTIME),	ALL(CLOCK_REALTIME_ALARM),
	ALL(CLOCK_BOOTTIME_ALARM),    ALL(CLOCK_TAI),
};
static const struct row timer_flags[] = { FLAG(TIMER_ABSTIME) };

/* ---- sockets and events ---------------------------------------------------------------- */

static const struct row families[] = { ALL(AF_UNSPEC), ALL(AF_UNIX),	ALL(AF_INET),
				       ALL(AF_INET6),  ALL(AF_NETLINK), ALL(AF_PACKET),
				       ALL(AF_ALG),    ALL(AF_VSOCK),	ALL(AF_BLUETOOTH) };
static const struct row socket_types[] = {
	FIELD(SOCK_STREAM, 15),	   FIELD(SOCK_DGRAM, 15),  FIELD(SOCK_RAW, 15), FIELD(SOCK_RDM, 15),
	FIELD(SOCK_SEQPACKET, 15), FIELD(SOCK_PACKET, 15), FLAG(SOCK_CLOEXEC),	FLAG(SOCK_NONBLOCK),
};
static const struct row accept_flags[] = { FLAG(SOCK_CLOEXEC), FLAG(SOCK_NONBLOCK) };
static const struct row message_flags[] = {
	FLAG(MSG_OOB),	      FLAG(MSG_PEEK),	  FLAG(MSG_DONTROUTE), FLAG(MSG_CTRUNC),
	FLAG(MSG_TRUNC),      FLAG(MSG_DONTWAIT), FLAG(MSG_EOR),       FLAG(MSG_WAITALL),
	FLAG(MSG_CONFIRM),    FLAG(MSG_ERRQUEUE), FLAG(MSG_NOSIGNAL),  FLAG(MSG_MORE),
	FLAG(MSG_WAITFORONE), FLAG(MSG_ZEROCOPY), FLAG(MSG_FASTOPEN),  FLAG(MSG_CMSG_CLOEXEC),
};
static const struct row control_types[] = { ALL(SCM_RIGHTS), ALL(SCM_CREDENTIALS) };
static const struct row socket_options[] = {
	ALL(SO_REUSEADDR),  ALL(SO_TYPE),     ALL(SO_ERROR),	ALL(SO_DONTROUTE),
	ALL(SO_BROADCAST),  ALL(SO_SNDBUF),   ALL(SO_RCVBUF),	ALL(SO_KEEPALIVE),
	ALL(SO_OOBINLINE),  ALL(SO_PRIORITY), ALL(SO_LINGER),	ALL(SO_REUSEPORT),
	ALL(SO_PASSCRED),   ALL(SO_PEERCRED), ALL(SO_RCVLOWAT), ALL(SO_SNDLOWAT),
	ALL(SO_ACCEPTCONN), ALL(SO_PROTOCOL), ALL(SO_DOMAIN),	ALL(SO_TIMESTAMP),
};
static const struct row protocols[] = { ALL(IPPROTO_IP),   ALL(IPPROTO_ICMP), ALL(IPPROTO_TCP),
					ALL(IPPROTO_UDP),  ALL(IPPROTO_IPV6), ALL(IPPROTO_ICMPV6),
					ALL(IPPROTO_SCTP), ALL(IPPROTO_RAW) };
static const struct row netlink_protocols[] = {
	ALL(NETLINK_ROUTE),   ALL(NETLINK_USERSOCK),  ALL(NETLINK_SOCK_DIAG),
	ALL(NETLINK_AUDIT),   ALL(NETLINK_NETFILTER), ALL(NETLINK_KOBJECT_UEVENT),
	ALL(NETLINK_GENERIC),
};
static const struct row shutdowns[] = { ALL(SHUT_RD), ALL(SHUT_WR), ALL(SHUT_RDWR) };
static const struct row levels[] = { ALL(SOL_SOCKET),
				     { "SOL_IP", 0, UINT32_MAX },
				     { "SOL_TCP", 6, UINT32_MAX },
				     { "SOL_UDP", 17, UINT32_MAX },
				     { "SOL_IPV6", 41, UINT32_MAX },
				     ALL(SOL_PACKET),
				     ALL(SOL_NETLINK) };
static const struct row epoll_operations[] = { ALL(EPOLL_CTL_ADD), ALL(EPOLL_CTL_DEL),
					       ALL(EPOLL_CTL_MOD) };

/* ---- names by argument ----------------------------------------------------------------- */

static const struct {
	const char *calls; /* words */
	unsigned index;
	struct syscall_names names;
} arguments[] = {
	{ "access", 1, NAMES(access_modes) },
	{ "faccessat faccessat2", 2, NAMES(access_modes) },
	{ "faccessat2", 3, NAMES(eaccess_flags) },
	{ "unlinkat", 2, NAMES(at_flags) },
	{ "newfstatat utimensat execveat", 3, NAMES(at_flags) },
	{ "statx", 2, NAMES(statx_flags) },
	{ "fchownat linkat execveat", 4, NAMES(at_flags) },
	{ "statx", 3, NAMES(statx_masks) },
	{ "lseek", 2, NAMES(whences) },
	{ "_llseek", 4, NAMES(whences) },
	{ "fcntl", 1, NAMES(fcntl_commands) },
	{ "ioctl", 1, NAMES(ioctl_requests) },
	{ "flock", 1, NAMES(flock_operations) },
	{ "renameat2", 4, NAMES(rename_flags) },
	{ "fallocate", 1, NAMES(fallocate_modes) },
	{ "splice", 5, NAMES(splice_flags) },
	{ "tee vmsplice", 3, NAMES(splice_flags) },
	{ "mount", 3, NAMES(mount_flags) },
	{ "umount2", 1, NAMES(umount_flags) },
	{ "inotify_add_watch", 2, NAMES(inotify_masks) },
	{ "pipe2", 1, NAMES(pipe_flags) },
	{ "timerfd_create", 1, NAMES(timerfd_flags) },
	{ "dup3", 2, NAMES(pipe_flags) },
	{ "inotify_init1", 0, NAMES(inotify_flags) },
	{ "epoll_create1", 0, NAMES(epoll_flags) },
	{ "signalfd4", 3, NAMES(signalfd_flags) },
	{ "eventfd2", 1, NAMES(eventfd_flags) },
	{ "mmap mprotect pkey_mprotect", 2, NAMES(protections) },
	{ "mmap", 3, NAMES(mmap_flags) },
	{ "mremap", 3, NAMES(mremap_flags) },
	{ "msync", 2, NAMES(msync_flags) },
	{ "madvise", 2, NAMES(advices) },
	{ "memfd_create", 1, NAMES(memfd_flags) },
	{ "mlockall", 0, NAMES(mlock_flags) },
	{ "kill tkill", 1, NAMES(signals) },
	{ "rt_sigaction", 0, NAMES(signals) },
	{ "tgkill", 2, NAMES(signals) },
	{ "rt_sigprocmask", 0, NAMES(mask_changes) },
	{ "clone unshare", 0, NAMES(clone_flags) },
	{ "setns", 1, NAMES(clone_flags) },
	{ "wait4", 2, NAMES(wait_options) },
	{ "waitid", 3, NAMES(wait_options) },
	{ "waitid", 0, NAMES(wait_whom) },
	{ "futex", 1, NAMES(futex_operations) },
	{ "prctl", 0, NAMES(prctl_options) },
	{ "arch_prctl", 0, NAMES(arch_prctl_options) },
	{ "getrlimit setrlimit", 0, NAMES(resources) },
	{ "prlimit64", 1, NAMES(resources) },
	{ "getrusage", 0, NAMES(usage_of) },
	{ "getpriority setpriority", 0, NAMES(priority_of) },
	{ "sched_setscheduler", 1, NAMES(policies) },
	{ "getrandom", 2, NAMES(random_flags) },
	{ "clock_gettime clock_settime clock_getres clock_nanosleep clock_adjtime timer_create "
	  "timerfd_create",
	  0, NAMES(clocks) },
	{ "clock_nanosleep timerfd_settime timer_settime", 1, NAMES(timer_flags) },
	{ "socket socketpair", 0, NAMES(families) },
	{ "socket socketpair", 1, NAMES(socket_types) },
	{ "accept4", 3, NAMES(accept_flags) },
	{ "sendto recvfrom sendmmsg recvmmsg", 3, NAMES(message_flags) },
	{ "sendmsg recvmsg", 2, NAMES(message_flags) },
	{ "shutdown", 1, NAMES(shutdowns) },
	{ "setsockopt getsockopt", 1, NAMES(levels) },
	{ "setsockopt getsockopt", 2, NAMES(socket_options) },
	{ "epoll_ctl", 1, NAMES(epoll_operations) },
};

static const struct {
	const char *structure, *member;
	struct syscall_names names;
} of_members[] = {
	{ "fcntl", "F_SETFD", NAMES(descriptor_state) },
	{ "statx", "stx_mask", NAMES(statx_masks) },
	{ "statx", "stx_attributes", NAMES(statx_attributes) },
	{ "statfs", "f_type", NAMES(file_systems) },
	{ "statfs", "f_flags", NAMES(mount_state) },
	{ "pollfd", "events", NAMES(poll_events) },
	{ "pollfd", "revents", NAMES(poll_events) },
	{ "epoll_event", "events", NAMES(epoll_events) },
	{ "sigaction", "sa_flags", NAMES(action_flags) },
	{ "sigaltstack", "ss_flags", NAMES(stack_flags) },
	{ "open_how", "resolve", NAMES(resolutions) },
	{ "clone_args", "flags", NAMES(clone_flags) },
	{ "clone_args", "exit_signal", NAMES(signals) },
	{ "socket", "inet", NAMES(protocols) },
	{ "socket", "netlink", NAMES(netlink_protocols) },
	{ "sockaddr", "sa_family", NAMES(families) },
	{ "cmsghdr", "cmsg_level", NAMES(levels) },
	{ "cmsghdr", "cmsg_type", NAMES(control_types) },
	{ "user_msghdr", "msg_flags", NAMES(message_flags) },
};

const struct syscall_names *syscall_names_of_member(const char *structure, const char *member)
{
	for (size_t i = 0; i < G_N_ELEMENTS(of_members); i++)
		if (strcmp(of_members[i].structure, structure) == 0 &&
		    strcmp(of_members[i].member, member) == 0)
			return &of_members[i].names;
	return NULL;
}

static const struct syscall_names *get_open_names(const struct vms_arch *arch, const char *call,
						  unsigned index)
{
	static const struct syscall_names x86_64 = NAMES(open_x86_64),
					  aarch64 = NAMES(open_aarch64);
	const bool is_flags = index == (strcmp(call, "open") == 0 ? 1U : 2U);
	if (!is_flags || (strcmp(call, "open") != 0 && strcmp(call, "openat") != 0))
		return NULL;
	return arch == &vms_arch_aarch64 ? &aarch64 : &x86_64;
}

bool syscall_has_word(const char *words, const char *word)
{
	const size_t length = strlen(word);
	for (const char *at = words; length && (at = strstr(at, word)); at += length)
		if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
			return true;
	return false;
}

const struct syscall_names *syscall_names_of(const struct vms_arch *arch, const char *call,
					     unsigned index)
{
	for (size_t i = 0; i < G_N_ELEMENTS(arguments); i++)
		if (arguments[i].index == index && syscall_has_word(arguments[i].calls, call))
			return &arguments[i].names;
	return get_open_names(arch, call, index);
}

void syscall_append_names(GString *out, const struct syscall_names *names, uint64_t number)
{
	const char *between = "";
	uint32_t taken = 0, low = (uint32_t)number;
	for (size_t i = 0; i < names->n; i++) {
		const struct row *row = &names->rows[i];
		if ((taken & row->mask) || (low & row->mask) != row->value)
			continue;
		g_string_append_printf(out, "%s%s", between, row->name);
		taken |= row->mask;
		between = "|";
	}
	const uint64_t rest = number & ~(uint64_t)taken;
	if (rest)
		g_string_append_printf(out, "%s0x%" G_GINT64_MODIFIER "x", between, rest);
	else if (!*between)
		g_string_append_c(out, '0');
}

void syscall_append_file_mode(GString *out, uint64_t mode)
{
	static const struct syscall_names names = NAMES(file_types);
	const uint64_t permissions = 0777;
	if (mode & ~permissions) {
		syscall_append_names(out, &names, mode & ~permissions);
		g_string_append_c(out, '|');
	}
	g_string_append_printf(out, "%#03o", (unsigned)(mode & permissions));
}
