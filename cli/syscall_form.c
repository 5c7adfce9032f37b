/* SPDX-License-Identifier: MIT */
#include "syscall_form.h"

#include <string.h>

#define STRUCT_MAX 1024u /* bytes of a structure that is shown */

/* ---- pointers with a known form ---------------------------------------------------- */

enum { IN = SYSCALL_AT_RETURN, OUT = SYSCALL_AT_RETURN | SYSCALL_IF_DONE };
enum { BOTH = SYSCALL_AT_CALL | OUT, LEFT = SYSCALL_AT_RETURN | SYSCALL_IF_FAILED };

static const struct row {
	const char *calls; /* words */
	unsigned index;
	enum syscall_kind kind;
	unsigned when;
	unsigned size; /* of an element without a type */
	enum syscall_count count;
	unsigned number;
} rows[] = {
	/* Bytes. */
	{ "write pwrite64", 1, SYSCALL_BYTES, IN, 1, SYSCALL_ARGUMENT, 2 },
	{ "sendto", 1, SYSCALL_BYTES, IN, 1, SYSCALL_ARGUMENT, 2 },
	{ "read pread64 recvfrom readlink", 1, SYSCALL_BYTES, OUT, 1, SYSCALL_RESULT, 0 },
	{ "readlinkat getxattr lgetxattr fgetxattr", 2, SYSCALL_BYTES, OUT, 1, SYSCALL_RESULT, 0 },
	{ "setxattr lsetxattr fsetxattr", 2, SYSCALL_BYTES, IN, 1, SYSCALL_ARGUMENT, 3 },
	{ "listxattr llistxattr flistxattr", 1, SYSCALL_BYTES, OUT, 1, SYSCALL_RESULT, 0 },
	{ "getcwd", 0, SYSCALL_STRING, OUT, 1, SYSCALL_ONE, 0 },
	{ "getrandom", 0, SYSCALL_RANDOM, OUT, 1, SYSCALL_RESULT, 0 },
	{ "sethostname setdomainname", 0, SYSCALL_BYTES, IN, 1, SYSCALL_ARGUMENT, 1 },
	{ "add_key", 2, SYSCALL_BYTES, IN, 1, SYSCALL_ARGUMENT, 3 },
	{ "mount", 0, SYSCALL_STRING, IN, 1, SYSCALL_ONE, 0 },
	{ "mount", 1, SYSCALL_STRING, IN, 1, SYSCALL_ONE, 0 },
	{ "mount", 2, SYSCALL_STRING, IN, 1, SYSCALL_ONE, 0 },
	{ "umount2 utime utimes", 0, SYSCALL_STRING, IN, 1, SYSCALL_ONE, 0 },
	{ "getdents64", 1, SYSCALL_FILES, OUT, 1, SYSCALL_RESULT, 0 },
	/* Sockets. */
	{ "bind connect", 1, SYSCALL_ADDRESS_OF_SOCKET, IN, 1, SYSCALL_ARGUMENT, 2 },
	{ "sendto", 4, SYSCALL_ADDRESS_OF_SOCKET, IN, 1, SYSCALL_ARGUMENT, 5 },
	{ "accept accept4 getsockname getpeername", 1, SYSCALL_ADDRESS_OF_SOCKET, OUT, 1,
	  SYSCALL_POINTED, 2 },
	{ "recvfrom", 4, SYSCALL_ADDRESS_OF_SOCKET, OUT, 1, SYSCALL_POINTED, 5 },
	{ "accept accept4 getsockname getpeername", 2, SYSCALL_NUMBERS, BOTH, 4, SYSCALL_ONE, 0 },
	{ "recvfrom", 5, SYSCALL_NUMBERS, BOTH, 4, SYSCALL_ONE, 0 },
	{ "setsockopt", 3, SYSCALL_OPTION, IN, 1, SYSCALL_ARGUMENT, 4 },
	{ "getsockopt", 3, SYSCALL_OPTION, OUT, 1, SYSCALL_POINTED, 4 },
	{ "getsockopt", 4, SYSCALL_NUMBERS, BOTH, 4, SYSCALL_ONE, 0 },
	{ "socketpair", 3, SYSCALL_NUMBERS, OUT, 4, SYSCALL_FIXED, 2 },
	{ "sendmsg", 1, SYSCALL_MESSAGE, IN, 0, SYSCALL_ONE, 0 },
	{ "recvmsg", 1, SYSCALL_MESSAGE, BOTH, 0, SYSCALL_RESULT, 0 },
	/* Pieces. */
	{ "writev pwritev pwritev2 vmsplice", 1, SYSCALL_PIECES, IN, 0, SYSCALL_ARGUMENT, 2 },
	{ "readv preadv preadv2", 1, SYSCALL_PIECES, OUT, 0, SYSCALL_ARGUMENT, 2 },
	/* Programs. */
	{ "execve", 1, SYSCALL_STRINGS, SYSCALL_AT_CALL, 0, SYSCALL_ONE, 0 },
	{ "execveat", 2, SYSCALL_STRINGS, SYSCALL_AT_CALL, 0, SYSCALL_ONE, 0 },
	{ "execve", 2, SYSCALL_VARIABLES, SYSCALL_AT_CALL, 8, SYSCALL_ONE, 0 },
	{ "execveat", 3, SYSCALL_VARIABLES, SYSCALL_AT_CALL, 8, SYSCALL_ONE, 0 },
	{ "execve", 0, SYSCALL_STRING, SYSCALL_AT_CALL, 0, SYSCALL_ONE, 0 },
	{ "execveat", 1, SYSCALL_STRING, SYSCALL_AT_CALL, 0, SYSCALL_ONE, 0 },
	{ "wait4", 1, SYSCALL_STATUS, OUT, 4, SYSCALL_ONE, 0 },
	{ "sched_getparam", 1, SYSCALL_NUMBERS, OUT, 4, SYSCALL_ONE, 0 },
	{ "sched_setparam", 1, SYSCALL_NUMBERS, IN, 4, SYSCALL_ONE, 0 },
	{ "sched_setscheduler", 2, SYSCALL_NUMBERS, IN, 4, SYSCALL_ONE, 0 },
	{ "sched_getaffinity", 2, SYSCALL_CPUS, OUT, 1, SYSCALL_RESULT, 0 },
	{ "sched_setaffinity", 2, SYSCALL_CPUS, IN, 1, SYSCALL_ARGUMENT, 1 },
	{ "getresuid getresgid", 0, SYSCALL_NUMBERS, OUT, 4, SYSCALL_ONE, 0 },
	{ "getresuid getresgid", 1, SYSCALL_NUMBERS, OUT, 4, SYSCALL_ONE, 0 },
	{ "getresuid getresgid", 2, SYSCALL_NUMBERS, OUT, 4, SYSCALL_ONE, 0 },
	{ "getgroups", 1, SYSCALL_NUMBERS, OUT, 4, SYSCALL_RESULT, 0 },
	{ "setgroups", 1, SYSCALL_NUMBERS, IN, 4, SYSCALL_ARGUMENT, 0 },
	/* Files. */
	{ "pipe pipe2", 0, SYSCALL_NUMBERS, OUT, 4, SYSCALL_FIXED, 2 },
	{ "sendfile", 2, SYSCALL_NUMBERS, BOTH, 8, SYSCALL_ONE, 0 },
	{ "splice copy_file_range", 1, SYSCALL_NUMBERS, BOTH, 8, SYSCALL_ONE, 0 },
	{ "splice copy_file_range", 3, SYSCALL_NUMBERS, BOTH, 8, SYSCALL_ONE, 0 },
	{ "_llseek", 3, SYSCALL_NUMBERS, OUT, 8, SYSCALL_ONE, 0 },
	{ "select pselect6", 1, SYSCALL_DESCRIPTORS, BOTH, 8, SYSCALL_BITS, 0 },
	{ "select pselect6", 2, SYSCALL_DESCRIPTORS, BOTH, 8, SYSCALL_BITS, 0 },
	{ "select pselect6", 3, SYSCALL_DESCRIPTORS, BOTH, 8, SYSCALL_BITS, 0 },
	/* Structures, by their types. */
	{ "select pselect6", 4, SYSCALL_STRUCTS, BOTH, 0, SYSCALL_ONE, 0 },
	{ "poll ppoll", 0, SYSCALL_STRUCTS, BOTH, 0, SYSCALL_ARGUMENT, 1 },
	{ "ppoll", 2, SYSCALL_STRUCTS, BOTH, 0, SYSCALL_ONE, 0 },
	{ "epoll_wait epoll_pwait epoll_pwait2", 1, SYSCALL_STRUCTS, OUT, 0, SYSCALL_RESULT, 0 },
	{ "epoll_ctl", 3, SYSCALL_STRUCTS, IN, 0, SYSCALL_ONE, 0 },
	{ "semop semtimedop", 1, SYSCALL_STRUCTS, IN, 0, SYSCALL_ARGUMENT, 2 },
	{ "utimensat", 2, SYSCALL_STRUCTS, IN, 0, SYSCALL_FIXED, 2 },
	{ "utimes", 1, SYSCALL_STRUCTS, IN, 0, SYSCALL_FIXED, 2 },
	{ "nanosleep setitimer sched_setattr", 1, SYSCALL_STRUCTS, IN, 0, SYSCALL_ONE, 0 },
	{ "nanosleep settimeofday clone3 rt_sigsuspend", 0, SYSCALL_STRUCTS, IN, 0, SYSCALL_ONE,
	  0 },
	{ "nanosleep", 1, SYSCALL_STRUCTS, LEFT, 0, SYSCALL_ONE, 0 },
	{ "clock_nanosleep", 3, SYSCALL_STRUCTS, LEFT, 0, SYSCALL_ONE, 0 },
	{ "setrlimit settimeofday utime mq_notify", 1, SYSCALL_STRUCTS, IN, 0, SYSCALL_ONE, 0 },
	{ "openat2", 2, SYSCALL_STRUCTS, IN, 0, SYSCALL_ONE, 0 },
	{ "rt_sigprocmask signalfd signalfd4", 1, SYSCALL_SIGNALS, IN, 8, SYSCALL_ONE, 0 },
	{ "rt_sigprocmask", 2, SYSCALL_SIGNALS, OUT, 8, SYSCALL_ONE, 0 },
	{ "rt_sigsuspend", 0, SYSCALL_SIGNALS, IN, 8, SYSCALL_ONE, 0 },
	{ "rt_sigpending", 0, SYSCALL_SIGNALS, OUT, 8, SYSCALL_ONE, 0 },
	{ "rt_sigtimedwait", 0, SYSCALL_SIGNALS, IN, 8, SYSCALL_ONE, 0 },
	{ "ppoll", 3, SYSCALL_SIGNALS, IN, 8, SYSCALL_ONE, 0 },
	{ "epoll_pwait epoll_pwait2", 4, SYSCALL_SIGNALS, IN, 8, SYSCALL_ONE, 0 },
	{ "prctl", 1, SYSCALL_STRING, IN, 0, SYSCALL_ONE, 0 },
	/* The kernel uses the memory behind these pointers later. */
	{ "set_robust_list rseq", 0, SYSCALL_ADDRESS, 0, 8, SYSCALL_ONE, 0 },
};

static const struct row *find_row(const char *call, unsigned index)
{
	for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
		if (rows[i].index == index && syscall_has_word(rows[i].calls, call))
			return &rows[i];
	return NULL;
}

/* ---- types -------------------------------------------------------------------------- */

/* Finds the structure that a pointer type points to. False if it is not a known structure. */
static bool find_pointed(const struct vms_types *types, const char *pointer, struct vms_type *ret,
			 uint64_t *size)
{
	const char *begin =
		g_str_has_prefix(pointer, "const ") ? pointer + strlen("const ") : pointer;
	const char *star = strchr(begin, '*');
	struct vms_type_info info;
	if (!types || !star || strchr(star + 1, '*'))
		return false;
	g_autofree char *name = g_strchomp(g_strndup(begin, (gsize)(star - begin)));
	if (!vms_types_find(types, name, ret, NULL))
		return false;
	vms_type_get_info(vms_type_resolve(*ret), &info);
	*size = info.size;
	return info.kind == VMS_TYPE_STRUCT && info.size > 0 && info.size <= STRUCT_MAX;
}

/* Returns the bytes of an element. Some are smaller in a 32-bit program. */
static unsigned get_row_size(const struct row *row, const struct vms_syscall *call,
			     const char *type)
{
	const bool is_word = row->count == SYSCALL_BITS || row->kind == SYSCALL_VARIABLES ||
			     strcmp(type, "off_t *") == 0;
	return is_word ? call->word_size : row->size;
}

static struct syscall_form make_row_form(const struct row *row, const struct vms_types *types,
					 const struct vms_syscall *call, unsigned index)
{
	const char *type = call->arguments[index].type;
	struct syscall_form form = { .kind = row->kind,
				     .size = get_row_size(row, call, type),
				     .when = row->when,
				     .count = row->count,
				     .number = row->number };
	uint64_t size;
	if (form.kind != SYSCALL_STRUCTS)
		return form;
	if (!find_pointed(types, type, &form.type, &size))
		return (struct syscall_form) { .kind = SYSCALL_ADDRESS, .size = 8 };
	form.size = (unsigned)size;
	return form;
}

static bool is_one_of(const char *text, const char *const *words)
{
	return g_strv_contains(words, text);
}

/*
 * Makes the form of a pointer without a row: the kernel reads const memory, and writes other
 * memory.
 */
static struct syscall_form make_pointer_form(const struct vms_types *types,
					     const struct vms_syscall_argument *argument)
{
	/* Keys and data of programs are not text. */
	static const char *const no_text[] = { "buf", "_payload", "value", "ubuf", NULL };
	const bool is_constant = g_str_has_prefix(argument->type, "const ");
	struct syscall_form form = { .kind = SYSCALL_ADDRESS, .size = 8 };
	uint64_t size;
	if (strcmp(argument->type, "const char *") == 0 && !is_one_of(argument->name, no_text)) {
		form = (struct syscall_form) { .kind = SYSCALL_STRING, .when = IN };
	} else if (find_pointed(types, argument->type, &form.type, &size)) {
		form.kind = SYSCALL_STRUCTS;
		form.size = (unsigned)size;
		form.when = is_constant ? IN : OUT;
	}
	return form;
}

/* ---- numbers ------------------------------------------------------------------------ */

static bool is_flags(const struct vms_syscall_argument *argument)
{
	static const char *const flags[] = { "flags",	"flag",	   "mode",	    "cmd",
					     "prot",	"options", "how",	    "op",
					     "request", "mask",	   "event_f_flags", NULL };
	return is_one_of(argument->name, flags);
}

static bool is_address(const struct vms_syscall_argument *argument)
{
	static const char *const addresses[] = { "start", "addr", "new_addr", NULL };
	return strcmp(argument->type, "unsigned long") == 0 && is_one_of(argument->name, addresses);
}

/* Makes the form of a number by its type. Unknown types are hexadecimal numbers of 8 bytes. */
static struct syscall_form make_type_form(const char *type)
{
	static const struct {
		const char *type;
		enum syscall_kind kind;
		unsigned size; /* bytes */
	} types[] = {
		{ "int", SYSCALL_SIGNED, 4 },
		{ "pid_t", SYSCALL_SIGNED, 4 },
		{ "key_t", SYSCALL_SIGNED, 4 },
		{ "timer_t", SYSCALL_SIGNED, 4 },
		{ "s32", SYSCALL_SIGNED, 4 },
		{ "const clockid_t", SYSCALL_SIGNED, 4 },
		{ "clockid_t", SYSCALL_SIGNED, 4 },
		{ "key_serial_t", SYSCALL_SIGNED, 4 },
		{ "long", SYSCALL_SIGNED, 8 },
		{ "ssize_t", SYSCALL_SIGNED, 8 },
		{ "loff_t", SYSCALL_SIGNED, 8 },
		{ "off_t", SYSCALL_SIGNED, 8 },
		{ "unsigned int", SYSCALL_UNSIGNED, 4 },
		{ "unsigned", SYSCALL_UNSIGNED, 4 },
		{ "u32", SYSCALL_UNSIGNED, 4 },
		{ "uid_t", SYSCALL_UNSIGNED, 4 },
		{ "gid_t", SYSCALL_UNSIGNED, 4 },
		{ "qid_t", SYSCALL_UNSIGNED, 4 },
		{ "size_t", SYSCALL_UNSIGNED, 8 },
		{ "u64", SYSCALL_UNSIGNED, 8 },
		{ "umode_t", SYSCALL_OCTAL, 2 },
	};
	for (unsigned i = 0; i < G_N_ELEMENTS(types); i++)
		if (strcmp(types[i].type, type) == 0)
			return (struct syscall_form) { .kind = types[i].kind,
						       .size = types[i].size };
	return (struct syscall_form) { .kind = SYSCALL_HEX, .size = 8 };
}

/* Finds the form of numbers whose type is misleading. */
static bool find_number(const char *call, unsigned index, struct syscall_form *ret)
{
	static const struct {
		const char *calls; /* words */
		unsigned index;
		enum syscall_kind kind;
		unsigned size;
	} numbers[] = {
		{ "mmap", 4, SYSCALL_SIGNED, 4 },
		{ "mmap munmap mprotect mremap madvise msync mlock munlock mincore pkey_mprotect "
		  "mbind",
		  1, SYSCALL_UNSIGNED, 8 },
		{ "mremap", 2, SYSCALL_UNSIGNED, 8 },
		{ "brk", 0, SYSCALL_ADDRESS, 8 },
		{ "umask", 0, SYSCALL_OCTAL, 4 },
		{ "mknod", 1, SYSCALL_FILE_MODE, 4 },
		{ "mknodat", 2, SYSCALL_FILE_MODE, 4 },
		{ "rseq", 1, SYSCALL_HEX, 4 },
		{ "rseq", 3, SYSCALL_HEX, 4 },
		{ "writev readv pwritev preadv pwritev2 preadv2", 0, SYSCALL_SIGNED, 4 },
		{ "writev readv pwritev preadv pwritev2 preadv2 vmsplice", 2, SYSCALL_UNSIGNED, 8 },
		{ "getcwd", 1, SYSCALL_UNSIGNED, 8 },
	};
	for (unsigned i = 0; i < G_N_ELEMENTS(numbers); i++)
		if (numbers[i].index == index && syscall_has_word(numbers[i].calls, call)) {
			*ret = (struct syscall_form) { .kind = numbers[i].kind,
						       .size = numbers[i].size };
			return true;
		}
	return false;
}

static struct syscall_form make_number_form(const struct vms_arch *arch, const char *call,
					    const struct vms_syscall_argument *argument,
					    unsigned index)
{
	struct syscall_form form = make_type_form(argument->type);
	form.names = syscall_names_of(arch, call, index);
	if (form.names)
		form.kind = SYSCALL_NAMED;
	else if (find_number(call, index, &form))
		return form;
	else if (is_address(argument))
		form.kind = SYSCALL_ADDRESS;
	else if (strcmp(argument->type, "int") == 0 && g_str_has_suffix(argument->name, "dfd"))
		form.kind = SYSCALL_DIRECTORY;
	else if (form.kind != SYSCALL_OCTAL && is_flags(argument))
		form.kind = SYSCALL_HEX;
	return form;
}

/* True for a number that takes two registers of a 32-bit program. */
static bool is_in_two_registers(const struct vms_syscall_argument *argument)
{
	return strcmp(argument->type, "u64") == 0 || strcmp(argument->name, "offset_low") == 0;
}

const char *syscall_wide_name(const struct vms_syscall *call)
{
	static const struct {
		const char *narrow, *wide;
	} names[] = {
		{ "mmap2", "mmap" },
		{ "fcntl64", "fcntl" },
		{ "fstatat64", "newfstatat" },
		{ "_newselect", "select" },

		{ "ugetrlimit", "getrlimit" },
		{ "sendfile64", "sendfile" },
		{ "getgroups32", "getgroups" },
		{ "setgroups32", "setgroups" },
		{ "getresuid32", "getresuid" },
		{ "getresgid32", "getresgid" },
		{ "futex_time64", "futex" },
		{ "ppoll_time64", "ppoll" },
		{ "pselect6_time64", "pselect6" },
		{ "clock_gettime64", "clock_gettime" },
		{ "clock_settime64", "clock_settime" },
		{ "clock_getres_time64", "clock_getres" },
		{ "clock_nanosleep_time64", "clock_nanosleep" },
		{ "timerfd_settime64", "timerfd_settime" },
		{ "utimensat_time64", "utimensat" },
	};
	for (size_t i = 0; call->word_size == 4 && i < G_N_ELEMENTS(names); i++)
		if (strcmp(names[i].narrow, call->name) == 0)
			return names[i].wide;
	return call->name;
}

struct syscall_form syscall_find_form(const struct vms_arch *arch, const struct vms_types *types,
				      const struct vms_syscall *call, unsigned index)
{
	const char *name = syscall_wide_name(call);
	const struct vms_syscall_argument *argument = &call->arguments[index];
	const struct row *row = call->is_typed ? find_row(name, index) : NULL;
	struct syscall_form form;
	if (row)
		return make_row_form(row, types, call, index);
	if (strchr(argument->type, '*'))
		form = make_pointer_form(types, argument);
	else
		form = make_number_form(arch, name, argument, index);
	if (!syscall_is_memory(form.kind) && !is_in_two_registers(argument))
		form.size = MIN(form.size, call->word_size);
	return form;
}
