/* SPDX-License-Identifier: MIT */
/* QEMU's gdb stub, added and removed while the machine runs. */
#include "machine/qemu/qemu.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LABEL_PREFIX "vmscope-"

static struct json_object *object_with(const char *key, struct json_object *value)
{
	struct json_object *object = json_object_new_object();
	json_object_object_add(object, key, value);
	return object;
}

/* Our chardev's label; it tells others whose it is. */
static char *own_label(void)
{
	return g_strdup_printf(LABEL_PREFIX "%d", (int)getpid());
}

static bool run_gdbserver(struct vms_qemu *qemu, const char *device, const char *expected,
			  GError **error)
{
	g_autofree char *command = g_strdup_printf("gdbserver %s", device);
	g_autofree char *text = vms_qmp_hmp(&qemu->qmp, command, error);
	if (!text)
		return false;
	if (strstr(text, expected))
		return true;
	g_strdelimit(text, "\n", ' ');
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED, "%s: QEMU refused `%s`: %s",
		    qemu->qmp.stream.peer, command, g_strstrip(text));
	return false;
}

/* The stub takes its chardev along; without a stub that is still there. */
static bool remove_server(struct vms_qemu *qemu, const char *label, GError **error)
{
	if (!run_gdbserver(qemu, "none", "Disabled gdbserver", error))
		return false;
	vms_autojson *removed =
		vms_qmp_execute(&qemu->qmp, "chardev-remove",
				object_with("id", json_object_new_string(label)), -1, NULL);
	return removed || !qemu->qmp.broken;
}

/*
 * QEMU has one gdb stub at a time. One that belongs to somebody alive is left
 * alone; what a process that has died left behind is removed.
 */
static bool check_chardev(struct vms_qemu *qemu, const char *label, const char *filename,
			  GError **error)
{
	if (strcmp(label, "gdb") == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_BUSY,
			    "%s: this QEMU has a gdb stub already (%s), which serves one client; "
			    "use --gdb with its address, or remove it by `gdbserver none`",
			    qemu->qmp.stream.peer, filename ? filename : "address unknown");
		return false;
	}
	uint64_t pid;
	if (!g_str_has_prefix(label, LABEL_PREFIX) ||
	    !g_ascii_string_to_unsigned(label + strlen(LABEL_PREFIX), 10, 1, G_MAXINT, &pid, NULL))
		return true;
	if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
		return remove_server(qemu, label, error);
	g_set_error(error, VMS_ERROR, VMS_ERROR_BUSY,
		    "%s: process %u is looking at this machine already", qemu->qmp.stream.peer,
		    (unsigned)pid);
	return false;
}

static bool check_free(struct vms_qemu *qemu, GError **error)
{
	vms_autojson *chardevs = vms_qmp_execute(&qemu->qmp, "query-chardev", NULL, -1, error);
	if (!chardevs)
		return false;
	if (!json_object_is_type(chardevs, json_type_array))
		return true;
	for (size_t i = 0; i < json_object_array_length(chardevs); i++) {
		struct json_object *chardev = json_object_array_get_idx(chardevs, i);
		const char *label = vms_json_string(chardev, "label");
		if (label &&
		    !check_chardev(qemu, label, vms_json_string(chardev, "filename"), error))
			return false;
	}
	return true;
}

/* A socket chardev; takes `data` over. */
static bool add_chardev(struct vms_qemu *qemu, const char *label, struct json_object *data,
			GError **error)
{
	struct json_object *backend = object_with("type", json_object_new_string("socket"));
	json_object_object_add(backend, "data", data);
	struct json_object *arguments = object_with("id", json_object_new_string(label));
	json_object_object_add(arguments, "backend", backend);
	vms_autojson *added = vms_qmp_execute(&qemu->qmp, "chardev-add", arguments, -1, error);
	return added != NULL;
}

/* One end of a socket pair becomes the chardev `label`; returns the other, or -1. */
static int add_pair(struct vms_qemu *qemu, const char *label, GError **error)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot make a socket pair: %s",
			    g_strerror(errno));
		return -1;
	}
	vms_autojson *passed = vms_qmp_execute(&qemu->qmp, "getfd",
					       object_with("fdname", json_object_new_string(label)),
					       ends[1], error);
	close(ends[1]);
	struct json_object *address = object_with("type", json_object_new_string("fd"));
	json_object_object_add(address, "data", object_with("str", json_object_new_string(label)));
	struct json_object *data = object_with("addr", address);
	json_object_object_add(data, "server", json_object_new_boolean(false));
	if (!passed)
		json_object_put(data);
	if (passed && add_chardev(qemu, label, data, error))
		return ends[0];
	close(ends[0]);
	return -1;
}

bool vms_qemu_add_stub(struct vms_qemu *qemu, GError **error)
{
	g_autofree char *label = own_label();
	g_autofree char *device = g_strconcat("chardev:", label, NULL);
	if (!check_free(qemu, error))
		return false;
	qemu->guard = vms_guard_new_qmp(&qemu->qmp.stream, label, error);
	if (!qemu->guard)
		return false;
	vms_guard_set_stub(qemu->guard, true);
	int fd = add_pair(qemu, label, error);
	if (fd < 0)
		return false;
	vms_stream_init(&qemu->gdb.stream, fd,
			g_strdup_printf("gdb stub of %s", qemu->qmp.stream.peer));
	vms_qmp_poll(&qemu->qmp);
	qemu->user_paused = !qemu->qmp.running;
	qemu->holding = !qemu->user_paused;
	if (qemu->holding && !vms_guard_hold(qemu->guard, error))
		return false;
	return run_gdbserver(qemu, device, "Waiting for gdb connection", error) &&
	       vms_gdb_open(&qemu->gdb, error);
}

bool vms_qemu_remove_stub(struct vms_qemu *qemu, GError **error)
{
	g_autofree char *label = own_label();
	vms_gdb_close(&qemu->gdb);
	if (!qemu->guard || !remove_server(qemu, label, error))
		return !qemu->guard;
	vms_guard_set_stub(qemu->guard, false);
	return true;
}
