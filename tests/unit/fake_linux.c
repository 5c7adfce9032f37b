/* SPDX-License-Identifier: MIT */
#include "fake_linux.h"
#include <vmscope/memory.h>

struct vms_linux *fake_linux_new(struct vms_machine *machine, const struct fake_symbol *symbols,
				 GByteArray *btf)
{
	const struct vms_regs regs = { 0 };
	struct vms_linux *guest = g_new0(struct vms_linux, 1);
	g_mutex_init(&guest->lock);
	guest->machine = vms_machine_ref(machine);
	guest->arch = vms_machine_arch(machine);
	guest->memory = vms_memory_new(machine, &regs);
	guest->page_size = 4096;
	guest->symbolizer = vms_symbolizer_new();
	guest->symbols = vms_symbol_table_new("vmlinux");
	for (; symbols->name; symbols++)
		vms_symbol_table_add(guest->symbols, symbols->name, symbols->va, 0, 'D');
	vms_symbol_table_finish(guest->symbols, UINT64_MAX);
	if (btf) {
		GError *error = NULL;
		guest->btf = vms_btf_new((struct vms_bytes) { btf->data, btf->len }, &error);
		g_assert_no_error(error);
		g_byte_array_unref(btf);
	}
	return guest;
}
