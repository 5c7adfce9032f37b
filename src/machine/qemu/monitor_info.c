/* SPDX-License-Identifier: MIT */
#include "machine/qemu/qemu.h"
#include <string.h>

/* The text of each is the answer to `info NAME` of the human monitor. */
const struct vms_machine_item vms_qemu_items[] = {
	{ "block", "block devices and their images" },
	{ "chardev", "character devices" },
	{ "jit", "TCG's translation cache" },
	{ "lapic", "local interrupt controller of the first vCPU" },
	{ "mtree", "memory regions, as QEMU nests them" },
	{ "network", "network devices and their back ends" },
	{ "numa", "NUMA nodes" },
	{ "pci", "PCI devices" },
	{ "pic", "interrupt controllers" },
	{ "qtree", "device tree, as QEMU nests it" },
	{ "ramblock", "blocks of RAM in QEMU's memory" },
	{ "roms", "firmware and option ROMs" },
	{ "status", "QEMU's run state" },
	{ "usb", "USB devices" },
};
const size_t vms_qemu_n_items = G_N_ELEMENTS(vms_qemu_items);

/* No other engine has items of its own. */
const struct vms_machine_item *vms_machine_known_items(size_t *n)
{
	*n = vms_qemu_n_items;
	return vms_qemu_items;
}

char *vms_qemu_item_text(struct vms_machine *machine, const char *name, GError **error)
{
	struct vms_qemu *qemu = (struct vms_qemu *)machine;
	g_autofree char *command = g_strconcat("info ", name, NULL);
	return vms_qmp_hmp(&qemu->qmp, command, error);
}
