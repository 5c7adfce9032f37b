/* SPDX-License-Identifier: MIT */
#include "sample/machine_threads.h"
#include "base/keyed_hash.h"
#include "capture/sample_records.h"
#include <stdlib.h>
#include <string.h>

/* Names of threads that are kept. A damaged file may name as many as it likes. */
#define NAMES_LIMIT 65536u
#define VCPUS_LIMIT 4096u

void vms_machine_threads_init(struct vms_machine_threads *threads)
{
	*threads = (struct vms_machine_threads) {
		.vcpus = g_hash_table_new(vms_hash_direct, NULL),
		.names = g_hash_table_new_full(vms_hash_direct, NULL, NULL, g_free),
		.roles = g_ptr_array_new_with_free_func(g_free),
		.indices = g_hash_table_new(vms_hash_text, g_str_equal),
	};
}

void vms_machine_threads_clear(struct vms_machine_threads *threads)
{
	g_hash_table_unref(threads->vcpus);
	g_hash_table_unref(threads->names);
	g_hash_table_unref(threads->indices);
	g_ptr_array_unref(threads->roles);
}

void vms_machine_threads_add_vcpu(struct vms_machine_threads *threads, uint64_t vcpu, uint64_t pid,
				  uint64_t tid)
{
	if (vcpu >= VCPUS_LIMIT || pid == 0 || pid > G_MAXINT || tid == 0 || tid > G_MAXINT)
		return;
	uint32_t known;
	const bool is_other =
		vms_machine_threads_vcpu(threads, (uint32_t)tid, &known) && known != (uint32_t)vcpu;
	const guint value = is_other ? 0 : (guint)vcpu + 1;
	threads->pid = (uint32_t)pid;
	g_hash_table_insert(threads->vcpus, GUINT_TO_POINTER((guint)tid), GUINT_TO_POINTER(value));
}

void vms_machine_threads_read_name(struct vms_machine_threads *threads,
				   const struct vms_fxt_record *record)
{
	uint32_t tid;
	g_autofree char *name = vms_records_get_thread(record, &tid);
	if (name && (g_hash_table_size(threads->names) < NAMES_LIMIT ||
		     g_hash_table_contains(threads->names, GUINT_TO_POINTER(tid))))
		g_hash_table_insert(threads->names, GUINT_TO_POINTER(tid), g_steal_pointer(&name));
}

bool vms_machine_threads_vcpu(const struct vms_machine_threads *threads, uint32_t tid,
			      uint32_t *ret)
{
	gpointer found;
	if (!g_hash_table_lookup_extended(threads->vcpus, GUINT_TO_POINTER(tid), NULL, &found))
		return false;
	*ret = found ? GPOINTER_TO_UINT(found) - 1 : VMS_SEVERAL_VCPUS;
	return true;
}

static const char *find_name(const struct vms_machine_threads *threads, uint32_t tid)
{
	return g_hash_table_lookup(threads->names, GUINT_TO_POINTER(tid));
}

/*
 * Names the role of a thread, newly allocated. QEMU calls its I/O threads "IO NAME". It names no
 * thread before version 11, unless "-name debug-threads=on" is given: threads then have the name of
 * the process. A name has no number that changes with every start, so that recordings compare.
 */
static char *name_role(const struct vms_machine_threads *threads, uint32_t tid)
{
	const char *name = find_name(threads, tid), *process = find_name(threads, threads->pid);
	uint32_t vcpu;
	if (vms_machine_threads_vcpu(threads, tid, &vcpu) && vcpu == VMS_SEVERAL_VCPUS)
		return g_strdup("[all vCPUs]");
	if (vms_machine_threads_vcpu(threads, tid, &vcpu))
		return g_strdup_printf("[vCPU %" G_GUINT32_FORMAT "]", vcpu);
	if (tid == threads->pid)
		return g_strdup("[main loop]");
	if (name && g_str_has_prefix(name, "vhost-"))
		return g_strdup("[vhost]");
	if (name && g_str_has_prefix(name, "IO "))
		return g_strdup_printf("[I/O thread %s]", name + strlen("IO "));
	if (name && name[0] && g_strcmp0(name, process) != 0)
		return g_strdup_printf("[%s]", name);
	return g_strdup("[other thread]");
}

int vms_machine_threads_role(struct vms_machine_threads *threads, uint32_t pid, uint32_t tid)
{
	const char *name = find_name(threads, tid);
	/* Before Linux 6.4 the workers of vhost are no threads of the process. */
	const bool is_worker = name && g_str_has_prefix(name, "vhost-") &&
			       (uint32_t)atoi(name + strlen("vhost-")) == threads->pid;
	if (threads->pid == 0 || (pid != threads->pid && !is_worker))
		return -1;
	g_autofree char *role = name_role(threads, tid);
	const int known = GPOINTER_TO_INT(g_hash_table_lookup(threads->indices, role));
	if (known)
		return known - 1;
	g_ptr_array_add(threads->roles, role);
	g_hash_table_insert(threads->indices, g_steal_pointer(&role),
			    GINT_TO_POINTER((int)threads->roles->len));
	return (int)threads->roles->len - 1;
}
