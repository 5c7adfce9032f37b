/* SPDX-License-Identifier: MIT */
/*
 * Page walks for the tests, as the vCPU sees them at this moment: opens the QEMU behind a QMP
 * socket and holds it; then, for every line "VCPU ADDRESS" that it reads, writes the guest-physical
 * address, or "-" where nothing is mapped.
 */
#include <inttypes.h>
#include <stdio.h>
#include <vmscope/vmscope.h>

static bool read_phys(void *data, uint64_t pa, void *buf, size_t size)
{
	return vms_machine_read_phys(data, pa, buf, size);
}

static bool answer(struct vms_machine *machine, unsigned vcpu, uint64_t va, GError **error)
{
	const struct vms_reader phys = { read_phys, machine };
	struct vms_regs regs;
	struct vms_page page;

	if (!vms_machine_regs(machine, vcpu, &regs, error))
		return false;
	if (vms_machine_arch(machine)->translate(&regs, &phys, va, &page))
		printf("0x%" PRIx64 "\n", page.pa + (va - page.va));
	else
		puts("-");
	return true;
}

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = argc == 2 ? vms_machine_open_qmp(argv[1], &error) : NULL;
	unsigned vcpu;
	uint64_t va;

	/* The tests have a monitor of their own. */
	if (machine)
		vms_machine_allow_stop(machine, true);
	bool done = machine && vms_machine_hold(machine, VMS_ALL_VCPUS, &error);

	while (done && scanf("%u %" SCNx64, &vcpu, &va) == 2)
		done = answer(machine, vcpu, va, &error);
	done = done && vms_machine_release(machine, VMS_ALL_VCPUS, &error);
	if (!done)
		fprintf(stderr, "translate: %s\n", error ? error->message : "no QMP socket given");
	return done ? 0 : 1;
}
