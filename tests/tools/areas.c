/* SPDX-License-Identifier: MIT */
/*
 * What backs user addresses, for the tests: opens the QEMU behind a QMP socket and holds it; then,
 * for every line "PID ADDRESS" that it reads, writes "FILE<tab>OFFSET", or "-" where nothing is.
 */
#include <inttypes.h>
#include <stdio.h>
#include <vmscope/vmscope.h>

static const struct vms_task *find_task(const GArray *tasks, unsigned pid)
{
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		if (task->pid == pid && task->tid == pid)
			return task;
	}
	return NULL;
}

static void answer(struct vms_guest *guest, struct vms_memory *memory, const struct vms_task *task,
		   uint64_t va)
{
	struct vms_location location;
	const struct vms_process *process = task ? vms_guest_process(guest, task) : NULL;

	if (process)
		vms_guest_note_address(guest, memory, process, va);
	if (process && vms_guest_locate(guest, process, va, &location))
		printf("%s\t0x%" PRIx64 "\n", location.module, location.offset);
	else
		puts("-");
}

static bool run(struct vms_machine *machine, GError **error)
{
	struct vms_regs regs;
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, error);

	if (!guest || !vms_machine_hold(machine, VMS_ALL_VCPUS, error) ||
	    !vms_machine_regs(machine, 0, &regs, error))
		return false;
	g_autoptr(vms_memory) memory = vms_memory_new(machine, &regs);
	g_autoptr(GArray) tasks = vms_guest_tasks(guest, NULL, error);
	unsigned pid;
	uint64_t va;
	while (tasks && scanf("%u %" SCNx64, &pid, &va) == 2)
		answer(guest, memory, find_task(tasks, pid), va);
	return vms_machine_release(machine, VMS_ALL_VCPUS, tasks ? error : NULL) && tasks;
}

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = argc == 2 ? vms_machine_open_qmp(argv[1], &error) : NULL;

	/* The tests have a monitor of their own. */
	if (machine)
		vms_machine_allow_stop(machine, true);
	bool done = machine && run(machine, &error);

	if (!done)
		fprintf(stderr, "areas: %s\n", error ? error->message : "no QMP socket given");
	return done ? 0 : 1;
}
