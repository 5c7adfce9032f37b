/* SPDX-License-Identifier: MIT */
#include "agent/qemu/wide.h"

#include "agent/qemu/internals.h"
#include <stdlib.h>
#include <string.h>

/* True if QEMU's name of a register is `prefix` and a number below `n`. */
static bool is_named(const char *name, const char *prefix, unsigned n, unsigned *number)
{
	const size_t length = strlen(prefix);
	char *end;
	if (strncmp(name, prefix, length) != 0 || name[length] < '0' || name[length] > '9')
		return false;
	const unsigned long value = strtoul(name + length, &end, 10);
	*number = (unsigned)value;
	return *end == 0 && value < n;
}

/* Returns the wide register that QEMU calls `name`; VMS_WIDE_MAX: it is none. */
static unsigned find_number(const char *name)
{
	unsigned number;
	for (const struct wide_names *names = vcpu_arch()->wide; names && names->prefix; names++)
		if (is_named(name, names->prefix, names->n, &number))
			return names->first + number;
	return VMS_WIDE_MAX;
}

static void note_handle(const char *name, struct qemu_plugin_register *handle, void *data)
{
	struct vcpu *vcpu = data;
	const unsigned number = find_number(name);
	if (number < VMS_WIDE_MAX && !vcpu->wide_handles[number])
		vcpu->wide_handles[number] = handle;
}

static void note_number(const char *name, int number, void *data)
{
	struct vcpu *vcpu = data;
	const unsigned wide = find_number(name);
	if (wide < VMS_WIDE_MAX && vcpu->wide_numbers[wide] < 0)
		vcpu->wide_numbers[wide] = number;
}

void wide_find(struct vcpu *vcpu)
{
	memset(vcpu->wide_handles, 0, sizeof(vcpu->wide_handles));
	for (unsigned i = 0; i < VMS_WIDE_MAX; i++)
		vcpu->wide_numbers[i] = -1;
	if (vcpu->qemu)
		internals_each_register(vcpu->qemu, note_number, vcpu);
	else
		vcpu_each_handle(note_handle, vcpu);
}

/* Reads what QEMU's gdb stub has of a register into `vcpu->bytes`. */
static void read_described(struct vcpu *vcpu, unsigned number)
{
	g_byte_array_set_size(vcpu->bytes, 0);
	if (vcpu->qemu && vcpu->wide_numbers[number] >= 0)
		internals_read_register(vcpu->qemu, vcpu->wide_numbers[number], vcpu->bytes);
	else if (vcpu->wide_handles[number])
		qemu_plugin_read_register(vcpu->wide_handles[number], vcpu->bytes);
}

bool wide_read(struct vcpu *vcpu, unsigned number, void *buf, size_t size)
{
	read_described(vcpu, number);
	if (vcpu->bytes->len < size)
		return vcpu->qemu && vcpu_arch()->read_wide &&
		       vcpu_arch()->read_wide(vcpu, number, buf, size);
	memcpy(buf, vcpu->bytes->data, size);
	return true;
}
