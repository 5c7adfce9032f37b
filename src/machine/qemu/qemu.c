/* SPDX-License-Identifier: MIT */
#include "machine/qemu/qemu.h"
#include "machine/qemu/hmp.h"

#include <string.h>
#include <vmscope/log.h>

static struct vms_qemu *qemu_of(struct vms_machine *machine)
{
	return (struct vms_qemu *)machine;
}

bool vms_qemu_system_regs(struct vms_machine *machine, unsigned vcpu, struct vms_regs *ret,
			  GError **error)
{
	struct vms_qemu *qemu = qemu_of(machine);
	if (machine->arch != &vms_arch_x86_64)
		return true;
	g_autofree char *text =
		vms_qmp_hmp_vcpu(&qemu->qmp, "info registers", qemu->cpu_index[vcpu], error);
	if (!text)
		return false;
	if (!vms_hmp_parse_x86_64_registers(text, ret) && !qemu->told_registers) {
		qemu->told_registers = true;
		vms_log(VMS_LOG_INFO,
			"%s: no segments and debug registers: cannot understand QEMU's "
			"`info registers`",
			machine->info.name);
	}
	return true;
}

bool vms_qemu_read_ram(struct vms_machine *machine, uint64_t pa, void *buf, size_t size)
{
	return vms_ram_read(&qemu_of(machine)->ram, pa, buf, size);
}

size_t vms_qemu_read_parts(struct vms_machine *machine, const struct vms_phys_part *parts, size_t n)
{
	return vms_ram_read_parts(&qemu_of(machine)->ram, parts, n);
}

void vms_qemu_next_data(struct vms_machine *machine, uint64_t pa, uint64_t end, uint64_t *begin,
			uint64_t *stop)
{
	vms_ram_next_data(&qemu_of(machine)->ram, pa, end, begin, stop);
}

enum vms_machine_end vms_qemu_ended(struct vms_machine *machine)
{
	struct vms_qmp *qmp = &qemu_of(machine)->qmp;
	if (!vms_qmp_poll(qmp) || qmp->has_shut_down)
		return VMS_MACHINE_GONE;
	return qmp->resets > 0 ? VMS_MACHINE_RESET : VMS_MACHINE_GOES_ON;
}

uint64_t vms_qemu_resets(struct vms_machine *machine)
{
	vms_qmp_poll(&qemu_of(machine)->qmp);
	return qemu_of(machine)->qmp.resets;
}

/* A socket serves one client, and several may look for a free one at the same time. */
static bool connect_to_free(struct vms_qmp *qmp, const char *const *addresses, GError **error)
{
	for (;; addresses++) {
		g_autoptr(GError) failure = NULL;
		if (vms_stream_connect(&qmp->stream, "QMP socket", *addresses, &failure) &&
		    vms_qmp_open(qmp, &failure))
			return true;
		if (!addresses[1]) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return false;
		}
		vms_qmp_close(qmp);
		*qmp = (struct vms_qmp) { 0 };
	}
}

bool vms_qemu_open(struct vms_qemu *qemu, const char *const *addresses, pid_t pid, GError **error)
{
	qemu->machine.info.pid = pid;
	qemu->machine.items = vms_qemu_items;
	qemu->machine.n_items = vms_qemu_n_items;
	qemu->strings = g_string_chunk_new(1024);
	if (!connect_to_free(&qemu->qmp, addresses, error) || !vms_qemu_identify(qemu, error))
		return false;
	vms_qemu_map_ram(qemu);
	return true;
}

void vms_qemu_close(struct vms_qemu *qemu)
{
	vms_qmp_close(&qemu->qmp);
	g_clear_pointer(&qemu->machine.ranges, g_array_unref);
	g_free(qemu->machine.vcpu_threads);
	g_free(qemu->cpu_index);
	vms_ram_close(&qemu->ram);
	vms_host_identity_close(&qemu->process);
	g_string_chunk_free(qemu->strings);
}
