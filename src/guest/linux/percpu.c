/* SPDX-License-Identifier: MIT */
#include "guest/linux/percpu.h"

#define CPUS_LIMIT 8192u

/* False without CONFIG_SMP: then there is one copy of each variable, at its symbol's address. */
static bool has_copies(const struct vms_linux *guest, uint64_t *offsets)
{
	return vms_linux_symbol(guest, "__per_cpu_offset", offsets);
}

unsigned vms_linux_cpus(struct vms_linux *guest)
{
	uint64_t offsets, va;
	uint32_t n;
	if (!has_copies(guest, &offsets))
		return 1;
	if (!vms_linux_symbol(guest, "nr_cpu_ids", &va) ||
	    !vms_memory_read_u32(guest->memory, va, &n))
		n = vms_machine_vcpus(guest->machine);
	return MIN(n, CPUS_LIMIT);
}

bool vms_linux_cpu_offset(struct vms_linux *guest, unsigned cpu, uint64_t *ret)
{
	uint64_t offsets;
	*ret = 0;
	return !has_copies(guest, &offsets) ||
	       vms_memory_read_u64(guest->memory, offsets + cpu * sizeof(*ret), ret);
}
