/* SPDX-License-Identifier: MIT */
/*
 * Prints the bytes of a variable of a guest's kernel, as it runs: reading memory holds nobody.
 *
 * cc read_symbol.c -o read_symbol $(pkg-config --cflags --libs vmscope)
 * ./read_symbol PID linux_banner 64
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <vmscope/vmscope.h>

/* The page tables of any vCPU show the kernel. It is held for a moment to read its registers. */
static struct vms_memory *open_memory(struct vms_machine *machine, GError **error)
{
	struct vms_regs regs;
	if (!vms_machine_hold(machine, 0, error))
		return NULL;
	bool done = vms_machine_regs(machine, 0, &regs, error);
	if (!vms_machine_release(machine, 0, done ? error : NULL) || !done)
		return NULL;
	return vms_memory_new(machine, &regs);
}

static void keep_symbol(const struct vms_symbol *symbol, const char *module, void *data)
{
	(void)module;
	*(struct vms_symbol *)data = *symbol;
}

static bool print_symbol(struct vms_guest *guest, const char *name, size_t size, GError **error)
{
	struct vms_symbol symbol;
	g_autofree uint8_t *bytes = g_malloc(size);
	g_autoptr(vms_memory) memory = open_memory(vms_guest_machine(guest), error);
	if (!memory)
		return false;
	if (vms_guest_lookup(guest, name, keep_symbol, &symbol) == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "no symbol %s in this guest",
			    name);
		return false;
	}
	if (!vms_memory_read(memory, symbol.va, bytes, size)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "cannot read %zu bytes at 0x%" PRIx64, size, symbol.va);
		return false;
	}
	printf("0x%016" PRIx64, symbol.va);
	for (size_t i = 0; i < size; i++)
		printf(" %02x", bytes[i]);
	printf("\n");
	return true;
}

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	if (argc != 4) {
		fprintf(stderr, "usage: %s PID SYMBOL BYTES\n", argv[0]);
		return EXIT_FAILURE;
	}
	g_autoptr(vms_machine) machine = vms_machine_open_pid((pid_t)atoi(argv[1]), &error);
	g_autoptr(vms_guest) guest = machine ? vms_guest_detect(machine, &error) : NULL;
	if (guest && print_symbol(guest, argv[2], strtoul(argv[3], NULL, 10), &error))
		return EXIT_SUCCESS;
	fprintf(stderr, "%s\n", error->message);
	return EXIT_FAILURE;
}
