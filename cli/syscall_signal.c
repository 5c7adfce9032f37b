/* SPDX-License-Identifier: MIT */
#include "syscall_signal.h"

#include "syscall_bytes.h"
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#define SIGNALS	     64u
#define FIRST_REAL   32u /* the first real-time signal: SIGRTMIN of the kernel */
#define SIGNAL_BYTES 16u

/* The kernel's numbers, which are the same on x86-64 and aarch64. */
static const char *const names[FIRST_REAL] = {
	NULL,	"HUP",	"INT",	"QUIT", "ILL",	  "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
	"SEGV", "USR2", "PIPE", "ALRM", "TERM",	  "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
	"TTOU", "URG",	"XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "IO",   "PWR",  "SYS",
};

/* Writes a signal's name without SIG. */
static void name_signal(char buf[SIGNAL_BYTES], uint64_t number)
{
	if (number >= 1 && number < FIRST_REAL)
		g_strlcpy(buf, names[number], SIGNAL_BYTES);
	else if (number == FIRST_REAL)
		g_strlcpy(buf, "RTMIN", SIGNAL_BYTES);
	else
		g_snprintf(buf, SIGNAL_BYTES, "RT_%u", (unsigned)number - FIRST_REAL);
}

void syscall_append_signal(GString *out, uint64_t number)
{
	char name[SIGNAL_BYTES];
	if (number == 0 || number > SIGNALS) {
		g_string_append_printf(out, "%" G_GUINT64_FORMAT, number);
		return;
	}
	name_signal(name, number);
	g_string_append_printf(out, "SIG%s", name);
}

void syscall_append_signal_set(GString *out, uint64_t set)
{
	const bool is_inverted = __builtin_popcountll(set) > 2 * (int)SIGNALS / 3;
	const uint64_t listed = is_inverted ? ~set : set;
	const char *between = "";
	g_string_append(out, is_inverted ? "~[" : "[");
	for (unsigned i = 0; i < SIGNALS; i++) {
		char name[SIGNAL_BYTES];
		if (!(listed >> i & 1))
			continue;
		name_signal(name, i + 1);
		g_string_append_printf(out, "%s%s", between, name);
		between = " ";
	}
	g_string_append_c(out, ']');
}

void syscall_append_signal_handler(GString *out, uint64_t handler)
{
	if (handler > 1)
		syscall_append_address(out, handler);
	else
		g_string_append(out, handler ? "SIG_IGN" : "SIG_DFL");
}

void syscall_append_status(GString *out, uint32_t number)
{
	const int status = (int)number;
	g_string_append(out, "[{");
	if (WIFEXITED(status)) {
		g_string_append_printf(out, "WIFEXITED(s) && WEXITSTATUS(s) == %d",
				       WEXITSTATUS(status));
	} else if (WIFSTOPPED(status)) {
		g_string_append(out, "WIFSTOPPED(s) && WSTOPSIG(s) == ");
		syscall_append_signal(out, (uint64_t)WSTOPSIG(status));
	} else if (WIFCONTINUED(status)) {
		g_string_append(out, "WIFCONTINUED(s)");
	} else {
		g_string_append(out, "WIFSIGNALED(s) && WTERMSIG(s) == ");
		syscall_append_signal(out, (uint64_t)WTERMSIG(status));
		g_string_append(out, WCOREDUMP(status) ? " && WCOREDUMP(s)" : "");
	}
	g_string_append(out, "}]");
}
