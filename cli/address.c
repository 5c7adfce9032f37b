/* SPDX-License-Identifier: MIT */
/* Parses and names addresses, and reads the memory there. */
#include "session.h"
#include "values.h"
#include <string.h>

#define PAGE 4096 /* memory begins and ends at multiples of it */

struct found {
	uint64_t va;
	bool is_there;
};

static void keep_first_symbol(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct found *found = data;
	(void)module;
	if (!found->is_there)
		found->va = symbol->va;
	found->is_there = true;
}

bool session_address(struct session *session, const char *text, uint64_t *ret, GError **error)
{
	if (value_in_c(text, ret))
		return true;
	if (g_ascii_isdigit(text[0])) {
		usage_error(error, "\"%s\" is no address: a number must fit into 64 bits", text);
		return false;
	}
	const char *plus = strchr(text, '+');
	uint64_t offset = 0;
	if (plus && !value_in_c(plus + 1, &offset)) {
		usage_error(error, "\"%s\" is no address: a number must follow \"+\"", text);
		return false;
	}
	g_autofree char *name = plus ? g_strndup(text, (gsize)(plus - text)) : g_strdup(text);
	struct found found = { 0 };
	if (!*g_strstrip(name)) {
		usage_error(error,
			    "\"%s\" is no address: write a symbol, a symbol with an offset, or a "
			    "number, as \"vfs_read+8\"",
			    text);
		return false;
	}
	vms_guest_lookup(session->guest, name, keep_first_symbol, &found);
	if (!found.is_there) {
		g_autofree char *nearest = vms_guest_nearest(session->guest, name);
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no symbol \"%s\" in this guest%s", name, nearest);
		return false;
	}
	size_t n;
	g_autofree char *addresses = vms_guest_addresses(session->guest, name, &n);
	if (n > 1)
		vms_log(VMS_LOG_WARNING,
			"%zu symbols are called \"%s\": using the first; write an address to "
			"choose "
			"another: %s",
			n, name, addresses);
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

/* The memory to read: guest-physical or virtual. */
struct place {
	struct vms_machine *machine;
	struct vms_memory *memory; /* NULL for guest-physical memory */
};

static bool read_place(const struct place *place, uint64_t address, uint8_t *bytes, size_t size)
{
	return place->memory ? vms_memory_read(place->memory, address, bytes, size)
			     : vms_machine_read_phys(place->machine, address, bytes, size);
}

/* Reads up to the first byte that cannot be read. Returns how many bytes were read. */
static size_t read_up_to_gap(const struct place *place, uint64_t address, uint8_t *bytes,
			     size_t size)
{
	size_t done = 0;
	if (size - 1 > G_MAXUINT64 - address)
		size = G_MAXUINT64 - address + 1;
	if (read_place(place, address, bytes, size))
		return size;
	while (done < size) {
		size_t part = MIN(size - done, PAGE - (address + done) % PAGE);
		if (!read_place(place, address + done, bytes + done, part))
			break;
		done += part;
	}
	return done;
}

size_t session_read_first(struct session *session, bool physical, unsigned vcpu, uint64_t address,
			  void *bytes, size_t size, GError **error)
{
	if (!vms_machine_observe(session->machine, error))
		return 0;
	struct vms_regs regs;
	size_t n = 0;
	if (vms_machine_regs(session->machine, vcpu, &regs, error)) {
		g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &regs);
		const struct place place = { session->machine, physical ? NULL : memory };
		n = read_up_to_gap(&place, address, bytes, size);
		if (n < size)
			g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
				    "cannot read %zu%s bytes at %s address 0x%" G_GINT64_MODIFIER
				    "x: %s",
				    size - n, n ? " more" : "",
				    physical ? "guest-physical" : "virtual", address + n,
				    physical ? "no RAM or ROM is there (see \"info handlers\")"
					     : "it is not mapped");
	}
	bool released =
		vms_machine_release(session->machine, VMS_ALL_VCPUS, n == size ? error : NULL);
	return released ? n : 0;
}
