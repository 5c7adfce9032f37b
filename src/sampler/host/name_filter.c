/* SPDX-License-Identifier: MIT */
#include "sampler/host/name_filter.h"
#include "base/keyed_hash.h"
#include "base/program_name.h"

struct vms_name_filter {
	GPtrArray *names;
	GHashTable *members; /* pid to number of threads */
	GHashTable *doomed;  /* members that were dead at the last check */
	bool found;	     /* there was a member */
};

struct vms_name_filter *vms_name_filter_new(void)
{
	struct vms_name_filter *filter = g_new0(struct vms_name_filter, 1);
	filter->names = g_ptr_array_new_with_free_func(g_free);
	filter->members = g_hash_table_new(vms_hash_direct, NULL);
	filter->doomed = g_hash_table_new(vms_hash_direct, NULL);
	return filter;
}

void vms_name_filter_free(struct vms_name_filter *filter)
{
	if (!filter)
		return;
	g_ptr_array_unref(filter->names);
	g_hash_table_unref(filter->members);
	g_hash_table_unref(filter->doomed);
	g_free(filter);
}

void vms_name_filter_add(struct vms_name_filter *filter, const char *name)
{
	g_ptr_array_add(filter->names, vms_program_name(name));
}

static unsigned count_threads(const struct vms_name_filter *filter, pid_t pid)
{
	return GPOINTER_TO_UINT(g_hash_table_lookup(filter->members, GINT_TO_POINTER(pid)));
}

static void set_threads(struct vms_name_filter *filter, pid_t pid, unsigned threads)
{
	if (threads)
		g_hash_table_insert(filter->members, GINT_TO_POINTER(pid),
				    GUINT_TO_POINTER(threads));
	else
		g_hash_table_remove(filter->members, GINT_TO_POINTER(pid));
}

bool vms_name_filter_note_program(struct vms_name_filter *filter, pid_t pid, const char *comm,
				  unsigned threads)
{
	const bool is_named =
		g_ptr_array_find_with_equal_func(filter->names, comm, g_str_equal, NULL);
	if (!is_named && !vms_name_filter_has(filter, pid))
		return false;
	set_threads(filter, pid, threads);
	filter->found = true;
	return true;
}

void vms_name_filter_note_birth(struct vms_name_filter *filter, pid_t pid, pid_t parent)
{
	if (vms_name_filter_has(filter, parent))
		set_threads(filter, pid, pid == parent ? count_threads(filter, pid) + 1 : 1);
}

void vms_name_filter_note_exit(struct vms_name_filter *filter, pid_t pid)
{
	const unsigned threads = count_threads(filter, pid);
	if (threads)
		set_threads(filter, pid, threads - 1);
}

void vms_name_filter_prune(struct vms_name_filter *filter, bool (*is_alive)(pid_t pid))
{
	GHashTable *before = filter->doomed;
	GHashTableIter iter;
	gpointer pid;
	filter->doomed = g_hash_table_new(vms_hash_direct, NULL);
	g_hash_table_iter_init(&iter, filter->members);
	while (g_hash_table_iter_next(&iter, &pid, NULL)) {
		if (is_alive(GPOINTER_TO_INT(pid)))
			continue;
		if (g_hash_table_contains(before, pid))
			g_hash_table_iter_remove(&iter);
		else
			g_hash_table_add(filter->doomed, pid);
	}
	g_hash_table_unref(before);
}

bool vms_name_filter_has(const struct vms_name_filter *filter, pid_t pid)
{
	return count_threads(filter, pid) > 0;
}

bool vms_name_filter_ended(const struct vms_name_filter *filter)
{
	return filter->found && g_hash_table_size(filter->members) == 0;
}
