/* SPDX-License-Identifier: MIT */
/*
 * drives-tool [-c COPY] [-j] [-s] UUID INODE SIZE IMAGE…: opens images as QEMU would have them
 * open, and writes the bytes of a file in one of them, by the UUID of its file system (32
 * hexadecimal digits) and its inode. -c: of one of the disks that have it. -j: a jail interprets
 * the disks. -s: writes what it has cost to the standard error. What was left out for its cost is
 * written there, too.
 */
#include "disk/drives.h"
#include "base/jail_process.h"
#include "disk/disk_service.h"
#include <err.h>
#include <fcntl.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool write_bytes(const struct vms_file_source *source)
{
	uint8_t bytes[65536 + 1]; /* not a multiple of blocks */
	for (uint64_t at = 0, part; at < source->size; at += part) {
		part = MIN(source->size - at, sizeof(bytes));
		if (!vms_file_source_read_waiting(source, at, bytes, part)) {
			warnx("cannot read at %" G_GUINT64_FORMAT, at);
			return false;
		}
		fwrite(bytes, 1, part, stdout);
	}
	return true;
}

static bool write_file(struct vms_drives *drives, const struct vms_drive_file *file, unsigned copy)
{
	struct vms_file_source source;
	g_autoptr(GError) error = NULL;
	if (!vms_drives_open_file(drives, file, copy, &source, &error)) {
		warnx("%s", error->message);
		return false;
	}
	const bool done = write_bytes(&source);
	vms_file_source_clear(&source);
	return done;
}

static void parse_file(char **argv, struct vms_drive_file *ret)
{
	for (size_t i = 0; i < sizeof(ret->uuid); i++)
		ret->uuid[i] = (uint8_t)(g_ascii_xdigit_value(argv[0][2 * i]) << 4 |
					 g_ascii_xdigit_value(argv[0][2 * i + 1]));
	ret->inode = strtoull(argv[1], NULL, 10);
	ret->size = strtoull(argv[2], NULL, 10);
}

int main(int argc, char **argv)
{
	static const struct vms_jail_service *const services[] = { &vms_disk_service, NULL };
	struct vms_budget_options options = { .size = sizeof(options) };
	struct vms_drive_file file = { 0 };
	unsigned copy = 0;
	bool tells = false;
	if (argc == 2 && strcmp(argv[1], VMS_JAIL_ARGUMENT) == 0)
		vms_jail_serve(services);
	for (int option; (option = getopt(argc, argv, "c:js")) != -1;) {
		if (option == 'c')
			copy = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 'j')
			options.jail = "/proc/self/exe";
		tells |= option == 's';
	}
	if (argc < optind + 4 || strlen(argv[optind]) != 2 * sizeof(file.uuid))
		errx(2, "usage: %s [-c COPY] [-j] [-s] UUID INODE SIZE IMAGE...", argv[0]);
	parse_file(argv + optind, &file);
	for (int i = optind + 3; i < argc; i++)
		if (open(argv[i], O_RDONLY) < 0)
			err(1, "%s", argv[i]);
	g_autoptr(vms_budget) budget = vms_budget_new(&options, NULL);
	struct vms_drives *drives = vms_drives_new(getpid(), budget);
	const bool done = write_file(drives, &file, copy);
	g_autofree char *losses = vms_budget_describe_losses(budget);
	if (losses)
		warnx("left out: %s", losses);
	if (tells)
		warnx("%" G_GUINT64_FORMAT " steps, %" G_GUINT64_FORMAT " bytes",
		      vms_budget_spent(budget, VMS_BUDGET_STEPS),
		      vms_budget_spent(budget, VMS_BUDGET_BYTES));
	vms_drives_unref(drives);
	return done ? 0 : 1;
}
