/* SPDX-License-Identifier: MIT */
/*
 * System calls as text, of whatever a guest's memory and registers had. Input: which call (1 byte),
 * then, for each value that is collected of it, how it was collected (1 byte), how many bytes it
 * has (2 bytes), and these.
 *
 * Covers: cli/syscall_text.c cli/syscall_struct.c cli/syscall_socket.c cli/syscall_signal.c
 * cli/syscall_bytes.c cli/syscall_arguments.c cli/syscall_collect.c.
 */
#include "cli/syscall_text.h"
#include "../unit/fake_machine.h"
#include "flow/record.h"
#include "guest/linux/syscalls.h"
#include "types/types-private.h"
#include <string.h>

#define TEXT_MAX (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Those of which memory is shown. */
static const char *const calls[] = {
	"openat",
	"write",
	"read",
	"getcwd",
	"getrandom",
	"getdents64",
	"bind",
	"accept4",
	"recvfrom",
	"getsockopt",
	"setsockopt",
	"socketpair",
	"sendmsg",
	"recvmsg",
	"writev",
	"readv",
	"execve",
	"wait4",
	"sched_getaffinity",
	"getresuid",
	"pipe2",
	"sendfile",
	"select",
	"pselect6",
	"poll",
	"ppoll",
	"epoll_wait",
	"rt_sigprocmask",
	"rt_sigaction",
	"stat",
	"statx",
	"statfs",
	"prlimit64",
	"clone",
	"clone3",
	"fcntl",
	"futex",
	"openat2",
	"prctl",
	"clock_nanosleep",
	"uname",
	"times",
};

/* ---- types ------------------------------------------------------------------------------- */

static uint32_t add_type(struct vms_types *types, enum vms_type_kind kind, const char *name,
			 uint64_t size, uint32_t target)
{
	const struct vms_stored_type type = {
		.name = name, .size = size, .target = target, .kind = (uint8_t)kind
	};
	const uint32_t number = vms_types_next_number(types);
	vms_types_add(types, &type);
	return number;
}

struct member {
	const char *name;
	uint32_t type, offset;
};

static void add_struct(struct vms_types *types, const char *name, uint64_t size,
		       const struct member *members, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct vms_stored_part part = { .name = members[i].name,
						      .type = members[i].type,
						      .bit_offset = members[i].offset * 8 };
		vms_types_add_part(types, &part);
	}
	add_type(types, VMS_TYPE_STRUCT, name, size, 0);
}

#define STRUCT(name, size, ...)                                                                    \
	add_struct(types, name, size, (const struct member[]) { __VA_ARGS__ },                     \
		   sizeof((const struct member[]) { __VA_ARGS__ }) / sizeof(struct member))

/* Structures that have the names of a kernel's, and some of their members. */
static struct vms_types *make_types(void)
{
	g_autoptr(GBytes) strings = g_bytes_new_static("", 1);
	struct vms_types *types = vms_types_new(NULL, strings);
	const uint32_t u16 = add_type(types, VMS_TYPE_INTEGER, "unsigned short", 2, 0);
	const uint32_t u32 = add_type(types, VMS_TYPE_INTEGER, "unsigned int", 4, 0);
	const uint32_t u64 = add_type(types, VMS_TYPE_INTEGER, "unsigned long", 8, 0);
	const uint32_t letter = add_type(types, VMS_TYPE_CHAR, "char", 1, 0);
	const uint32_t name = add_type(types, VMS_TYPE_ARRAY, "", 65, letter);
	const uint32_t words = add_type(types, VMS_TYPE_ARRAY, "", 3, u64);
	const uint32_t endless = add_type(types, VMS_TYPE_ARRAY, "", UINT32_MAX, u64);
	const uint32_t pointer = add_type(types, VMS_TYPE_POINTER, "", 8, u32);
	STRUCT("stat", 48, { "st_mode", u32, 0 }, { "st_rdev", u64, 8 }, { "st_size", u64, 16 });
	STRUCT("statx", 32, { "stx_mask", u32, 0 }, { "stx_attributes", u64, 8 },
	       { "stx_mode", u16, 16 }, { "stx_size", u64, 24 });
	STRUCT("statfs", 56, { "f_type", u64, 0 }, { "f_fsid", u64, 8 }, { "f_flags", u64, 16 });
	STRUCT("pollfd", 8, { "fd", u32, 0 }, { "events", u16, 4 }, { "revents", u16, 6 });
	STRUCT("epoll_event", 12, { "events", u32, 0 }, { "data", u64, 4 });
	STRUCT("sigaction", 32, { "sa_handler", pointer, 0 }, { "sa_flags", u64, 8 },
	       { "sa_restorer", pointer, 16 }, { "sa_mask", u64, 24 });
	STRUCT("rlimit64", 16, { "rlim_cur", u64, 0 }, { "rlim_max", u64, 8 });
	STRUCT("__kernel_timespec", 16, { "tv_sec", u64, 0 }, { "tv_nsec", u64, 8 });
	STRUCT("__kernel_old_timeval", 16, { "tv_sec", u64, 0 }, { "tv_usec", u64, 8 });
	STRUCT("rusage", 40, { "ru_utime", words, 0 }, { "ru_stime", endless, 16 });
	STRUCT("new_utsname", 130, { "sysname", name, 0 }, { "nodename", name, 65 });
	STRUCT("tms", 16, { "tms_utime", u64, 0 }, { "tms_stime", u64, 8 });
	STRUCT("open_how", 24, { "flags", u64, 0 }, { "mode", u64, 8 }, { "resolve", u64, 16 });
	STRUCT("clone_args", 64, { "flags", u64, 0 }, { "exit_signal", u64, 8 },
	       { "stack_size", u64, 16 }, { "far", u64, 1u << 20 });
	vms_types_finish(types);
	return types;
}

/* ---- records ----------------------------------------------------------------------------- */

/* Makes the place of a call with its probes. */
static struct vms_flow_place *make_place(struct syscall_shape *shape)
{
	struct vms_machine *machine = fake_machine_new(shape->arch, 1);
	struct vms_probe *probe = vms_probe_new(machine, NULL, NULL);
	struct vms_probe *returned = vms_probe_new(machine, NULL, NULL);
	struct vms_flow_saved_place saved = { 0 };
	g_assert_true(syscall_add_call_entries(probe, shape, NULL));
	g_assert_true(syscall_add_return_entries(returned, shape, NULL));
	saved.probe = probe;
	saved.returned = returned;
	struct vms_flow_place *place = vms_flow_place_new_saved(&saved);
	vms_probe_unref(probe);
	vms_probe_unref(returned);
	vms_machine_unref(machine);
	return place;
}

/* Appends the next value of the input. */
static void take_value(const uint8_t **data, size_t *size, GByteArray *values)
{
	struct vms_value_head head = { VMS_VALUE_UNREADABLE, 0 };
	if (*size >= 3) {
		head.status = (*data)[0] % VMS_VALUE_COUNT;
		memcpy(&head.size, *data + 1, sizeof(head.size));
		*data += 3;
		*size -= 3;
		head.size = (uint16_t)MIN(head.size, *size);
	}
	g_byte_array_append(values, (const uint8_t *)&head, sizeof(head));
	g_byte_array_append(values, *data, head.size);
	*data += head.size;
	*size -= head.size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct vms_types *types;
	const struct vms_arch *arch = &vms_arch_x86_64;
	struct vms_syscall call = { .word_size = 8 };
	struct syscall_shape shape;
	if (size == 0)
		return 0;
	if (!types)
		types = make_types();
	const char *name = calls[*data % G_N_ELEMENTS(calls)];
	if (*data / G_N_ELEMENTS(calls) % 2) {
		call.word_size = 4;
		vms_linux_describe_syscall_32(name, &call);
	} else {
		g_strlcpy(call.name, name, sizeof(call.name));
		vms_linux_take_signature(arch, &call);
	}
	for (unsigned i = 0; i < call.n_arguments; i++)
		call.arguments[i].offset = 40 + 8 * i;
	syscall_shape_init(&shape, arch, types, &call, 32);
	struct vms_flow_place *place = make_place(&shape);
	g_autoptr(GByteArray) values = g_byte_array_new();
	data++, size--;
	/* Between those of the call and those of the return there is the duration. */
	const size_t n = vms_probe_entries(place->probe) + 1 + vms_probe_entries(place->returned);
	for (size_t i = 0; i < n; i++)
		take_value(&data, &size, values);
	const struct vms_flow_raw raw = { .values = values->data, .size = values->len };
	struct vms_flow_record *record = vms_flow_record_from_raw(place, &raw);
	if (record) {
		g_autoptr(GString) text = g_string_new(NULL);
		syscall_append_call(text, &shape, record);
		syscall_append_result(text, &shape, record);
		g_assert_cmpuint(text->len, <=, 4 * values->len + TEXT_MAX);
	}
	vms_flow_record_unref(record);
	vms_flow_place_unref(place);
	return 0;
}
