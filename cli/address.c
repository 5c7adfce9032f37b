/* SPDX-License-Identifier: MIT */
/* Addresses as people write and read them, and what lies there. */
#include "session.h"
#include "values.h"
#include <string.h>

struct found {
	uint64_t va;
	size_t n;
};

static void keep_first(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct found *found = data;
	(void)module;
	if (found->n++ == 0)
		found->va = symbol->va;
}

bool session_address(struct session *session, const char *text, uint64_t *ret, GError **error)
{
	if (value_in_c(text, ret))
		return true;
	if (g_ascii_isdigit(text[0])) {
		usage_error(error, "\"%s\" is no address: it must be a number up to 64 bits", text);
		return false;
	}
	const char *plus = strchr(text, '+');
	uint64_t offset = 0;
	if (plus && !value_in_c(plus + 1, &offset)) {
		usage_error(error, "\"%s\" is no address: after \"+\" comes a number", text);
		return false;
	}
	g_autofree char *name = plus ? g_strndup(text, (gsize)(plus - text)) : g_strdup(text);
	struct found found = { 0 };
	vms_guest_lookup(session->guest, name, keep_first, &found);
	if (found.n == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "no symbol \"%s\" in this guest",
			    name);
		return false;
	}
	if (found.n > 1)
		vms_log(VMS_LOG_WARNING, "%zu symbols are called \"%s\": the first is used",
			found.n, name);
	*ret = found.va + offset;
	return true;
}

bool session_locate(struct session *session, const struct vms_process *process, uint64_t pc,
		    bool is_return, struct vms_location *ret)
{
	*ret = (struct vms_location) { 0 };
	if (!vms_guest_locate(session->guest, process, pc - is_return, ret))
		return false;
	ret->offset += is_return;
	return true;
}

char *session_name(const struct vms_location *location)
{
	GString *name = g_string_new(NULL);
	const char *base = location->symbol ? location->symbol : location->module;
	if (!base)
		return g_string_free(g_string_append_c(name, '?'), FALSE);
	g_string_append_printf(name, "%s+0x%" G_GINT64_MODIFIER "x", base, location->offset);
	if (location->symbol && location->module)
		g_string_append_printf(name, " (%s)", location->module);
	if (location->source)
		g_string_append_printf(name, " at %s:%u", location->source, location->line);
	return g_string_free(name, FALSE);
}

bool session_read(struct session *session, bool physical, unsigned vcpu, uint64_t address,
		  void *bytes, size_t size, GError **error)
{
	if (!vms_machine_observe(session->machine, error))
		return false;
	struct vms_regs regs;
	bool done = vms_machine_regs(session->machine, vcpu, &regs, error);
	if (done) {
		g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &regs);
		done = physical ? vms_machine_read_phys(session->machine, address, bytes, size)
				: vms_memory_read(memory, address, bytes, size);
		if (!done)
			g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
				    "cannot read %zu bytes at %s address 0x%" G_GINT64_MODIFIER
				    "x: %s",
				    size, physical ? "guest-physical" : "virtual", address,
				    physical ? "no RAM or ROM is there (see \"info handlers\")"
					     : "not all of it is mapped");
	}
	return vms_machine_release(session->machine, VMS_ALL_VCPUS, done ? error : NULL) && done;
}
