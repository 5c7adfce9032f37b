/* SPDX-License-Identifier: MIT */
/* vmscope core info: shows what a core file is, and what is in it. */
#include "base/text.h"
#include "commands.h"
#include <string.h>

/* Most rows of a list: what a reader takes in at a glance, and what a program can load. */
#define TEXT_ROWS 16
#define JSON_ROWS 65536

static const char *const layouts[] = {
	[VMS_CORE_ELF] = "elf", [VMS_CORE_VBOX] = "vbox", [VMS_CORE_KDUMP] = "kdump"
};

/* Returns how many of `n` rows are shown. */
static size_t count_shown(const struct session *session, size_t n)
{
	return MIN(n, session->json ? JSON_ROWS : TEXT_ROWS);
}

/* Adds a list of `n` rows. The table has the first of them. Takes the table. */
static void add_list(struct session *session, const char *key, const char *title,
		     struct vms_table *table, size_t n)
{
	GString *out = session->out;
	if (session->json) {
		g_string_append_printf(out, ",\n\"%s\": ", key);
		vms_table_json(table, out);
	} else if (n > 0) {
		g_string_append_printf(out, "\n%s\n", title);
		vms_table_text(table, out);
		if (n > vms_table_rows(table))
			g_string_append_printf(out, "… and %zu more\n", n - vms_table_rows(table));
	}
	vms_table_free(table);
}

/* ---- the file ---- */

static char *describe_guest(const struct vms_guest *guest)
{
	const struct vms_guest_info *info = vms_guest_info(guest);
	if (vms_guest_kind(guest) == VMS_GUEST_NONE)
		return g_strdup_printf("not recognised: %s", vms_guest_why(guest));
	return g_strdup_printf("%s %s", info->name, info->release);
}

/* Returns the bytes of RAM and ROM. */
static uint64_t sum_memory(struct vms_machine *machine)
{
	size_t n;
	uint64_t bytes = 0;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n);
	for (size_t i = 0; i < n; i++)
		bytes += ranges[i].kind == VMS_RANGE_MMIO ? 0 : ranges[i].size;
	return bytes;
}

/* Describes the machine that was dumped, if the file's writer noted it, or else the file. */
static const char *describe_machine(struct vms_machine *machine)
{
	const struct vms_core *core = vms_machine_core(machine);
	for (size_t i = 0; i < core->facts->len; i++) {
		const char *fact = core->facts->pdata[i];
		if (g_str_has_prefix(fact, "description="))
			return fact + strlen("description=");
	}
	return vms_machine_info(machine)->description;
}

static void add_file_json(struct session *session, const struct vms_core *core)
{
	static const struct vms_column columns[] = {
		{ "file", VMS_COLUMN_TEXT },	   { "layout", VMS_COLUMN_TEXT },
		{ "variant", VMS_COLUMN_TEXT },	   { "size", VMS_COLUMN_BYTES },
		{ "disk_size", VMS_COLUMN_BYTES }, { "architecture", VMS_COLUMN_TEXT },
		{ "machine", VMS_COLUMN_TEXT },	   { "guest", VMS_COLUMN_TEXT },
		{ "vcpus", VMS_COLUMN_NUMBER },	   { "memory", VMS_COLUMN_BYTES },
		{ "left_out", VMS_COLUMN_BYTES },  { "pages", VMS_COLUMN_NUMBER },
		{ "ranges", VMS_COLUMN_NUMBER },   { "segments", VMS_COLUMN_NUMBER },
		{ "notes", VMS_COLUMN_NUMBER },	   { NULL }
	};
	struct vms_machine *machine = session->machine;
	g_autoptr(vms_table) table = vms_table_new(columns);
	g_autofree char *guest = describe_guest(session->guest);
	size_t n_ranges;
	vms_machine_ranges(machine, &n_ranges);
	vms_table_add(table, core->path, layouts[core->format], core->variant, core->file_size,
		      core->disk_size, vms_machine_arch(machine)->name, describe_machine(machine),
		      guest, (uint64_t)vms_machine_vcpus(machine), sum_memory(machine),
		      core->left_out, core->pages, (uint64_t)n_ranges,
		      (uint64_t)core->segments->len, (uint64_t)core->notes->len);
	g_string_append(session->out, "{\n\"core\": ");
	vms_table_json(table, session->out);
}

static void add_file_text(struct session *session, const struct vms_core *core)
{
	GString *out = session->out;
	struct vms_machine *machine = session->machine;
	g_autofree char *size = vms_text_bytes(core->file_size);
	g_autofree char *disk_size = vms_text_bytes(core->disk_size);
	g_autofree char *memory = vms_text_bytes(sum_memory(machine));
	g_autofree char *left_out = vms_text_bytes(core->left_out);
	g_autofree char *guest = describe_guest(session->guest);
	g_string_append_printf(out, "file     %s\n", core->path);
	g_string_append_printf(out, "layout   %s: %s\n", layouts[core->format], core->variant);
	g_string_append_printf(out, "size     %s, %s of it on the disk\n", size, disk_size);
	g_string_append_printf(out, "machine  %s\n", describe_machine(machine));
	g_string_append_printf(out, "guest    %s\n", guest);
	g_string_append_printf(out, "vCPUs    %u, %s\n", vms_machine_vcpus(machine),
			       vms_machine_arch(machine)->name);
	g_string_append_printf(out, "memory   %s", memory);
	if (core->pages)
		g_string_append_printf(out, ", %" G_GUINT64_FORMAT " pages in the file",
				       core->pages);
	if (core->left_out)
		g_string_append_printf(out, ", %s left out", left_out);
	g_string_append_c(out, '\n');
}

/* Adds what is damaged. Text begins with it, because it makes the rest doubtful. */
static void add_damage(struct session *session, const GPtrArray *damage)
{
	static const struct vms_column columns[] = { { "what", VMS_COLUMN_TEXT }, { NULL } };
	struct vms_table *table = vms_table_new(columns);
	for (size_t i = 0; i < damage->len; i++) {
		const char *line = damage->pdata[i];
		if (session->json)
			vms_table_add(table, line);
		else
			g_string_append_printf(session->out, "damaged  %s\n", line);
	}
	if (session->json)
		add_list(session, "damage", NULL, g_steal_pointer(&table), damage->len);
	vms_table_free(table);
}

/* Adds what the writer of the file noted, which are lines "key=value". */
static void add_facts(struct session *session, const GPtrArray *facts)
{
	static const struct vms_column columns[] = { { "name", VMS_COLUMN_TEXT },
						     { "value", VMS_COLUMN_TEXT },
						     { NULL } };
	struct vms_table *table = vms_table_new(columns);
	for (size_t i = 0; i < count_shown(session, facts->len); i++) {
		g_auto(GStrv) parts = g_strsplit(facts->pdata[i], "=", 2);
		vms_table_add(table, parts[0], parts[0] ? parts[1] : NULL);
	}
	add_list(session, "facts", "Noted by its writer", table, facts->len);
}

/* ---- vCPUs ---- */

static void add_vcpu(struct session *session, unsigned vcpu, const struct vms_regs *regs,
		     struct vms_table *table)
{
	const struct vms_arch *arch = vms_machine_arch(session->machine);
	g_autoptr(vms_memory) memory = vms_memory_new(session->machine, regs);
	const struct vms_process *process = NULL;
	struct vms_task task = { 0 };
	struct vms_location location;
	uint64_t pc = vms_arch_code_address(arch, regs);
	if (vms_guest_current(session->guest, memory, regs, &task)) {
		process = vms_guest_process(session->guest, &task);
		vms_guest_note_address(session->guest, memory, process, pc);
		vms_guest_read_files(session->guest);
	}
	session_locate(session, process, pc, false, &location);
	g_autofree char *name = session_name(&location);
	vms_table_add(table, (uint64_t)vcpu, (uint64_t)task.tid, process ? task.comm : NULL,
		      arch->in_kernel(regs) ? "kernel" : "user", regs->value[arch->sp], pc, name);
}

static bool add_vcpus(struct session *session, GError **error)
{
	static const struct vms_column columns[] = {
		{ "vcpu", VMS_COLUMN_NUMBER }, { "tid", VMS_COLUMN_NUMBER },
		{ "task", VMS_COLUMN_TEXT },   { "mode", VMS_COLUMN_TEXT },
		{ "sp", VMS_COLUMN_ADDRESS },  { "pc", VMS_COLUMN_ADDRESS },
		{ "symbol", VMS_COLUMN_TEXT }, { NULL }
	};
	g_autoptr(vms_table) table = vms_table_new(columns);
	unsigned n = vms_machine_vcpus(session->machine);
	bool done = true;
	if (!vms_machine_hold(session->machine, VMS_ALL_VCPUS, error))
		return false;
	for (unsigned i = 0; done && i < count_shown(session, n); i++) {
		struct vms_regs regs;
		done = vms_machine_regs(session->machine, i, &regs, error);
		if (done)
			add_vcpu(session, i, &regs, table);
	}
	if (!vms_machine_release(session->machine, VMS_ALL_VCPUS, done ? error : NULL) || !done)
		return false;
	add_list(session, "vcpus", "vCPUs", g_steal_pointer(&table), n);
	return true;
}

/* ---- memory and notes ---- */

static void add_ranges(struct session *session, const char *key, const char *title,
		       const struct vms_range *ranges, size_t n)
{
	static const struct vms_column columns[] = { { "address", VMS_COLUMN_ADDRESS },
						     { "size", VMS_COLUMN_BYTES },
						     { "kind", VMS_COLUMN_TEXT },
						     { "name", VMS_COLUMN_TEXT },
						     { NULL } };
	struct vms_table *table = vms_table_new(columns);
	for (size_t i = 0; i < count_shown(session, n); i++)
		vms_table_add(table, ranges[i].pa, ranges[i].size,
			      vms_range_kind_name(ranges[i].kind), ranges[i].name);
	add_list(session, key, title, table, n);
}

static void add_segments(struct session *session, const GArray *segments)
{
	static const struct vms_column columns[] = {
		{ "physical", VMS_COLUMN_ADDRESS }, { "virtual", VMS_COLUMN_ADDRESS },
		{ "size", VMS_COLUMN_BYTES },	    { "file_size", VMS_COLUMN_BYTES },
		{ "offset", VMS_COLUMN_ADDRESS },   { NULL }
	};
	struct vms_table *table = vms_table_new(columns);
	for (size_t i = 0; i < count_shown(session, segments->len); i++) {
		const struct vms_core_segment *segment =
			&g_array_index(segments, struct vms_core_segment, i);
		vms_table_add(table, segment->pa, segment->va, segment->size, segment->file_size,
			      segment->file_offset);
	}
	add_list(session, "segments", "Segments", table, segments->len);
}

static void add_notes(struct session *session, const GArray *notes)
{
	static const struct vms_column columns[] = { { "owner", VMS_COLUMN_TEXT },
						     { "type", VMS_COLUMN_ADDRESS },
						     { "size", VMS_COLUMN_NUMBER },
						     { "offset", VMS_COLUMN_ADDRESS },
						     { NULL } };
	struct vms_table *table = vms_table_new(columns);
	for (size_t i = 0; i < count_shown(session, notes->len); i++) {
		const struct vms_core_note *note = &g_array_index(notes, struct vms_core_note, i);
		vms_table_add(table, note->owner, (uint64_t)note->type, note->size,
			      note->file_offset);
	}
	add_list(session, "notes", "Notes", table, notes->len);
}

static bool add_contents(struct session *session, GError **error)
{
	const struct vms_core *core = vms_machine_core(session->machine);
	size_t n_ranges;
	const struct vms_range *ranges = vms_machine_ranges(session->machine, &n_ranges);
	if (session->json) {
		add_file_json(session, core);
		add_damage(session, core->damage);
	} else {
		add_damage(session, core->damage);
		add_file_text(session, core);
	}
	if (!add_vcpus(session, error))
		return false;
	add_ranges(session, "unreadable",
		   "Missing: could not be read when it was dumped, or was cut off since",
		   (const struct vms_range *)(const void *)core->unreadable->data,
		   core->unreadable->len);
	add_ranges(session, "ranges", "Memory", ranges, n_ranges);
	add_segments(session, core->segments);
	add_notes(session, core->notes);
	add_facts(session, core->facts);
	if (session->json)
		g_string_append(session->out, "}\n");
	return true;
}

static bool run_core_info(struct session *session, int argc, char **argv, GError **error)
{
	if (!session_parse(session, NULL, &argc, &argv, 1, 1, error))
		return false;
	session->core = g_strdup(argv[1]);
	return session_open_guest(session, error) && add_contents(session, error);
}

const struct command command_core_info = {
	.name = "core info",
	.arguments = "FILE",
	.summary = "What a core file is, and what is in it",
	.options = SESSION_GUEST | SESSION_JSON,
	.run = run_core_info,
};
