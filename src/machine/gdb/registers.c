/* SPDX-License-Identifier: MIT */
/* Registers of vCPUs. */
#include "machine/gdb/gdb-private.h"

#include <stdio.h>
#include <string.h>

bool vms_gdb_parse_register(const char *hex, unsigned size, uint64_t *ret)
{
	*ret = 0;
	for (unsigned i = 0; i < MIN(size, 8); i++) {
		int high = g_ascii_xdigit_value(hex[2 * i]);
		int low = g_ascii_xdigit_value(hex[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		*ret |= (uint64_t)(high * 16 + low) << 8 * i;
	}
	return true;
}

/* ---- registers -------------------------------------------------------- */

/* Parses the answer to `g`, which has the registers in the order of their numbers. */
static void parse_general(struct vms_gdb *gdb, struct vms_regs *ret)
{
	gdb->general_size = gdb->payload->len / 2;
	*ret = (struct vms_regs) { 0 };
	for (unsigned i = 0; i < gdb->arch->n_regs; i++) {
		const struct vms_gdb_slot *slot = &gdb->slots[i];
		uint64_t value;
		if (slot->size && slot->offset + slot->size <= gdb->general_size &&
		    vms_gdb_parse_register(gdb->payload->str + 2 * slot->offset, slot->size,
					   &value))
			vms_regs_set(ret, i, value);
	}
}

/* Parses the answer to `p`. A register that the stub refuses stays invalid. */
static void parse_single(struct vms_gdb *gdb, unsigned index, struct vms_regs *ret)
{
	const struct vms_gdb_slot *slot = &gdb->slots[index];
	uint64_t value;
	if (gdb->payload->len == 2 * (size_t)slot->size &&
	    vms_gdb_parse_register(gdb->payload->str, slot->size, &value))
		vms_regs_set(ret, index, value);
}

/*
 * True if the register has to be read by `p`. With `seldom`: if it is one that is seldom needed.
 * Without: if it is another one, and the answer to `g` does not have it.
 */
static bool is_single(const struct vms_gdb *gdb, unsigned index, bool seldom)
{
	const struct vms_gdb_slot *slot = &gdb->slots[index];
	size_t size = seldom ? 0 : gdb->general_size;
	return slot->size && slot->offset + slot->size > size &&
	       gdb->arch->regs[index].is_seldom == seldom;
}

void vms_gdb_print_selection(const struct vms_gdb *gdb, unsigned vcpu,
			     char request[VMS_GDB_REQUEST_MAX])
{
	snprintf(request, VMS_GDB_REQUEST_MAX, "Hg%" G_GINT64_MODIFIER "x",
		 g_array_index(gdb->threads, uint64_t, vcpu));
}

static void print_single(const struct vms_gdb *gdb, unsigned index,
			 char request[VMS_GDB_REQUEST_MAX])
{
	snprintf(request, VMS_GDB_REQUEST_MAX, "p%x", gdb->slots[index].number);
}

static bool select_vcpu(struct vms_gdb *gdb, unsigned vcpu, GError **error)
{
	char request[VMS_GDB_REQUEST_MAX];
	vms_gdb_print_selection(gdb, vcpu, request);
	return vms_gdb_request(gdb, request, error) &&
	       (vms_gdb_is_ok(gdb) ||
		vms_gdb_fail(gdb, VMS_ERROR_NOT_FOUND, "the vCPU is not there any more", error));
}

static bool read_singles(struct vms_gdb *gdb, bool seldom, struct vms_regs *ret, GError **error)
{
	for (unsigned i = 0; i < gdb->arch->n_regs; i++) {
		char request[VMS_GDB_REQUEST_MAX];
		if (!is_single(gdb, i, seldom))
			continue;
		print_single(gdb, i, request);
		if (!vms_gdb_request(gdb, request, error))
			return false;
		parse_single(gdb, i, ret);
	}
	return true;
}

/* Reads one vCPU request by request, which works with any stub. */
static bool read_vcpu(struct vms_gdb *gdb, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	if (!select_vcpu(gdb, vcpu, error) || !vms_gdb_request(gdb, "g", error))
		return false;
	parse_general(gdb, ret);
	return read_singles(gdb, false, ret, error);
}

/* Appends the requests that read_vcpu sends. */
void vms_gdb_append_vcpu(const struct vms_gdb *gdb, unsigned vcpu, GString *bytes)
{
	char request[VMS_GDB_REQUEST_MAX];
	vms_gdb_print_selection(gdb, vcpu, request);
	vms_gdb_append_packet(bytes, request);
	vms_gdb_append_packet(bytes, "g");
	for (unsigned i = 0; i < gdb->arch->n_regs; i++) {
		if (is_single(gdb, i, false)) {
			print_single(gdb, i, request);
			vms_gdb_append_packet(bytes, request);
		}
	}
}

bool vms_gdb_receive_vcpu(struct vms_gdb *gdb, uint64_t deadline_ns, struct vms_regs *ret,
			  GError **error)
{
	size_t size = gdb->general_size;
	if (!vms_gdb_receive_answer(gdb, deadline_ns, error))
		return false;
	bool selected = vms_gdb_is_ok(gdb);
	if (!selected && gdb->payload->len > 0 && gdb->payload->str[0] != 'E')
		return vms_gdb_fail_connection(gdb, "its answers do not belong to the requests",
					       error);
	if (!vms_gdb_receive_answer(gdb, deadline_ns, error))
		return false;
	parse_general(gdb, ret);
	if (gdb->general_size != size)
		return vms_gdb_fail_connection(gdb, "its vCPUs differ in their registers", error);
	for (unsigned i = 0; i < gdb->arch->n_regs; i++) {
		if (!is_single(gdb, i, false))
			continue;
		if (!vms_gdb_receive_answer(gdb, deadline_ns, error))
			return false;
		parse_single(gdb, i, ret);
	}
	if (!selected)
		*ret = (struct vms_regs) { 0 };
	return true;
}

/* Receives the registers of the vCPUs that are awaited, of those before `end`. */
static bool receive_vcpus(struct vms_gdb *gdb, unsigned end, GError **error)
{
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	const struct vms_gdb_awaited awaited = gdb->awaited;
	unsigned next = awaited.next;
	bool received = true;
	/* What is sent meanwhile, to have a packet once more, has nothing to wait for. */
	gdb->awaited = (struct vms_gdb_awaited) { 0 };
	for (; received && next < MIN(end, awaited.end); next++)
		received = vms_gdb_receive_vcpu(gdb, deadline_ns, &gdb->known[next], error);
	/* Answers that are still to come would be taken for answers to later requests. */
	gdb->broken |= !received;
	if (received)
		gdb->awaited = (struct vms_gdb_awaited) { next, awaited.end };
	return received;
}

bool vms_gdb_receive_awaited(struct vms_gdb *gdb, GError **error)
{
	return gdb->awaited.next == gdb->awaited.end || gdb->broken ||
	       receive_vcpus(gdb, gdb->awaited.end, error);
}

/*
 * Reads the vCPUs from `first` on in one round trip: all requests are sent before the first answer
 * is received. That works because QEMU's stub takes a request as the acknowledgement of its last
 * answer. Only the first vCPU is waited for: while the stub prints the registers of the others, the
 * caller can use those of the first.
 */
static bool read_batch(struct vms_gdb *gdb, unsigned first, GError **error)
{
	uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	g_autoptr(GString) bytes = vms_gdb_begin_row(gdb);
	unsigned end = first;
	for (; end < gdb->threads->len && bytes->len < VMS_GDB_ROW_MAX; end++)
		vms_gdb_append_vcpu(gdb, end, bytes);
	if (!vms_gdb_check_open(gdb, error) || !vms_gdb_send_row(gdb, bytes, deadline_ns, error))
		return false;
	gdb->awaited = (struct vms_gdb_awaited) { first, end };
	return receive_vcpus(gdb, first + 1, error);
}

/* True for a stub of QEMU's whose registers have been read once. */
static bool can_batch(const struct vms_gdb *gdb)
{
	return gdb->has_phys_mode && gdb->general_size > 0;
}

/* Begins a request that stops the machine, if it runs. */
static void begin_interrupt(struct vms_gdb *gdb)
{
	gdb->stopped_by_request = false;
	vms_gdb_forget_regs(gdb);
}

static void end_interrupt(struct vms_gdb *gdb, bool done, bool *was_running)
{
	*was_running = gdb->stopped_by_request;
	gdb->stopped |= done;
	gdb->stopped_by_request = false;
}

bool vms_gdb_interrupt(struct vms_gdb *gdb, bool wants_regs, bool *was_running, GError **error)
{
	begin_interrupt(gdb);
	const bool done = wants_regs && can_batch(gdb) ? read_batch(gdb, 0, error)
						       : vms_gdb_request(gdb, "qC", error);
	end_interrupt(gdb, done, was_running);
	return done;
}

bool vms_gdb_interrupt_for(struct vms_gdb *gdb, const char *command, char **text, bool *was_running,
			   GError **error)
{
	begin_interrupt(gdb);
	*text = vms_gdb_monitor(gdb, command, error);
	end_interrupt(gdb, *text, was_running);
	return *text;
}

static bool is_known(const struct vms_gdb *gdb, unsigned vcpu)
{
	return vms_regs_have(&gdb->known[vcpu], gdb->arch->pc);
}

bool vms_gdb_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	bool read = gdb->broken || vcpu >= gdb->awaited.end || receive_vcpus(gdb, vcpu + 1, error);
	if (read && !is_known(gdb, vcpu) && can_batch(gdb))
		read = read_batch(gdb, vcpu, error);
	if (read && !is_known(gdb, vcpu))
		read = read_vcpu(gdb, vcpu, &gdb->known[vcpu], error);
	if (read)
		*ret = gdb->known[vcpu];
	else
		vms_gdb_forget_regs(gdb);
	return read;
}

void vms_gdb_forget_regs(struct vms_gdb *gdb)
{
	for (unsigned i = 0; gdb->known && i < gdb->threads->len; i++)
		memset(gdb->known[i].valid, 0, sizeof(gdb->known[i].valid));
}

bool vms_gdb_system_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_regs *ret, GError **error)
{
	return select_vcpu(gdb, vcpu, error) && read_singles(gdb, true, ret, error);
}

/* Parses `n` bytes in hexadecimal. False for "xx". */
static bool parse_bytes(const char *hex, uint8_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t byte;
		if (!vms_gdb_parse_register(hex + 2 * i, 1, &byte))
			return false;
		ret[i] = (uint8_t)byte;
	}
	return true;
}

/* Receives a wide register. Only its first bytes are kept if it is a wider one. */
static bool receive_wide(struct vms_gdb *gdb, unsigned number, uint64_t deadline_ns,
			 struct vms_wide_regs *ret, GError **error)
{
	const size_t size = MIN(gdb->wide[number].size, VMS_WIDE_BYTES_MAX);
	if (!vms_gdb_receive_answer(gdb, deadline_ns, error))
		return false;
	if (gdb->payload->len == 2 * (size_t)gdb->wide[number].size &&
	    parse_bytes(gdb->payload->str, ret->bytes[number], size))
		ret->size[number] = (uint8_t)size;
	return true;
}

bool vms_gdb_wide_regs(struct vms_gdb *gdb, unsigned vcpu, struct vms_wide_regs *ret,
		       GError **error)
{
	const uint64_t deadline_ns = vms_stream_deadline(&gdb->stream);
	memset(ret->size, 0, sizeof(ret->size));
	if (!select_vcpu(gdb, vcpu, error))
		return false;
	g_autoptr(GString) row = vms_gdb_begin_row(gdb);
	for (unsigned i = 0; i < VMS_WIDE_MAX; i++) {
		char request[VMS_GDB_REQUEST_MAX];
		if (!gdb->wide[i].size)
			continue;
		snprintf(request, sizeof(request), "p%x", gdb->wide[i].number);
		vms_gdb_append_packet(row, request);
	}
	bool received =
		vms_gdb_check_open(gdb, error) && vms_gdb_send_row(gdb, row, deadline_ns, error);
	for (unsigned i = 0; received && i < VMS_WIDE_MAX; i++)
		received = !gdb->wide[i].size || receive_wide(gdb, i, deadline_ns, ret, error);
	/* Answers that are still to come would be taken for answers to later requests. */
	gdb->broken |= !received;
	return received;
}
