/* SPDX-License-Identifier: MIT */
#include "machine/kvm/thread_call.h"

#include <glib.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>

/* The number of the call, its six arguments, the stack pointer and the program counter. */
enum { NUMBER, ARGUMENTS, SP = ARGUMENTS + 6, PC, FIELDS };

static bool read_digit(char c, unsigned base, uint64_t *value)
{
	unsigned digit;
	if (c >= '0' && c <= '9')
		digit = (unsigned)(c - '0');
	else if (base == 16 && c >= 'a' && c <= 'f')
		digit = (unsigned)(c - 'a') + 10;
	else
		return false;
	*value = *value * base + digit;
	return true;
}

/* Reads a number, in decimal or with 0x before it. Returns where it ends, or NULL. */
static const char *read_number(const char *text, uint64_t *ret)
{
	unsigned base = strncmp(text, "0x", 2) == 0 ? 16 : 10;
	const char *at = base == 16 ? text + 2 : text, *begin = at;
	*ret = 0;
	while (read_digit(*at, base, ret))
		at++;
	return at == begin ? NULL : at;
}

/* False for a thread that is in no system call, whose line has fewer fields. */
static bool read_fields(const char *text, uint64_t *fields)
{
	for (unsigned i = 0; i < FIELDS; i++) {
		text = read_number(text, &fields[i]);
		if (!text || (*text != ' ' && i < FIELDS - 1))
			return false;
		text++;
	}
	return true;
}

bool vms_thread_waits_without_limit(uint64_t number, uint64_t operation, uint64_t timeout)
{
	const uint64_t command = operation & FUTEX_CMD_MASK;
	return number == SYS_futex && timeout == 0 &&
	       (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET);
}

enum vms_thread_call vms_thread_call_parse(const char *text, int *fd)
{
	uint64_t fields[FIELDS];
	if (strncmp(text, "running", 7) == 0)
		return VMS_THREAD_RUNS;
	if (!read_fields(text, fields) || fields[SP] == 0)
		return VMS_THREAD_AWAY;
	const uint64_t *arguments = &fields[ARGUMENTS];
	if (fields[NUMBER] == SYS_ioctl && arguments[1] == VMS_KVM_RUN && arguments[0] <= INT_MAX) {
		*fd = (int)arguments[0];
		return VMS_THREAD_IN_GUEST;
	}
	return vms_thread_waits_without_limit(fields[NUMBER], arguments[1], arguments[3])
		       ? VMS_THREAD_WAITS
		       : VMS_THREAD_AWAY;
}

/* In which threads of monitors are found asleep. */
static const struct {
	uint64_t number;
	const char *name;
} waiting_calls[] = {
#ifdef SYS_poll /* not on every architecture */
	{ SYS_poll, "poll" },
	{ SYS_select, "select" },
	{ SYS_epoll_wait, "epoll_wait" },
#endif
	{ SYS_read, "read" },
	{ SYS_write, "write" },
	{ SYS_ppoll, "ppoll" },
	{ SYS_pselect6, "pselect6" },
	{ SYS_epoll_pwait, "epoll_pwait" },
	{ SYS_nanosleep, "nanosleep" },
	{ SYS_clock_nanosleep, "clock_nanosleep" },
	{ SYS_futex, "futex" },
	{ SYS_ioctl, "ioctl" },
	{ SYS_fsync, "fsync" },
	{ SYS_fdatasync, "fdatasync" },
	{ SYS_pread64, "pread" },
	{ SYS_pwrite64, "pwrite" },
	{ SYS_preadv, "preadv" },
	{ SYS_pwritev, "pwritev" },
};

char *vms_thread_call_describe(const char *text)
{
	uint64_t number;
	if (!read_number(text, &number))
		return g_strdup("its own code");
	for (size_t i = 0; i < G_N_ELEMENTS(waiting_calls); i++)
		if (waiting_calls[i].number == number)
			return g_strdup_printf("%s(2)", waiting_calls[i].name);
	return g_strdup_printf("system call %" G_GUINT64_FORMAT, number);
}
