/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include "machine/core/core_engine.h"
#include "machine/core/vbox_format.h"
#include "machine/core/vmscope_note.h"
#include <elf.h>
#include <inttypes.h>

#define NOTE_HEADER	       12
#define OWNER_MAX	       64 /* bytes of an owner's name that are kept */
#define ALIGN_UP(value, align) (((value) + (align)-1) & ~((uint64_t)(align)-1))

/* Returns the vCPU of the next note of this kind, or NULL if there are too many. */
static struct vms_core_vcpu *next_vcpu(struct vms_core_machine *core, enum vms_note_kind kind)
{
	guint index = core->n_notes[kind];
	if (index >= VMS_CORE_VCPUS_MAX) {
		vms_core_damage(core, "more than %d vCPUs: the rest is left out",
				VMS_CORE_VCPUS_MAX);
		return NULL;
	}
	core->n_notes[kind]++;
	if (core->vcpus->len <= index)
		g_array_set_size(core->vcpus, index + 1);
	return &g_array_index(core->vcpus, struct vms_core_vcpu, index);
}

static void add_registers(struct vms_core_machine *core, enum vms_note_kind kind,
			  const struct vms_core_note *note, struct vms_bytes content)
{
	struct vms_core_vcpu *vcpu = next_vcpu(core, kind);
	if (vcpu && !vms_note_decode(core->arch, kind, content, &vcpu->regs))
		vms_core_damage(core,
				"registers of vCPU %u are not known: its \"%s\" note of %" PRIu64
				" bytes at offset 0x%" PRIx64 " has an unknown layout",
				core->n_notes[kind] - 1, note->owner, note->size,
				note->file_offset);
	if (vcpu && kind == VMS_NOTE_PRSTATUS)
		vms_bytes_u32(content, core->arch->prstatus_pid, &vcpu->tid);
}

static void add_fact(struct vms_core_machine *core, char *fact)
{
	vms_text_clean(fact);
	g_ptr_array_add(core->core.facts, fact);
}

/* Reads VBCORE, which says which layout the notes of the vCPUs have. */
static void add_vbox(struct vms_core_machine *core, const struct vms_core_note *note,
		     struct vms_bytes content)
{
	uint32_t magic = 0, format = 0, version = 0, revision = 0;
	if (!vms_bytes_u32(content, 0, &magic) || magic != VMS_VBOX_MAGIC)
		vms_core_damage(core,
				"VirtualBox's descriptor at offset 0x%" PRIx64 " is malformed",
				note->file_offset);
	vms_bytes_u32(content, 4, &format);
	core->vbox = format == VMS_VBOX_FORMAT_6   ? VMS_NOTE_VBOX_6
		     : format == VMS_VBOX_FORMAT_5 ? VMS_NOTE_VBOX_5
						   : VMS_NOTE_VBOX_2010;
	if (core->vbox == VMS_NOTE_VBOX_2010)
		return;
	vms_bytes_u32(content, 12, &version);
	vms_bytes_u32(content, 16, &revision);
	add_fact(core, g_strdup_printf("virtualbox=%u.%u.%u r%u", version >> 24,
				       version >> 16 & 0xff, version & 0xffff, revision));
}

/* A CPU context without a version is decoded only if it has the size of the known layout. */
static void add_vbox_vcpu(struct vms_core_machine *core, const struct vms_core_note *note,
			  struct vms_bytes content)
{
	size_t known = core->arch->notes[VMS_NOTE_VBOX_2010].size;
	if (core->vbox == VMS_NOTE_VBOX_2010 && content.size != known)
		content.size = 0;
	add_registers(core, core->vbox, note, content);
}

void vms_core_vmcoreinfo(struct vms_core_machine *core, struct vms_bytes text)
{
	while (text.size && text.data[text.size - 1] == '\0')
		text.size--;
	if (core->vmcoreinfo || text.size == 0)
		return;
	if (text.size > VMS_CORE_VMCOREINFO_MAX) {
		vms_core_damage(core, "VMCOREINFO of %zu bytes is too long: left out", text.size);
		return;
	}
	core->vmcoreinfo = g_malloc(text.size + 1);
	for (size_t i = 0; i < text.size; i++)
		core->vmcoreinfo[i] = text.data[i] ? (char)text.data[i] : '\n';
	core->vmcoreinfo[text.size] = '\0';
}

bool vms_core_has_note(const struct vms_core_machine *core, const char *owner)
{
	for (guint i = 0; i < core->core.notes->len; i++) {
		if (strcmp(g_array_index(core->core.notes, struct vms_core_note, i).owner, owner) ==
		    0)
			return true;
	}
	return false;
}

static void add_note(struct vms_core_machine *core, const struct vms_core_note *note,
		     struct vms_bytes content)
{
	g_array_append_val(core->core.notes, *note);
	if (strcmp(note->owner, "CORE") == 0 && note->type == NT_PRSTATUS)
		add_registers(core, VMS_NOTE_PRSTATUS, note, content);
	else if (strcmp(note->owner, "QEMU") == 0 && note->type == 0)
		add_registers(core, VMS_NOTE_QEMU, note, content);
	else if (strcmp(note->owner, VMS_VBOX_CORE) == 0 ||
		 strcmp(note->owner, VMS_VBOX_OLD_CORE) == 0)
		add_vbox(core, note, content);
	else if (strcmp(note->owner, VMS_VBOX_CPU) == 0 ||
		 strcmp(note->owner, VMS_VBOX_OLD_CPU) == 0)
		add_vbox_vcpu(core, note, content);
	else if (strcmp(note->owner, "VMCOREINFO") == 0)
		vms_core_vmcoreinfo(core, content);
	else if (strcmp(note->owner, VMS_NOTE_OWNER) == 0 && note->type == VMS_NOTE_TYPE)
		vms_core_writer_note(core, content);
}

/* Returns an owner's name. Its size may include a NUL at the end. */
static const char *read_owner(struct vms_core_machine *core, struct vms_bytes name)
{
	g_autofree char *owner = g_strndup((const char *)name.data, MIN(name.size, OWNER_MAX));
	vms_text_clean(owner);
	return g_string_chunk_insert(core->strings, owner);
}

void vms_core_notes(struct vms_core_machine *core, struct vms_bytes notes, uint64_t file_offset,
		    uint64_t align)
{
	uint64_t at = 0;
	align = align == 8 ? 8 : 4;
	while (at < notes.size) {
		uint32_t name_size = 0, size = 0, type = 0;
		struct vms_bytes name, content;
		bool complete = vms_bytes_u32(notes, at, &name_size) &&
				vms_bytes_u32(notes, at + 4, &size) &&
				vms_bytes_u32(notes, at + 8, &type);
		uint64_t start = at + ALIGN_UP((uint64_t)NOTE_HEADER + name_size, align);
		if (complete && name_size == 0 && size == 0 && type == 0)
			return; /* padding up to the end */
		if (!complete || !vms_bytes_slice(notes, at + NOTE_HEADER, name_size, &name) ||
		    !vms_bytes_slice(notes, start, size, &content)) {
			vms_core_damage(core, "the note at offset 0x%" PRIx64 " is cut off",
					file_offset + at);
			return;
		}
		if (core->core.notes->len == VMS_CORE_NOTE_MAX) {
			vms_core_damage(core, "more than %d notes: the rest is left out",
					VMS_CORE_NOTE_MAX);
			return;
		}
		struct vms_core_note note = { read_owner(core, name), type, size,
					      file_offset + start };
		add_note(core, &note, content);
		at = start + ALIGN_UP((uint64_t)size, align);
	}
}
