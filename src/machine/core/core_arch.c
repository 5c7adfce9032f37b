/* SPDX-License-Identifier: MIT */
#include "machine/core/core_arch.h"
#include "arch/x86_64.h"

static const struct vms_core_arch *const known[] = { &vms_core_x86_64, &vms_core_aarch64 };

const struct vms_core_arch *vms_core_arch_of(const struct vms_arch *arch)
{
	for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
		if (known[i]->arch == arch)
			return known[i];
	}
	return NULL;
}

const struct vms_core_arch *vms_core_arch_of_elf(uint16_t elf_machine)
{
	for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
		if (known[i]->elf_machine == elf_machine)
			return known[i];
	}
	return NULL;
}

/* Reads a little-endian integer of `size` bytes. False if it is not in the content. */
static bool read_integer(struct vms_bytes content, size_t offset, size_t size, uint64_t *ret)
{
	if (!vms_bytes_has(content, offset, size))
		return false;
	*ret = 0;
	for (size_t i = size; i > 0; i--)
		*ret = *ret << 8 | content.data[offset + i - 1];
	return true;
}

static void write_integer(uint8_t *content, size_t offset, size_t size, uint64_t value)
{
	for (size_t i = 0; i < size; i++, value >>= 8)
		content[offset + i] = (uint8_t)value;
}

static bool matches_layout(const struct vms_note_layout *layout, struct vms_bytes content)
{
	if (layout->size == 0 || content.size < layout->min_size)
		return false;
	for (size_t i = 0; i < layout->n_constants; i++) {
		const struct vms_note_constant *constant = &layout->constants[i];
		uint64_t value;
		if (constant->is_magic &&
		    (!read_integer(content, constant->offset, constant->size, &value) ||
		     value != constant->value))
			return false;
	}
	return true;
}

bool vms_note_decode(const struct vms_core_arch *arch, enum vms_note_kind kind,
		     struct vms_bytes content, struct vms_regs *regs)
{
	const struct vms_note_layout *layout = &arch->notes[kind];
	if (!matches_layout(layout, content))
		return false;
	for (size_t i = 0; i < layout->n_fields; i++) {
		const struct vms_note_field *field = &layout->fields[i];
		uint64_t value;
		if (field->write_only || !read_integer(content, field->offset, field->size, &value))
			continue;
		if (field->is_descriptor)
			value = value >> X86_64_DESCRIPTOR_SHIFT & X86_64_ATTR_MASK;
		vms_regs_set(regs, field->reg, value);
	}
	return true;
}

bool vms_note_tells(const struct vms_core_arch *arch, enum vms_note_kind kind, unsigned reg)
{
	const struct vms_note_layout *layout = &arch->notes[kind];
	for (size_t i = 0; i < layout->n_fields; i++) {
		if (layout->fields[i].reg == reg && !layout->fields[i].write_only)
			return true;
	}
	return false;
}

uint8_t *vms_note_encode(const struct vms_core_arch *arch, enum vms_note_kind kind,
			 const struct vms_regs *regs)
{
	const struct vms_note_layout *layout = &arch->notes[kind];
	struct vms_regs all = *regs;
	if (arch->assume)
		arch->assume(&all);
	uint8_t *content = g_malloc0(layout->size);
	for (size_t i = 0; i < layout->n_constants; i++) {
		const struct vms_note_constant *constant = &layout->constants[i];
		write_integer(content, constant->offset, constant->size, constant->value);
	}
	for (size_t i = 0; i < layout->n_fields; i++) {
		const struct vms_note_field *field = &layout->fields[i];
		uint64_t value = all.value[field->reg]; /* known or assumed, else 0 */
		if (field->is_descriptor)
			value = (value & X86_64_ATTR_MASK) << X86_64_DESCRIPTOR_SHIFT;
		write_integer(content, field->offset, field->size, value);
	}
	return content;
}
