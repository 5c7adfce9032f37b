/* SPDX-License-Identifier: MIT */
#include "guest/linux/syscalls.h"

#include "guest/linux/linux.h"
#include "guest/linux/member.h"
#include <string.h>
#include <vmscope/memory.h>
#include <vmscope/syscall.h>

#define CALLS_MAX 4096 /* Linux 7.2 has 470 */
/*
 * The kernel's list goes by their numbers, and does not say how long it is. What is read behind its
 * end is no system call by its name, or the same one.
 */
#define NUMBERS_MAX 512

/* How an architecture calls the functions: part of what programs and debuggers rely on. */
struct convention {
	const struct vms_arch *arch;
	const char *prefix;
	uint32_t offsets[VMS_SYSCALL_ARGUMENTS]; /* of the arguments in struct pt_regs */
	/* Of 32-bit programs: functions of their own, and those that others have, too, or NULL. */
	const char *prefix_32, *shared_32;
	uint32_t offsets_32[VMS_SYSCALL_ARGUMENTS];
};

static const struct convention conventions[] = {
	{ &vms_arch_x86_64,
	  "__x64_sys_",
	  { 112, 104, 96, 56, 72, 64 }, /* di si dx r10 r8 r9 */
	  "__ia32_compat_sys_",
	  "__ia32_sys_",
	  { 40, 88, 96, 104, 112, 32 } }, /* bx cx dx si di bp */
	{ &vms_arch_aarch64,
	  "__arm64_sys_",
	  { 0, 8, 16, 24, 32, 40 }, /* x0 … x5 */
	  "__arm64_compat_sys_",
	  NULL,
	  { 0, 8, 16, 24, 32, 40 } },
};

/* What programs and strace call what the kernel calls otherwise. */
static const struct {
	const char *kernel, *program;
} renamed[] = {
	{ "newstat", "stat" },		 { "newlstat", "lstat" },      { "newfstat", "fstat" },
	{ "newuname", "uname" },	 { "sendfile64", "sendfile" }, { "umount", "umount2" },
	{ "fadvise64_64", "fadvise64" },
};

/* Takes the kernel's name of a call. False: it is one of old programs, replaced by another one. */
static bool name_call(const char *kernel, struct vms_syscall *call)
{
	static const char *const old[] = { "stat",     "lstat",	    "fstat", "uname",
					   "olduname", "oldumount", NULL };
	if (g_strv_contains(old, kernel))
		return false;
	g_strlcpy(call->name, kernel, sizeof(call->name));
	for (size_t i = 0; i < G_N_ELEMENTS(renamed); i++)
		if (strcmp(renamed[i].kernel, kernel) == 0)
			g_strlcpy(call->name, renamed[i].program, sizeof(call->name));
	return true;
}

/* ---- functions -------------------------------------------------------------------- */

static void add_call(GArray *calls, const struct convention *convention,
		     const struct vms_symbol *symbol)
{
	struct vms_syscall call = { .va = symbol->va,
				    .word_size = 8,
				    .n_arguments = VMS_SYSCALL_ARGUMENTS };
	if (!name_call(symbol->name + strlen(convention->prefix), &call))
		return;
	for (size_t i = 0; i < VMS_SYSCALL_ARGUMENTS; i++)
		call.arguments[i].offset = convention->offsets[i];
	g_array_append_val(calls, call);
}

static gint compare_calls(gconstpointer a, gconstpointer b)
{
	const struct vms_syscall *x = a, *y = b;
	return strcmp(x->name, y->name);
}

static GArray *list_functions(const struct vms_linux *guest, const struct convention *convention)
{
	GArray *calls = g_array_new(FALSE, FALSE, sizeof(struct vms_syscall));
	const size_t n = vms_symbol_table_count(guest->symbols);
	for (size_t i = 0; i < n && calls->len < CALLS_MAX; i++) {
		const struct vms_symbol symbol = vms_symbol_table_get(guest->symbols, i);
		if (g_str_has_prefix(symbol.name, convention->prefix) &&
		    strchr("tTwW", symbol.type))
			add_call(calls, convention, &symbol);
	}
	g_array_sort(calls, compare_calls);
	return calls;
}

/* ---- descriptions ----------------------------------------------------------------- */

struct layout {
	struct vms_btf_member name, n_arguments, types, arguments;
};

static bool find_layout(const struct vms_linux *guest, struct layout *layout)
{
#define MEMBER(path, member)                                                                       \
	{                                                                                          \
		"syscall_metadata", path, offsetof(struct layout, member), false                   \
	}
	static const struct vms_wanted_member wanted[] = {
		MEMBER("name", name),
		MEMBER("nb_args", n_arguments),
		MEMBER("types", types),
		MEMBER("args", arguments),
	};
#undef MEMBER
	return guest->btf && vms_members_find(guest->btf, wanted, G_N_ELEMENTS(wanted), layout);
}

/* Reads the string that element `index` of an array of pointers leads to. */
static bool read_element(struct vms_memory *memory, uint64_t array, unsigned index, char *buf,
			 size_t size)
{
	uint64_t va;
	return vms_memory_read(memory, array + index * sizeof(va), &va, sizeof(va)) &&
	       vms_memory_read_string(memory, va, buf, size);
}

static void describe_arguments(struct vms_memory *memory, const struct layout *layout, uint64_t va,
			       struct vms_syscall *call)
{
	uint64_t n, types, names;
	if (!vms_member_read(memory, va, &layout->n_arguments, &n) || n > VMS_SYSCALL_ARGUMENTS ||
	    !vms_member_read(memory, va, &layout->types, &types) ||
	    !vms_member_read(memory, va, &layout->arguments, &names))
		return;
	for (unsigned i = 0; i < n; i++) {
		struct vms_syscall_argument *argument = &call->arguments[i];
		if (!read_element(memory, types, i, argument->type, sizeof(argument->type)) ||
		    !read_element(memory, names, i, argument->name, sizeof(argument->name)))
			return;
	}
	call->n_arguments = (unsigned)n;
	call->is_typed = true;
}

static struct vms_syscall *find_call(const GArray *calls, const char *name)
{
	struct vms_syscall key;
	guint at;
	if (!name_call(name, &key) ||
	    !g_array_binary_search((GArray *)calls, &key, compare_calls, &at))
		return NULL;
	return &g_array_index(calls, struct vms_syscall, at);
}

/* Takes in what the kernel says of one system call. */
static void describe_call(struct vms_memory *memory, const struct layout *layout, uint64_t va,
			  const GArray *calls)
{
	char name[64];
	uint64_t name_va;
	if (!vms_member_read(memory, va, &layout->name, &name_va) ||
	    !vms_memory_read_string(memory, name_va, name, sizeof(name)) ||
	    !g_str_has_prefix(name, "sys_"))
		return;
	struct vms_syscall *call = find_call(calls, name + strlen("sys_"));
	if (call)
		describe_arguments(memory, layout, va, call);
}

/* Takes what is known of those that the kernel has not described. */
static void describe_others(const struct vms_arch *arch, GArray *calls)
{
	for (guint i = 0; i < calls->len; i++) {
		struct vms_syscall *call = &g_array_index(calls, struct vms_syscall, i);
		if (!call->is_typed)
			vms_linux_take_signature(arch, call);
	}
}

/* The list at the symbol was made when the kernel booted; the one it was made of is gone. */
static void describe_calls(struct vms_linux *guest, const GArray *calls)
{
	struct layout layout;
	uint64_t list, at, va;
	if (!vms_linux_symbol(guest, "syscalls_metadata", &list) || !find_layout(guest, &layout))
		return;
	g_mutex_lock(&guest->lock);
	if (vms_memory_read(guest->memory, list, &at, sizeof(at)))
		for (unsigned i = 0; i < NUMBERS_MAX; i++, at += sizeof(va))
			if (vms_memory_read(guest->memory, at, &va, sizeof(va)) && va)
				describe_call(guest->memory, &layout, va, calls);
	g_mutex_unlock(&guest->lock);
}

/* ---- of 32-bit programs ------------------------------------------------------------ */

static bool is_function(const struct vms_linux *guest, const char *prefix, const char *name)
{
	g_autofree char *full = g_strconcat(prefix, name, NULL);
	uint64_t va;
	return vms_linux_symbol(guest, full, &va);
}

static void add_calls_32(const struct vms_linux *guest, const struct convention *convention,
			 const char *prefix, GArray *calls)
{
	const size_t n = vms_symbol_table_count(guest->symbols);
	for (size_t i = 0; i < n && calls->len < CALLS_MAX; i++) {
		const struct vms_symbol symbol = vms_symbol_table_get(guest->symbols, i);
		struct vms_syscall call = { .va = symbol.va, .word_size = 4 };
		if (!g_str_has_prefix(symbol.name, prefix) || !strchr("tTwW", symbol.type))
			continue;
		const char *function = symbol.name + strlen(prefix);
		/* Its own function is the one that 32-bit programs come to. */
		if ((prefix == convention->shared_32 &&
		     is_function(guest, convention->prefix_32, function)) ||
		    strcmp(function, "ni_syscall") == 0)
			continue;
		call.n_arguments = VMS_SYSCALL_ARGUMENTS;
		for (unsigned k = 0; k < VMS_SYSCALL_ARGUMENTS; k++)
			call.arguments[k].offset = convention->offsets_32[k];
		vms_linux_describe_syscall_32(function, &call);
		g_array_append_val(calls, call);
	}
}

GArray *vms_linux_syscalls(void *system, GError **error)
{
	struct vms_linux *guest = system;
	const struct convention *convention = NULL;
	for (size_t i = 0; i < G_N_ELEMENTS(conventions); i++)
		if (conventions[i].arch == guest->arch)
			convention = &conventions[i];
	GArray *calls = convention ? list_functions(guest, convention) : NULL;
	if (calls && calls->len > 0) {
		describe_calls(guest, calls);
		describe_others(guest->arch, calls);
		add_calls_32(guest, convention, convention->prefix_32, calls);
		if (convention->shared_32)
			add_calls_32(guest, convention, convention->shared_32, calls);
		g_array_sort(calls, compare_calls);
		return calls;
	}
	if (calls)
		g_array_unref(calls);
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "the guest's kernel (%s) has no symbols of functions for system calls",
		    guest->release ? guest->release : "of unknown release");
	return NULL;
}
