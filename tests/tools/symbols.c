/* SPDX-License-Identifier: MIT */
/*
 * Symbols of a guest for the tests. `symbols QMP scan` finds the kernel by a search of memory for
 * VMCOREINFO and writes all its symbols; `symbols QMP banner` writes the kernel's banner; `symbols
 * QMP names` writes for every address that it reads what it is called, "NAME OFFSET MODULE", or
 * "-".
 */
#include "guest/linux/detect.h"
#include "guest/linux/linux.h"
#include <inttypes.h>
#include <stdio.h>
#include <vmscope/vmscope.h>

static bool write_all(struct vms_machine *machine, GError **error)
{
	g_autofree char *why = NULL;
	struct vms_linux *guest = vms_linux_detect_by_scan(machine, &why);
	if (!guest) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "%s", why);
		return false;
	}
	for (size_t i = 0; i < vms_symbol_table_count(guest->symbols); i++) {
		struct vms_symbol symbol = vms_symbol_table_get(guest->symbols, i);
		printf("%016" PRIx64 " %c %s\n", symbol.va, symbol.type, symbol.name);
	}
	vms_linux_free(guest);
	return true;
}

static bool write_banner(struct vms_machine *machine, GError **error)
{
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, error);
	if (guest)
		puts(vms_guest_info(guest)->banner);
	return guest != NULL;
}

static bool write_names(struct vms_machine *machine, GError **error)
{
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, error);
	uint64_t va;
	if (!guest || !vms_guest_refresh_modules(guest, error))
		return false;
	while (scanf("%" SCNx64, &va) == 1) {
		struct vms_location location;
		if (vms_guest_locate(guest, NULL, va, &location) && location.symbol)
			printf("%s %" PRIu64 " %s\n", location.symbol, location.offset,
			       location.module ? location.module : "-");
		else
			puts("-");
	}
	return true;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		bool (*run)(struct vms_machine *machine, GError **error);
	} modes[] = { { "scan", write_all }, { "banner", write_banner }, { "names", write_names } };
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = argc == 3 ? vms_machine_open_qmp(argv[1], &error) : NULL;

	/* The tests have a monitor of their own. */
	if (machine)
		vms_machine_allow_stop(machine, true);
	bool done = false;
	for (size_t i = 0; machine && i < G_N_ELEMENTS(modes); i++)
		if (!strcmp(argv[2], modes[i].name))
			done = modes[i].run(machine, &error);
	if (!done)
		fprintf(stderr, "symbols: %s\n", error ? error->message : "QMP MODE expected");
	return done ? 0 : 1;
}
