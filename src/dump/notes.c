/* SPDX-License-Identifier: MIT */
#include "dump/notes.h"
#include "base/text.h"
#include "machine/core/vmscope_note.h"
#include <elf.h>
#include <string.h>

/* Maximum length of a line about unreadable memory in our note. */
#define LONGEST_LINE 128
/* Alignment of notes, in bytes. */
#define LINUX_ALIGN 4
#define VBOX_ALIGN  8

static void add_padded(GByteArray *notes, const void *bytes, size_t size, size_t align)
{
	static const uint8_t zeros[8];
	g_byte_array_append(notes, bytes, (guint)size);
	g_byte_array_append(notes, zeros, (guint)(-size % align));
}

void vms_dump_add_note(GByteArray *notes, const char *owner, size_t owner_size, uint32_t type,
		       const void *content, size_t size, size_t align)
{
	Elf64_Nhdr header = {
		.n_namesz = GUINT32_TO_LE((uint32_t)owner_size),
		.n_descsz = GUINT32_TO_LE((uint32_t)size),
		.n_type = GUINT32_TO_LE(type),
	};
	g_byte_array_append(notes, (const uint8_t *)&header, sizeof(header));
	add_padded(notes, owner, owner_size, align);
	add_padded(notes, content, size, align);
}

static void add_linux_note(GByteArray *notes, const char *owner, uint32_t type, const void *content,
			   size_t size)
{
	vms_dump_add_note(notes, owner, strlen(owner) + 1, type, content, size, LINUX_ALIGN);
}

static void add_vcpu_note(GByteArray *notes, const struct vms_core_arch *arch,
			  enum vms_note_kind kind, const struct vms_dump_vcpu *vcpu)
{
	g_autofree uint8_t *content = vms_note_encode(arch, kind, &vcpu->regs);
	if (kind == VMS_NOTE_PRSTATUS) {
		uint32_t tid = GUINT32_TO_LE(vcpu->tid);
		memcpy(content + arch->prstatus_pid, &tid, sizeof(tid));
		add_linux_note(notes, "CORE", NT_PRSTATUS, content, arch->notes[kind].size);
	} else {
		add_linux_note(notes, "QEMU", 0, content, arch->notes[kind].size);
	}
}

/* Adds a line with a value, from which it removes line ends. */
static void add_line(GString *text, const char *key, const char *value)
{
	g_autofree char *clean = g_strdup(value ? value : "");
	vms_text_clean(clean);
	g_string_append_printf(text, "%s=%s\n", key, clean);
}

static void add_ranges(GString *text, struct vms_machine *machine)
{
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n);
	for (size_t i = 0; i < n; i++) {
		g_autofree char *value = g_strdup_printf(
			"%" G_GINT64_MODIFIER "x %" G_GINT64_MODIFIER "x %s %s", ranges[i].pa,
			ranges[i].size, vms_range_kind_name(ranges[i].kind),
			ranges[i].name ? ranges[i].name : "");
		add_line(text, "range", value);
	}
}

/* True if the vCPUs' notes of this file's layout have a place for the register. */
static bool has_place(const struct vms_dump_state *state, unsigned reg)
{
	if (state->options->format == VMS_CORE_VBOX)
		return vms_note_tells(state->arch, VMS_NOTE_VBOX_6, reg);
	return vms_note_tells(state->arch, VMS_NOTE_PRSTATUS, reg) ||
	       vms_note_tells(state->arch, VMS_NOTE_QEMU, reg);
}

bool vms_dump_is_made_up(const struct vms_dump_state *state, const struct vms_dump_vcpu *vcpu,
			 unsigned reg)
{
	return has_place(state, reg) && !vms_regs_have(&vcpu->regs, reg);
}

/* Adds the registers for which the vCPUs' notes have no place. */
static void add_registers(GString *text, const struct vms_dump_state *state, guint index)
{
	const struct vms_dump_vcpu *vcpu =
		&g_array_index(state->vcpus, struct vms_dump_vcpu, index);
	const struct vms_arch *arch = state->arch->arch;
	g_string_append_printf(text, "registers=%u", index);
	for (unsigned i = 0; i < arch->n_regs; i++) {
		if (vms_regs_have(&vcpu->regs, i) && !has_place(state, i))
			g_string_append_printf(text, " %s=%" G_GINT64_MODIFIER "x",
					       arch->regs[i].name, vcpu->regs.value[i]);
	}
	g_string_append_c(text, '\n');
}

/* Adds the names of the registers that the notes show although they are not known. */
static void add_made_up(GString *text, const struct vms_dump_state *state, guint index)
{
	const struct vms_dump_vcpu *vcpu =
		&g_array_index(state->vcpus, struct vms_dump_vcpu, index);
	size_t start = text->len;
	g_string_append_printf(text, "unknown=%u", index);
	size_t end = text->len;
	for (unsigned i = 0; i < state->arch->arch->n_regs; i++) {
		if (vms_dump_is_made_up(state, vcpu, i))
			g_string_append_printf(text, " %s", state->arch->arch->regs[i].name);
	}
	if (text->len == end)
		g_string_truncate(text, start);
	else
		g_string_append_c(text, '\n');
}

static void add_unreadable(GString *text, const struct vms_dump_outcome *outcome)
{
	size_t limit = text->len + VMS_DUMP_UNREADABLE_TEXT - 2 * LONGEST_LINE;
	guint i = 0;
	for (; i < outcome->unreadable->len && text->len < limit; i++) {
		const struct vms_range *range =
			&g_array_index(outcome->unreadable, struct vms_range, i);
		g_string_append_printf(
			text, "unreadable=%" G_GINT64_MODIFIER "x %" G_GINT64_MODIFIER "x\n",
			range->pa, range->size);
	}
	if (i < outcome->unreadable->len)
		g_string_append_printf(text, "unreadable_more=%u\n", outcome->unreadable->len - i);
}

/*
 * If the machine is a core file of ours that is being converted, returns what our note in it says
 * for this key. Else NULL.
 */
static const char *find_noted(const struct vms_dump_state *state, const char *key)
{
	const struct vms_core *core = vms_machine_core(state->machine);
	bool is_ours = false;
	for (guint i = 0; core && i < core->facts->len; i++) {
		const char *fact = core->facts->pdata[i];
		is_ours |= g_str_has_prefix(fact, "writer=vmscope ");
		if (is_ours && g_str_has_prefix(fact, key) && fact[strlen(key)] == '=')
			return fact + strlen(key) + 1;
	}
	return NULL;
}

/* Adds the line of the converted file for this key, or else `otherwise`, which may be NULL. */
static void add_noted(GString *text, const struct vms_dump_state *state, const char *key,
		      const char *otherwise)
{
	const char *noted = find_noted(state, key);
	if (noted || otherwise)
		add_line(text, key, noted ? noted : otherwise);
}

/*
 * Adds from which machine the memory is, and when it was taken. If a file is converted, that is
 * what the file says of its machine.
 */
static void add_origin(GString *text, const struct vms_dump_state *state,
		       const struct vms_dump_outcome *outcome)
{
	const struct vms_machine_info *info = vms_machine_info(state->machine);
	g_autoptr(GDateTime) time = g_date_time_new_from_unix_utc(state->time);
	g_autofree char *now = g_date_time_format(time, "%Y-%m-%dT%H:%M:%SZ");
	g_autofree char *held = NULL;
	if (outcome)
		held = g_strdup_printf("%" G_GUINT64_FORMAT ".%03u", outcome->held_ns / 1000000,
				       (unsigned)(outcome->held_ns / 1000 % 1000));
	add_noted(text, state, "time", info->is_core ? NULL : now);
	add_noted(text, state, "machine", info->name);
	add_noted(text, state, "description", info->description);
	add_noted(text, state, "engine", info->engine);
	add_noted(text, state, "held_ms", info->is_core ? NULL : held);
	if (info->is_core)
		add_line(text, "converted", now);
}

void vms_dump_add_own_note(GByteArray *notes, const struct vms_dump_state *state,
			   const struct vms_dump_outcome *outcome)
{
	g_autoptr(GString) text = g_string_new("writer=vmscope " VMS_VERSION "\n");

	add_origin(text, state, outcome);
	add_ranges(text, state->machine);
	for (guint i = 0; i < state->vcpus->len; i++)
		add_registers(text, state, i);
	for (guint i = 0; i < state->vcpus->len; i++)
		add_made_up(text, state, i);
	if (outcome)
		add_unreadable(text, outcome);
	bool is_vbox = state->options->format == VMS_CORE_VBOX;
	/* In VirtualBox's notes the name's size counts no NUL, and sizes are multiples of 8. */
	while (is_vbox && text->len % VBOX_ALIGN)
		g_string_append_c(text, '\n');
	vms_dump_add_note(notes, VMS_NOTE_OWNER, strlen(VMS_NOTE_OWNER) + !is_vbox, VMS_NOTE_TYPE,
			  text->str, text->len, LINUX_ALIGN);
}

GByteArray *vms_dump_notes(const struct vms_dump_state *state,
			   const struct vms_dump_outcome *outcome)
{
	static const enum vms_note_kind kinds[] = { VMS_NOTE_PRSTATUS, VMS_NOTE_QEMU };
	GByteArray *notes = g_byte_array_new();
	vms_dump_add_own_note(notes, state, outcome);
	for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
		for (guint j = 0; state->arch->notes[kinds[i]].size && j < state->vcpus->len; j++)
			add_vcpu_note(notes, state->arch, kinds[i],
				      &g_array_index(state->vcpus, struct vms_dump_vcpu, j));
	}
	if (state->vmcoreinfo)
		add_linux_note(notes, "VMCOREINFO", 0, state->vmcoreinfo,
			       strlen(state->vmcoreinfo));
	return notes;
}
