/* SPDX-License-Identifier: MIT */
/*
 * What was everybody doing? Prints the threads of a core file, each with the functions of the
 * kernel in which it sleeps. Of threads that run on a vCPU, the vCPU's registers would tell.
 *
 * cc tasks.c -o tasks $(pkg-config --cflags --libs vmscope); ./tasks CORE
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <vmscope/vmscope.h>

static void print_stack(struct vms_guest *guest, const struct vms_regs *regs)
{
	g_autoptr(vms_memory) memory = vms_memory_new(vms_guest_machine(guest), regs);
	g_autofree struct vms_stack *stack = g_new(struct vms_stack, 1);
	vms_walk(guest, memory, regs, VMS_STACK_DEFAULT, stack);
	for (unsigned i = 0; i < stack->n_kernel; i++) {
		const struct vms_frame *frame = &stack->frame[i];
		struct vms_location location;
		/* A return address is that of the next instruction: the call lies before it. */
		uint64_t pc = frame->pc - frame->is_return;
		bool is_known = vms_guest_locate(guest, NULL, pc, &location) && location.symbol;
		printf("    0x%016" PRIx64 "  %s\n", frame->pc, is_known ? location.symbol : "?");
	}
}

static bool print_tasks(struct vms_guest *guest, GError **error)
{
	g_autoptr(GArray) tasks = vms_guest_tasks(guest, NULL, error);
	for (size_t i = 0; tasks && i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		struct vms_regs regs;
		bool sleeps = vms_guest_task_regs(guest, task, &regs, NULL);
		printf("%u %c %s%s\n", task->tid, task->state, task->comm,
		       sleeps ? "" : " (on a vCPU)");
		if (sleeps)
			print_stack(guest, &regs);
	}
	return tasks;
}

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	if (argc != 2) {
		fprintf(stderr, "usage: %s CORE\n", argv[0]);
		return EXIT_FAILURE;
	}
	g_autoptr(vms_machine) machine = vms_machine_open_core(argv[1], &error);
	g_autoptr(vms_guest) guest = machine ? vms_guest_detect(machine, &error) : NULL;
	if (guest && print_tasks(guest, &error))
		return EXIT_SUCCESS;
	fprintf(stderr, "%s\n", error->message);
	return EXIT_FAILURE;
}
