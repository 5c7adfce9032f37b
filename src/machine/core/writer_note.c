/* SPDX-License-Identifier: MIT */
/* Reads the note of vmscope in a file (vmscope_note.h). */
#include "base/text.h"
#include "machine/core/core_engine.h"

#define LINE_MAX_BYTES 4096

/* Parses "PA SIZE", hexadecimal. `rest` is the text that follows. */
static bool parse_range(const char *text, struct vms_range *range, const char **rest)
{
	char *end;
	if (!g_ascii_isxdigit(*text))
		return false;
	range->pa = g_ascii_strtoull(text, &end, 16);
	if (*end != ' ' || !g_ascii_isxdigit(end[1]))
		return false;
	range->size = g_ascii_strtoull(end + 1, &end, 16);
	*rest = end;
	return range->size > 0 && range->size - 1 <= G_MAXUINT64 - range->pa;
}

/* Parses "PA SIZE KIND NAME". */
static bool add_range(struct vms_core_machine *core, const char *text)
{
	struct vms_range range = { 0 };
	const char *rest;
	if (!parse_range(text, &range, &rest))
		return false;
	for (enum vms_range_kind kind = VMS_RANGE_RAM; kind <= VMS_RANGE_MMIO; kind++) {
		g_autofree char *word = g_strdup_printf(" %s ", vms_range_kind_name(kind));
		if (!g_str_has_prefix(rest, word))
			continue;
		range.kind = kind;
		range.name = g_string_chunk_insert(core->strings, rest + strlen(word));
		g_array_append_val(core->noted_ranges, range);
		return true;
	}
	return false;
}

static bool add_unreadable(struct vms_core_machine *core, const char *text)
{
	struct vms_range range = { .kind = VMS_RANGE_RAM };
	const char *rest;
	if (!parse_range(text, &range, &rest) || *rest)
		return false;
	g_array_append_val(core->core.unreadable, range);
	return true;
}

/* Parses "NAME=VALUE". */
static bool add_known(const struct vms_arch *arch, const char *text,
		      struct vms_core_noted_vcpu *vcpu)
{
	g_auto(GStrv) parts = g_strsplit(text, "=", 2);
	int reg = parts[0] ? vms_arch_reg(arch, parts[0]) : -1;
	uint64_t value;
	if (reg < 0 || !parts[1] ||
	    !g_ascii_string_to_unsigned(parts[1], 16, 0, G_MAXUINT64, &value, NULL))
		return false;
	vms_regs_set(&vcpu->known, (unsigned)reg, value);
	return true;
}

/* Parses "NAME". */
static bool add_unknown(const struct vms_arch *arch, const char *text,
			struct vms_core_noted_vcpu *vcpu)
{
	int reg = vms_arch_reg(arch, text);
	if (reg < 0)
		return false;
	vcpu->unknown[reg / 64] |= UINT64_C(1) << reg % 64;
	return true;
}

/* Parses "VCPU REGISTER …". */
static bool add_registers(struct vms_core_machine *core, const char *text,
			  bool (*add)(const struct vms_arch *arch, const char *text,
				      struct vms_core_noted_vcpu *vcpu))
{
	g_auto(GStrv) words = g_strsplit(text, " ", -1);
	uint64_t index;
	if (!words[0] ||
	    !g_ascii_string_to_unsigned(words[0], 10, 0, VMS_CORE_VCPUS_MAX - 1, &index, NULL))
		return false;
	if (core->noted_vcpus->len <= index)
		g_array_set_size(core->noted_vcpus, (guint)index + 1);
	bool understood = true;
	for (char **word = words + 1; understood && *word; word++)
		understood =
			add(core->arch->arch, *word,
			    &g_array_index(core->noted_vcpus, struct vms_core_noted_vcpu, index));
	return understood;
}

void vms_core_adopt_noted_vcpus(struct vms_core_machine *core)
{
	guint n = MIN(core->noted_vcpus->len, core->vcpus->len);
	if (n < core->noted_vcpus->len)
		vms_core_damage(core,
				"the writer's note has registers of vCPU %u, but no other note has",
				core->noted_vcpus->len - 1);
	for (guint i = 0; i < n; i++) {
		const struct vms_core_noted_vcpu *noted =
			&g_array_index(core->noted_vcpus, struct vms_core_noted_vcpu, i);
		struct vms_regs *regs = &g_array_index(core->vcpus, struct vms_core_vcpu, i).regs;
		for (size_t word = 0; word < G_N_ELEMENTS(noted->unknown); word++)
			regs->valid[word] &= ~noted->unknown[word];
		for (unsigned reg = 0; reg < core->arch->arch->n_regs; reg++) {
			if (vms_regs_have(&noted->known, reg))
				vms_regs_set(regs, reg, noted->known.value[reg]);
		}
	}
}

static void add_line(struct vms_core_machine *core, const char *line)
{
	bool understood = true;
	if (g_str_has_prefix(line, "range="))
		understood = add_range(core, line + strlen("range="));
	else if (g_str_has_prefix(line, "unreadable="))
		understood = add_unreadable(core, line + strlen("unreadable="));
	else if (g_str_has_prefix(line, "registers="))
		understood = add_registers(core, line + strlen("registers="), add_known);
	else if (g_str_has_prefix(line, "unknown="))
		understood = add_registers(core, line + strlen("unknown="), add_unknown);
	else if (*line && core->core.facts->len < VMS_CORE_FACTS_MAX)
		g_ptr_array_add(core->core.facts, g_strdup(line));
	if (!understood)
		vms_core_damage(core, "the writer's note has a malformed line: %s", line);
}

void vms_core_writer_note(struct vms_core_machine *core, struct vms_bytes text)
{
	while (text.size) {
		const uint8_t *newline = memchr(text.data, '\n', text.size);
		size_t size = newline ? (size_t)(newline - text.data) : text.size;
		g_autofree char *line =
			g_strndup((const char *)text.data, MIN(size, LINE_MAX_BYTES));
		vms_text_clean(line);
		add_line(core, line);
		size = MIN(size + 1, text.size);
		vms_bytes_slice(text, size, text.size - size, &text);
	}
}
