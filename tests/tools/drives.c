/* SPDX-License-Identifier: MIT */
/*
 * drives-tool UUID INODE SIZE IMAGE…: opens images as QEMU would have them open, and writes the
 * bytes of a file in one of them, by the UUID of its file system (32 hexadecimal digits) and its
 * inode.
 */
#include "disk/drives.h"
#include <err.h>
#include <fcntl.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void write_bytes(const struct vms_file_source *source)
{
	uint8_t bytes[65536 + 1]; /* not a multiple of blocks */
	for (uint64_t at = 0, part; at < source->size; at += part) {
		part = MIN(source->size - at, sizeof(bytes));
		if (!vms_file_source_read(source, at, bytes, part))
			errx(1, "cannot read at %" G_GUINT64_FORMAT, at);
		fwrite(bytes, 1, part, stdout);
	}
}

int main(int argc, char **argv)
{
	struct vms_drive_file file = { 0 };
	struct vms_file_source source;
	g_autoptr(GError) error = NULL;
	if (argc < 5 || strlen(argv[1]) != 2 * sizeof(file.uuid))
		errx(2, "usage: %s UUID INODE SIZE IMAGE...", argv[0]);
	for (size_t i = 0; i < sizeof(file.uuid); i++)
		file.uuid[i] = (uint8_t)(g_ascii_xdigit_value(argv[1][2 * i]) << 4 |
					 g_ascii_xdigit_value(argv[1][2 * i + 1]));
	file.inode = strtoull(argv[2], NULL, 10);
	file.size = strtoull(argv[3], NULL, 10);
	for (int i = 4; i < argc; i++)
		if (open(argv[i], O_RDONLY) < 0)
			err(1, "%s", argv[i]);
	struct vms_drives *drives = vms_drives_new(getpid());
	if (!vms_drives_open_file(drives, &file, &source, &error))
		errx(1, "%s", error->message);
	write_bytes(&source);
	vms_file_source_clear(&source);
	vms_drives_unref(drives);
	return 0;
}
