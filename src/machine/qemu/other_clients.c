/* SPDX-License-Identifier: MIT */
/* Finds out who else is connected to the monitors of a QEMU. */
#include "machine/qemu/qemu.h"
#include "machine/qemu/qemu_process.h"

#include <string.h>

/*
 * True if query-chardev's `filename` is that of a socket with a client (QEMU's
 * chardev/char-socket.c). A socket that waits for a client is "disconnected:…".
 */
static bool is_connected_socket(const char *filename)
{
	static const char *const kinds[] = { "unix:",	   "tcp:", "telnet:", "tn3270:",
					     "websocket:", "tls:", "vsock:",  "fd:" };
	for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
		if (g_str_has_prefix(filename, kinds[i]))
			return true;
	}
	return false;
}

/* True for the chardev of a monitor. QEMU calls those without an id compat_monitor0 and so on. */
static bool is_monitor(const GPtrArray *named, const char *label)
{
	for (guint i = 0; named && i < named->len; i++) {
		if (strcmp(named->pdata[i], label) == 0)
			return true;
	}
	return g_str_has_prefix(label, "compat_monitor");
}

/* How many monitors have a client, by the answer of query-chardev. */
static unsigned count_clients(struct json_object *chardevs, const GPtrArray *named)
{
	bool is_list = json_object_is_type(chardevs, json_type_array);
	unsigned n = 0;
	for (size_t i = 0; is_list && i < json_object_array_length(chardevs); i++) {
		struct json_object *chardev = json_object_array_get_idx(chardevs, i);
		const char *label = vms_json_string(chardev, "label");
		const char *filename = vms_json_string(chardev, "filename");
		n += label && filename && is_monitor(named, label) && is_connected_socket(filename);
	}
	return n;
}

bool vms_qemu_find_watcher(struct vms_qemu *qemu, bool *found, GError **error)
{
	struct vms_host_process process = { 0 };
	vms_autojson *chardevs = vms_qmp_execute(&qemu->qmp, "query-chardev", NULL, -1, error);
	if (!chardevs)
		return false;
	/* Without the process's command line, only monitors without an id are counted. */
	bool seen = qemu->process.pid && vms_host_process_read(qemu->process.pid, &process, NULL);
	/* One of the clients is this program. */
	*found = count_clients(chardevs, seen ? process.cmdline.monitors : NULL) > 1;
	if (seen)
		vms_host_process_clear(&process);
	return true;
}
