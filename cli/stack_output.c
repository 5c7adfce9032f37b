/* SPDX-License-Identifier: MIT */
#include "stack_output.h"

/* Threads of a group that its heading names. */
#define NAMED_THREADS 12

/* ---- one by one ------------------------------------------------------- */

static void print_end(GString *out, const struct vms_stack *stack)
{
	if (stack->end != VMS_WALK_ROOT)
		g_string_append_printf(out, "       [%s]\n", vms_walk_end_text(stack->end));
}

static void print_stack(struct session *session, const struct walked *walked, enum stack_kind kind)
{
	GString *out = session->out;
	const struct vms_process *process = walked->process;
	g_string_append_printf(out, "%s %u", kind == STACKS_OF_VCPUS ? "vCPU" : "thread",
			       walked->id);
	if (process)
		g_string_append_printf(out, ": %s (%u)", process->comm, process->pid);
	if (kind != STACKS_OF_VCPUS)
		g_string_append_printf(out, ", %c", walked->task.state);
	g_string_append_c(out, '\n');
	for (unsigned i = 0; i < walked->stack.n; i++) {
		const struct vms_frame *frame = &walked->stack.frame[i];
		struct vms_location location;
		session_locate(session, process, frame->pc, frame->is_return, &location);
		g_autofree char *name = session_name(&location);
		g_string_append_printf(out, "  #%-3u 0x%016" G_GINT64_MODIFIER "x  %s\n", i,
				       frame->pc, name);
	}
	print_end(out, &walked->stack);
}

static void add_stack_rows(struct session *session, struct vms_table *table,
			   const struct walked *walked)
{
	const struct vms_process *process = walked->process;
	const char state[] = { walked->task.state, '\0' };
	for (unsigned i = 0; i < walked->stack.n; i++) {
		const struct vms_frame *frame = &walked->stack.frame[i];
		struct vms_location location;
		const bool has_place =
			session_locate(session, process, frame->pc, frame->is_return, &location);
		bool last = i == walked->stack.n - 1;
		vms_table_add(table, (uint64_t)walked->id, (uint64_t)walked->task.pid,
			      (uint64_t)walked->task.tid, process ? process->comm : NULL,
			      *state ? state : NULL, (uint64_t)i, frame->pc,
			      frame->is_user ? "user" : "kernel", location.symbol,
			      has_place ? location.offset : VMS_TABLE_UNKNOWN, location.module,
			      location.source,
			      location.source ? (uint64_t)location.line : VMS_TABLE_UNKNOWN,
			      last ? vms_walk_end_text(walked->stack.end) : NULL);
	}
}

static void output_each(struct session *session, GPtrArray *stacks, enum stack_kind kind)
{
	const struct vms_column columns[] = { { kind == STACKS_OF_VCPUS ? "vcpu" : "thread",
						VMS_COLUMN_NUMBER },
					      { "pid", VMS_COLUMN_NUMBER },
					      { "tid", VMS_COLUMN_NUMBER },
					      { "comm", VMS_COLUMN_TEXT },
					      { "state", VMS_COLUMN_TEXT },
					      { "frame", VMS_COLUMN_NUMBER },
					      { "address", VMS_COLUMN_ADDRESS },
					      { "mode", VMS_COLUMN_TEXT },
					      { "symbol", VMS_COLUMN_TEXT },
					      { "offset", VMS_COLUMN_NUMBER },
					      { "module", VMS_COLUMN_TEXT },
					      { "source", VMS_COLUMN_TEXT },
					      { "line", VMS_COLUMN_NUMBER },
					      { "end", VMS_COLUMN_TEXT },
					      { NULL } };
	g_autoptr(vms_table) table = vms_table_new(columns);
	for (size_t i = 0; i < stacks->len; i++) {
		if (session->json)
			add_stack_rows(session, table, stacks->pdata[i]);
		else
			print_stack(session, stacks->pdata[i], kind);
	}
	if (session->json)
		session_table(session, table);
}

/* ---- in groups -------------------------------------------------------- */

/* Threads with the same functions. */
struct group {
	char *frames; /* the names, a line each */
	enum vms_walk_end end;
	GPtrArray *threads; /* struct walked */
};

static void free_group(void *data)
{
	struct group *group = data;
	g_ptr_array_unref(group->threads);
	g_free(group->frames);
	g_free(group);
}

static int compare_frames(const void *a, const void *b, void *data)
{
	(void)data;
	const struct group *x = a, *y = b;
	const int order = strcmp(x->frames, y->frames);
	return order ? order : (x->end > y->end) - (x->end < y->end);
}

static int compare_sizes(const void *a, const void *b)
{
	const struct group *x = *(struct group *const *)a, *y = *(struct group *const *)b;
	return x->threads->len != y->threads->len ? (x->threads->len < y->threads->len ? 1 : -1)
						  : strcmp(x->frames, y->frames);
}

/* Returns the names of a stack's functions. Code without a name is called by its file. */
static char *name_frames(struct session *session, const struct walked *walked)
{
	GString *names = g_string_new(NULL);
	for (unsigned i = 0; i < walked->stack.n; i++) {
		const struct vms_frame *frame = &walked->stack.frame[i];
		struct vms_location location;
		session_locate(session, walked->process, frame->pc, frame->is_return, &location);
		if (!location.symbol) {
			g_autofree char *name = session_name(&location);
			g_string_append_printf(names, "%s\n", name);
			continue;
		}
		g_string_append(names, location.symbol);
		if (location.module)
			g_string_append_printf(names, " (%s)", location.module);
		g_string_append_c(names, '\n');
	}
	return g_string_free(names, FALSE);
}

/* Returns an array of struct group, the largest first. It owns them. */
static GPtrArray *make_groups(struct session *session, GPtrArray *stacks)
{
	GPtrArray *groups = g_ptr_array_new_with_free_func(free_group);
	/* No hash table: a guest chooses the names. */
	GTree *tree = g_tree_new_full(compare_frames, NULL, NULL, NULL);
	for (size_t i = 0; i < stacks->len; i++) {
		struct walked *walked = stacks->pdata[i];
		g_autofree char *frames = name_frames(session, walked);
		const struct group key = { .frames = frames, .end = walked->stack.end };
		struct group *group = g_tree_lookup(tree, &key);
		if (!group) {
			group = g_new0(struct group, 1);
			group->frames = g_steal_pointer(&frames);
			group->end = walked->stack.end;
			group->threads = g_ptr_array_new();
			g_ptr_array_add(groups, group);
			g_tree_insert(tree, group, group);
		}
		g_ptr_array_add(group->threads, walked);
	}
	g_tree_unref(tree);
	g_ptr_array_sort(groups, compare_sizes);
	return groups;
}

/* Appends the threads of a group, at most `n` of them: "redis-server (812): 812 S, 813 S". */
static void append_threads(const struct group *group, guint n, GString *out)
{
	const struct vms_process *process = NULL;
	for (guint i = 0; i < MIN(n, group->threads->len); i++) {
		const struct walked *walked = group->threads->pdata[i];
		if (walked->process != process && walked->process)
			g_string_append_printf(out, "%s%s (%u): ", i ? "; " : "",
					       walked->process->comm, walked->process->pid);
		else if (i)
			g_string_append(out, ", ");
		g_string_append_printf(out, "%u %c", walked->id, walked->task.state);
		process = walked->process;
	}
	if (n < group->threads->len)
		g_string_append_printf(out, " and %u more", group->threads->len - n);
}

static void print_group(const struct group *group, GString *out)
{
	g_auto(GStrv) frames = g_strsplit(group->frames, "\n", -1);
	const guint n = group->threads->len;
	g_string_append_printf(out, "%u thread%s: ", n, n == 1 ? "" : "s");
	append_threads(group, NAMED_THREADS, out);
	g_string_append_c(out, '\n');
	for (unsigned i = 0; frames[i] && *frames[i]; i++)
		g_string_append_printf(out, "  #%-3u %s\n", i, frames[i]);
	print_end(out, &((const struct walked *)group->threads->pdata[0])->stack);
}

static void add_group_rows(const struct group *group, uint64_t number, struct vms_table *table)
{
	g_auto(GStrv) frames = g_strsplit(group->frames, "\n", -1);
	g_autoptr(GString) threads = g_string_new(NULL);
	append_threads(group, G_MAXUINT, threads);
	for (unsigned i = 0; frames[i] && *frames[i]; i++)
		vms_table_add(table, number, (uint64_t)group->threads->len, threads->str,
			      (uint64_t)i, frames[i],
			      frames[i + 1] && *frames[i + 1] ? NULL
							      : vms_walk_end_text(group->end));
}

static void output_groups(struct session *session, GPtrArray *stacks)
{
	static const struct vms_column columns[] = { { "group", VMS_COLUMN_NUMBER },
						     { "threads", VMS_COLUMN_NUMBER },
						     { "who", VMS_COLUMN_TEXT },
						     { "frame", VMS_COLUMN_NUMBER },
						     { "symbol", VMS_COLUMN_TEXT },
						     { "end", VMS_COLUMN_TEXT },
						     { NULL } };
	g_autoptr(GPtrArray) groups = make_groups(session, stacks);
	g_autoptr(vms_table) table = vms_table_new(columns);
	for (guint i = 0; i < groups->len; i++) {
		if (session->json)
			add_group_rows(groups->pdata[i], i, table);
		else
			print_group(groups->pdata[i], session->out);
	}
	if (session->json)
		session_table(session, table);
}

void output_stacks(struct session *session, GPtrArray *stacks, enum stack_kind kind)
{
	if (kind == STACKS_GROUPED)
		output_groups(session, stacks);
	else
		output_each(session, stacks, kind);
}
