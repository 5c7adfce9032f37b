/* SPDX-License-Identifier: MIT */
/*
 * Where the sockets of QEMUs lie that this process starts: "PID.qmp0" …, "PID.agent" of the first,
 * "PID-1.qmp0" … of the next.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

/* The folder, for the sockets of one QEMU. */
struct vms_socket_folder {
	char *path;
	unsigned serial; /* which QEMU of this process it is, from 0 on */
};

/*
 * Makes the folder if it is not there: only this user can enter it. Removes sockets of processes
 * that have ended. Errors: IO, PERMISSION.
 */
bool vms_socket_folder_open(struct vms_socket_folder *folder, GError **error);
void vms_socket_folder_clear(struct vms_socket_folder *folder);
/* The path of the QEMU's socket of that name, where none lies; newly allocated. */
char *vms_socket_folder_path(const struct vms_socket_folder *folder, const char *name);
