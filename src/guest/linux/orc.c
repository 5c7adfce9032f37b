/* SPDX-License-Identifier: MIT */
/*
 * A table of ORC entries. Each entry is valid from its address up to that of the next one. Tables
 * of all layouts are converted into one form when they are loaded, and sorted if they are not.
 */
#include "guest/linux/orc.h"
#include "base/search.h"

#include <stdlib.h>

struct orc_entry {
	uint32_t offset; /* its address, from the lowest one of the table */
	int16_t sp_offset, bp_offset;
	uint8_t sp_reg, bp_reg; /* enum vms_orc_reg */
	uint8_t type;		/* enum vms_orc_type */
	bool signal;
};

struct vms_orc {
	uint64_t base; /* the lowest address */
	size_t n;
	bool sp_indirect_adds_first;
	struct orc_entry entries[];
};

/* ---- decoding --------------------------------------------------------- */

/* Commit ee9f8fce9964 ("x86/unwind: Add the ORC unwinder") (in v4.14) */
static const uint8_t registers_4_14[16] = {
	[1] = VMS_ORC_PREV_SP, [2] = VMS_ORC_DX,	  [3] = VMS_ORC_DI,
	[4] = VMS_ORC_BP,      [5] = VMS_ORC_SP,	  [6] = VMS_ORC_R10,
	[7] = VMS_ORC_R13,     [8] = VMS_ORC_BP_INDIRECT, [9] = VMS_ORC_SP_INDIRECT,
};
/* Commit 1735858caa4b ("objtool/x86: Reorder ORC register numbering") (in v7.1) */
static const uint8_t registers_7_1[16] = {
	[1] = VMS_ORC_AX,	    [2] = VMS_ORC_DX,	   [3] = VMS_ORC_SP,
	[4] = VMS_ORC_BP,	    [5] = VMS_ORC_DI,	   [6] = VMS_ORC_R10,
	[7] = VMS_ORC_R13,	    [8] = VMS_ORC_PREV_SP, [9] = VMS_ORC_SP_INDIRECT,
	[10] = VMS_ORC_BP_INDIRECT,
};

/* The bits of an entry's flags. The two registers take the lowest eight. */
static const struct flags_layout {
	uint8_t type_bits;
	uint16_t signal, end; /* 0: there is no such flag */
	const uint8_t *registers;
} layouts[] = {
	[VMS_ORC_4_14] = { 2, 0, 1 << 10, registers_4_14 },
	/* Commit ffb1b4a41016 ("x86/unwind/orc: Add 'signal' field to ORC metadata") (in v6.3) */
	[VMS_ORC_6_3] = { 2, 1 << 10, 1 << 11, registers_4_14 },
	/* Commit fb799447ae29 ("x86,objtool: Split UNWIND_HINT_EMPTY in two") (in v6.4) */
	[VMS_ORC_6_4] = { 3, 1 << 11, 0, registers_4_14 },
	[VMS_ORC_7_1] = { 3, 1 << 11, 0, registers_7_1 },
};

static void decode_flags(uint16_t flags, const struct flags_layout *layout, struct orc_entry *ret)
{
	unsigned type = flags >> 8 & ((1u << layout->type_bits) - 1);
	ret->sp_reg = layout->registers[flags & 15];
	ret->bp_reg = layout->registers[flags >> 4 & 15];
	ret->signal = flags & layout->signal;
	if (layout->end) {
		/* Types began with CALL. UNDEFINED and END were entries without a register. */
		bool end = flags & layout->end;
		type += VMS_ORC_TYPE_CALL;
		if (ret->sp_reg == VMS_ORC_UNDEFINED)
			type = end ? VMS_ORC_TYPE_END : VMS_ORC_TYPE_UNDEFINED;
	}
	if (!layout->signal)
		ret->signal = type == VMS_ORC_TYPE_REGS || type == VMS_ORC_TYPE_REGS_PARTIAL;
	ret->type = type <= VMS_ORC_TYPE_REGS_PARTIAL ? type : VMS_ORC_TYPE_UNDEFINED;
}

static void decode_entry(struct vms_bytes entries, size_t index, const struct flags_layout *layout,
			 struct orc_entry *ret)
{
	uint16_t field[3] = { 0 };
	for (size_t i = 0; i < G_N_ELEMENTS(field); i++)
		vms_bytes_u16(entries, index * VMS_ORC_ENTRY_SIZE + i * sizeof(*field), &field[i]);
	ret->sp_offset = (int16_t)field[0];
	ret->bp_offset = (int16_t)field[1];
	decode_flags(field[2], layout, ret);
}

/* Returns the address of an entry. It is written relative to its own place. */
static uint64_t get_entry_address(struct vms_bytes ip, uint64_t ip_va, size_t index)
{
	uint32_t relative = 0;
	vms_bytes_u32(ip, index * VMS_ORC_IP_SIZE, &relative);
	return ip_va + index * VMS_ORC_IP_SIZE + (uint64_t)(int32_t)relative;
}

/*
 * Sorts by address. Of two entries at one address, one may end the code of the compilation unit
 * before. The other one is valid, so it goes last.
 */
static int compare_entries(const void *a, const void *b)
{
	const struct orc_entry *x = a, *y = b;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->type != VMS_ORC_TYPE_UNDEFINED) - (y->type != VMS_ORC_TYPE_UNDEFINED);
}

/*
 * Sorts the entries if they are not. The kernel's own table is sorted at build since commit
 * f14bf6a350df ("x86/unwind/orc: Remove boot-time ORC unwind tables sorting") (in v5.6). Before, it
 * was sorted at boot. Tables of modules are sorted when they are loaded.
 */
static void sort_entries(struct vms_orc *orc)
{
	size_t i = 1;
	while (i < orc->n && compare_entries(&orc->entries[i - 1], &orc->entries[i]) <= 0)
		i++;
	if (i < orc->n)
		qsort(orc->entries, orc->n, sizeof(*orc->entries), compare_entries);
}

/* ---- the table -------------------------------------------------------- */

static bool check_sizes(struct vms_bytes ip, struct vms_bytes entries, GError **error)
{
	size_t n = ip.size / VMS_ORC_IP_SIZE;
	if (n > 0 && n <= VMS_ORC_ENTRIES_LIMIT && ip.size == n * VMS_ORC_IP_SIZE &&
	    entries.size == n * VMS_ORC_ENTRY_SIZE)
		return true;
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_MALFORMED,
		"ORC table of the guest: %zu bytes of addresses and %zu bytes of entries do not "
		"make a table of 1 to %u entries",
		ip.size, entries.size, VMS_ORC_ENTRIES_LIMIT);
	return false;
}

struct vms_orc *vms_orc_new(struct vms_bytes ip, uint64_t ip_va, struct vms_bytes entries,
			    enum vms_orc_layout layout, bool sp_indirect_adds_first, GError **error)
{
	if (!check_sizes(ip, entries, error))
		return NULL;
	size_t n = ip.size / VMS_ORC_IP_SIZE;
	uint64_t lowest = UINT64_MAX, highest = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t pc = get_entry_address(ip, ip_va, i);
		lowest = MIN(lowest, pc);
		highest = MAX(highest, pc);
	}
	if (highest - lowest > UINT32_MAX) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "ORC table of the guest: it spreads over more than 4 GiB of code");
		return NULL;
	}

	struct vms_orc *orc = g_malloc(sizeof(*orc) + n * sizeof(*orc->entries));
	orc->base = lowest;
	orc->n = n;
	orc->sp_indirect_adds_first = sp_indirect_adds_first;
	for (size_t i = 0; i < n; i++) {
		decode_entry(entries, i, &layouts[layout], &orc->entries[i]);
		orc->entries[i].offset = (uint32_t)(get_entry_address(ip, ip_va, i) - lowest);
	}
	sort_entries(orc);
	return orc;
}

void vms_orc_free(struct vms_orc *orc)
{
	g_free(orc);
}

bool vms_orc_find(const struct vms_orc *orc, uint64_t pc, struct vms_orc_entry *ret)
{
	uint64_t offset = pc - orc->base;
	if (pc < orc->base || offset > UINT32_MAX)
		return false;
	/* The last entry at or below. The first one always is, at offset 0. */
	const size_t above = VMS_SEARCH(orc->n, i, orc->entries[i].offset <= offset);
	const struct orc_entry *entry = &orc->entries[above - 1];
	*ret = (struct vms_orc_entry) {
		.type = entry->type,
		.sp_reg = entry->sp_reg,
		.bp_reg = entry->bp_reg,
		.sp_offset = entry->sp_offset,
		.bp_offset = entry->bp_offset,
		.signal = entry->signal,
		.sp_indirect_adds_first = orc->sp_indirect_adds_first,
	};
	return true;
}
