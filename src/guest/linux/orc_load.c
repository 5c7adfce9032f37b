/* SPDX-License-Identifier: MIT */
/* Finds a kernel's ORC tables in its memory, and recognises their layout. */
#include "guest/linux/orc_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <vmscope/log.h>

#define HEADER_SIZE 20

/* True if the kernel's release is older than `major`.`minor`. An unknown release counts as new. */
static bool is_older(const struct vms_linux *guest, unsigned major, unsigned minor)
{
	unsigned guest_major, guest_minor;
	if (!guest->release || sscanf(guest->release, "%u.%u", &guest_major, &guest_minor) != 2)
		return false;
	return guest_major < major || (guest_major == major && guest_minor < minor);
}

/*
 * Finds the layout by .orc_header. This is a hash of the definition of struct orc_entry, which
 * scripts/orc_hash.sh makes since commit b9f174c811e3 ("x86/unwind/orc: Add ELF section with ORC
 * version identifier") (in v6.4).
 */
static bool find_layout_by_header(struct vms_linux *guest, enum vms_orc_layout *ret)
{
	static const struct {
		uint8_t hash[HEADER_SIZE];
		enum vms_orc_layout layout;
	} known[] = {
		{ { 0xdb, 0x84, 0xae, 0xd4, 0x10, 0x3b, 0x31, 0xdd, 0x51, 0xe0,
		    0x17, 0xf8, 0xf7, 0x97, 0x83, 0xca, 0x98, 0x5c, 0x2c, 0x51 },
		  VMS_ORC_6_3 },
		{ { 0xfe, 0x5d, 0x32, 0xbf, 0x58, 0x1b, 0xd6, 0x3b, 0x2c, 0xa9,
		    0xa5, 0xc6, 0x5b, 0xa5, 0xa6, 0x25, 0xea, 0xb3, 0xfe, 0x24 },
		  VMS_ORC_6_4 },
		{ { 0x13, 0x7c, 0x36, 0xad, 0x76, 0x27, 0xc4, 0xdd, 0x55, 0x93,
		    0x21, 0x76, 0xbb, 0x0e, 0xcd, 0xbd, 0x50, 0x41, 0xfc, 0x82 },
		  VMS_ORC_7_1 },
	};
	uint8_t header[HEADER_SIZE];
	uint64_t va;
	if (!vms_linux_symbol(guest, "__start_orc_header", &va) ||
	    !vms_linux_read_constant(guest, va, header, sizeof(header)))
		return false;
	for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
		if (memcmp(header, known[i].hash, sizeof(header)) == 0) {
			*ret = known[i].layout;
			return true;
		}
	}
	return false;
}

/*
 * Finds the layout by orc_fp_entry. This is a constant of the kernel that steps by frame pointer
 * (arch/x86/kernel/unwind_orc.c). Its meaning is known, so its bytes tell the layout. The kernel
 * has it since commit ae6a45a08689 ("x86/unwind/orc: Fall back to using frame pointers for
 * generated code") (in v5.3). Distributions have put newer layouts into older kernels without the
 * header.
 */
static bool find_layout_by_fp_entry(struct vms_linux *guest, enum vms_orc_layout *ret)
{
	static const enum vms_orc_layout candidates[] = { VMS_ORC_6_4, VMS_ORC_7_1 };
	static const uint8_t ip[VMS_ORC_IP_SIZE];
	uint8_t bytes[VMS_ORC_ENTRY_SIZE];
	uint64_t va;
	if (!vms_linux_symbol(guest, "orc_fp_entry", &va) ||
	    !vms_linux_read_constant(guest, va, bytes, sizeof(bytes)))
		return false;
	for (size_t i = 0; i < G_N_ELEMENTS(candidates); i++) {
		struct vms_orc *orc = vms_orc_new((struct vms_bytes) { ip, sizeof(ip) }, 0,
						  (struct vms_bytes) { bytes, sizeof(bytes) },
						  candidates[i], false, NULL);
		struct vms_orc_entry entry;
		bool fits = vms_orc_find(orc, 0, &entry) && entry.type == VMS_ORC_TYPE_CALL &&
			    entry.sp_reg == VMS_ORC_BP && entry.bp_reg == VMS_ORC_PREV_SP;
		vms_orc_free(orc);
		if (fits) {
			*ret = candidates[i];
			return true;
		}
	}
	return false;
}

static enum vms_orc_layout find_layout(struct vms_linux *guest)
{
	enum vms_orc_layout layout;
	if (find_layout_by_header(guest, &layout) || find_layout_by_fp_entry(guest, &layout))
		return layout;
	return is_older(guest, 6, 3) ? VMS_ORC_4_14 : VMS_ORC_6_3;
}

static struct vms_orc *load_table(struct vms_linux *guest, uint64_t ip_va, uint64_t entries_va,
				  uint64_t n, GError **error)
{
	if (n == 0 || n > VMS_ORC_ENTRIES_LIMIT) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "ORC table of the guest: %" PRIu64 " entries, not 1 to %u", n,
			    VMS_ORC_ENTRIES_LIMIT);
		return NULL;
	}
	size_t ip_size = n * VMS_ORC_IP_SIZE, entries_size = n * VMS_ORC_ENTRY_SIZE;
	g_autofree uint8_t *ip = g_malloc(ip_size);
	g_autofree uint8_t *entries = g_malloc(entries_size);
	if (!vms_linux_read_constant(guest, ip_va, ip, ip_size) ||
	    !vms_linux_read_constant(guest, entries_va, entries, entries_size)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "ORC table of the guest: %" PRIu64 " entries at 0x%" PRIx64
			    " cannot be read",
			    n, ip_va);
		return NULL;
	}
	/* Commit 87ccc826bf1c ("x86/unwind/orc: Change REG_SP_INDIRECT") (in v5.12) */
	return vms_orc_new((struct vms_bytes) { ip, ip_size }, ip_va,
			   (struct vms_bytes) { entries, entries_size }, find_layout(guest),
			   is_older(guest, 5, 12), error);
}

struct vms_orc *vms_linux_orc_load(struct vms_linux *guest)
{
	uint64_t ip, ip_end, entries, entries_end;
	if (!vms_linux_symbol(guest, "__start_orc_unwind_ip", &ip) ||
	    !vms_linux_symbol(guest, "__stop_orc_unwind_ip", &ip_end) ||
	    !vms_linux_symbol(guest, "__start_orc_unwind", &entries) ||
	    !vms_linux_symbol(guest, "__stop_orc_unwind", &entries_end)) {
		vms_log(VMS_LOG_INFO, "the guest's kernel has no ORC tables, or no symbols of "
				      "them: its stacks are walked by frame pointers");
		return NULL;
	}
	g_autoptr(GError) error = NULL;
	struct vms_orc *orc = NULL;
	uint64_t n = (ip_end - ip) / VMS_ORC_IP_SIZE;
	if (ip_end - ip != n * VMS_ORC_IP_SIZE || entries_end - entries != n * VMS_ORC_ENTRY_SIZE)
		g_set_error(&error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "ORC table of the guest: its symbols contradict each other");
	else
		orc = load_table(guest, ip, entries, n, &error);
	if (!orc) {
		g_autofree char *text = g_strdup_printf(
			"the kernel's stacks are walked by frame pointers: %s", error->message);
		vms_linux_note_missing(guest, text);
	}
	return orc;
}

struct vms_orc *vms_linux_orc_load_module(struct vms_linux *guest, uint64_t ip_va,
					  uint64_t entries_va, uint64_t n)
{
	if (n == 0)
		return NULL;
	g_autoptr(GError) error = NULL;
	struct vms_orc *orc = load_table(guest, ip_va, entries_va, n, &error);
	if (!orc)
		vms_log(VMS_LOG_INFO, "%s; stacks through that module are cut", error->message);
	return orc;
}
