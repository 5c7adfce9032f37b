/* SPDX-License-Identifier: MIT */
#include "syscall_arguments.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

static uint64_t get_argument(const struct syscall_shape *shape,
			     const struct vms_flow_record *record, unsigned index)
{
	uint64_t number = 0;
	if (index < shape->call->n_arguments)
		syscall_get_argument(shape, record, index, &number);
	return number;
}

static bool is_called(const struct syscall_shape *shape, const char *words)
{
	return shape->call->is_typed && syscall_has_word(words, shape->wide_name);
}

/* ---- which arguments ---------------------------------------------------------------- */

/* Lists the arguments of a futex call by its operation. */
static unsigned choose_futex_arguments(const struct syscall_shape *shape,
				       const struct vms_flow_record *record,
				       unsigned order[VMS_SYSCALL_ARGUMENTS])
{
	switch (get_argument(shape, record, 1) & FUTEX_CMD_MASK) {
	case FUTEX_WAIT: return 4;
	case FUTEX_WAIT_BITSET: order[4] = 5; return 5;
	case FUTEX_WAKE_BITSET: order[3] = 5; return 4;
	case FUTEX_WAKE: return 3;
	case FUTEX_LOCK_PI: order[2] = 3; return 3;
	case FUTEX_UNLOCK_PI:
	case FUTEX_TRYLOCK_PI: return 2;
	case FUTEX_REQUEUE: return 5;
	default: return 6;
	}
}

static unsigned count_fcntl_arguments(uint64_t command)
{
	return command == F_GETFD || command == F_GETFL || command == F_GETOWN ||
			       command == F_GETSIG || command == F_GETLEASE ||
			       command == F_GETPIPE_SZ || command == F_GET_SEALS
		       ? 2
		       : 3;
}

/* Lists the arguments of clone with labels, like strace: only those that the flags need. */
static unsigned choose_clone_arguments(const struct syscall_shape *shape,
				       const struct vms_flow_record *record,
				       unsigned order[VMS_SYSCALL_ARGUMENTS],
				       const char *labels[VMS_SYSCALL_ARGUMENTS])
{
	const uint64_t flags = get_argument(shape, record, 0);
	/* x86-64: flags, stack, parent_tid, child_tid, tls; aarch64: the last two swapped. */
	const bool tls_first = strcmp(shape->call->arguments[3].name, "tls") == 0;
	const unsigned child = tls_first ? 4 : 3, tls = tls_first ? 3 : 4;
	unsigned n = 0;
	order[n] = 1, labels[n++] = "child_stack=";
	order[n] = 0, labels[n++] = "flags=";
	if (flags & (CLONE_PARENT_SETTID | CLONE_PIDFD))
		order[n] = 2, labels[n++] = "parent_tid=";
	if (flags & CLONE_SETTLS)
		order[n] = tls, labels[n++] = "tls=";
	if (flags & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID))
		order[n] = child, labels[n++] = "child_tidptr=";
	return n;
}

/* True if the flags of open create a file. Only then its mode has a meaning. */
static bool makes_file(uint64_t flags)
{
	const uint64_t unnamed = 020000000; /* O_TMPFILE without O_DIRECTORY */
	return flags & (O_CREAT | unnamed);
}

static bool has_device(uint64_t mode)
{
	return S_ISCHR(mode) || S_ISBLK(mode);
}

static unsigned count_prctl_arguments(uint64_t option)
{
	switch (option) {
	case PR_GET_DUMPABLE:
	case PR_GET_KEEPCAPS:
	case PR_GET_SECUREBITS:
	case PR_GET_TIMERSLACK:
	case PR_GET_SECCOMP: return 1;
	case PR_GET_NAME:
	case PR_SET_NAME:
	case PR_GET_PDEATHSIG:
	case PR_SET_PDEATHSIG:
	case PR_SET_DUMPABLE:
	case PR_SET_KEEPCAPS:
	case PR_CAPBSET_READ:
	case PR_CAPBSET_DROP:
	case PR_SET_SECUREBITS:
	case PR_SET_TIMERSLACK: return 2;
	default: return 5;
	}
}

/* Returns how many of the arguments have a meaning. */
static unsigned count_arguments(const struct syscall_shape *shape,
				const struct vms_flow_record *record)
{
	if (is_called(shape, "open"))
		return makes_file(get_argument(shape, record, 1)) ? 3 : 2;
	if (is_called(shape, "openat"))
		return makes_file(get_argument(shape, record, 2)) ? 4 : 3;
	if (is_called(shape, "mknod"))
		return has_device(get_argument(shape, record, 1)) ? 3 : 2;
	if (is_called(shape, "mknodat"))
		return has_device(get_argument(shape, record, 2)) ? 4 : 3;
	if (is_called(shape, "fcntl"))
		return count_fcntl_arguments(get_argument(shape, record, 1));
	if (is_called(shape, "prctl"))
		return count_prctl_arguments(get_argument(shape, record, 0));
	if (is_called(shape, "mremap"))
		return get_argument(shape, record, 3) & MREMAP_FIXED ? 5 : 4;
	return shape->call->n_arguments;
}

/* Removes the upper halves of numbers in two registers. Returns how many arguments remain. */
static unsigned drop_halves(const struct syscall_shape *shape, unsigned order[],
			    const char *labels[], unsigned n)
{
	unsigned left = 0;
	for (unsigned i = 0; i < n; i++) {
		if (shape->call->word_size == 4 &&
		    g_str_has_suffix(shape->call->arguments[order[i]].name, "_high"))
			continue;
		order[left] = order[i];
		labels[left++] = labels[i];
	}
	return left;
}

unsigned syscall_choose_arguments(const struct syscall_shape *shape,
				  const struct vms_flow_record *record,
				  unsigned order[VMS_SYSCALL_ARGUMENTS],
				  const char *labels[VMS_SYSCALL_ARGUMENTS])
{
	unsigned n;
	for (unsigned i = 0; i < VMS_SYSCALL_ARGUMENTS; i++) {
		order[i] = i;
		labels[i] = "";
	}
	if (is_called(shape, "futex"))
		n = choose_futex_arguments(shape, record, order);
	else if (is_called(shape, "clone"))
		n = choose_clone_arguments(shape, record, order, labels);
	else
		n = count_arguments(shape, record);
	return drop_halves(shape, order, labels, MIN(n, shape->call->n_arguments));
}

/* ---- forms of arguments ------------------------------------------------------------- */

/* Returns the names of a descriptor's flags, or of its open file's flags. */
static const struct syscall_names *get_names_of_state(const struct syscall_shape *shape,
						      bool of_descriptor, bool of_file)
{
	return of_descriptor ? syscall_names_of_member("fcntl", "F_SETFD")
	       : of_file     ? syscall_names_of(shape->arch, "open", 1)
			     : NULL;
}

static bool is_internet(uint64_t family)
{
	return family == AF_INET || family == AF_INET6;
}

static bool takes_number(uint64_t command)
{
	return command == F_DUPFD || command == F_DUPFD_CLOEXEC || command == F_SETPIPE_SZ ||
	       command == F_SETOWN;
}

void syscall_change_form(const struct syscall_shape *shape, const struct vms_flow_record *record,
			 unsigned index, struct syscall_form *form)
{
	if (is_called(shape, "fcntl") && index == 2) {
		const uint64_t command = get_argument(shape, record, 1);
		const struct syscall_names *names =
			get_names_of_state(shape, command == F_SETFD, command == F_SETFL);
		if (names)
			*form = (struct syscall_form) { .kind = SYSCALL_NAMED,
							.size = 4,
							.names = names };
		else if (takes_number(command))
			*form = (struct syscall_form) { .kind = SYSCALL_SIGNED, .size = 4 };
	} else if (is_called(shape, "socket socketpair") && index == 2) {
		const uint64_t family = get_argument(shape, record, 0);
		form->names = syscall_names_of_member("socket", family == AF_NETLINK  ? "netlink"
								: is_internet(family) ? "inet"
										      : "");
		form->kind = form->names ? SYSCALL_NAMED : SYSCALL_SIGNED;
	} else if (is_called(shape, "prctl") && index == 1) {
		const uint64_t option = get_argument(shape, record, 0);
		if (option != PR_SET_NAME && option != PR_GET_NAME)
			*form = (struct syscall_form) { .kind = SYSCALL_HEX, .size = 8 };
	} else if (is_called(shape, "clone") && index != 0) {
		*form = (struct syscall_form) { .kind = SYSCALL_ADDRESS, .size = 8 };
	}
}

const struct syscall_names *syscall_names_of_result(const struct syscall_shape *shape,
						    const struct vms_flow_record *record)
{
	if (!is_called(shape, "fcntl"))
		return NULL;
	const uint64_t command = get_argument(shape, record, 1);
	return get_names_of_state(shape, command == F_GETFD, command == F_GETFL);
}
