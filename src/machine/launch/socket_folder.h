/* SPDX-License-Identifier: MIT */
/*
 * The folder of the sockets of all QEMUs that this process starts. The sockets of the first QEMU
 * are "PID.qmp0" … and "PID.agent", those of the second "PID-1.qmp0" …
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

/* The folder, for the sockets of one QEMU. */
struct vms_socket_folder {
	char *path;	 /* of this user, see base/private_folder.h */
	unsigned serial; /* number of the QEMU in this process, from 0 */
};

/*
 * Makes the folder if it does not exist. Only this user can enter it. Removes sockets of processes
 * that have ended. Errors: IO, PERMISSION.
 */
bool vms_socket_folder_open(struct vms_socket_folder *folder, GError **error);
void vms_socket_folder_clear(struct vms_socket_folder *folder);
/* Returns the path for a socket with this name, and removes an old one. Newly allocated. */
char *vms_socket_folder_path(const struct vms_socket_folder *folder, const char *name);
