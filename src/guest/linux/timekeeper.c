/* SPDX-License-Identifier: MIT */
/* Recognises by its content the timekeeper of a kernel whose kallsyms has functions only. */
#include "guest/linux/timekeeper.h"
#include "guest/linux/member.h"

#define CANDIDATES_LIMIT (1u << 16)

/*
 * Where the members are that recognise a timekeeper (include/linux/timekeeper_internal.h). It
 * points to the clock source in two places, and has copies of members of the clock source. It has
 * one interval in two units, which a struct tk_fast does not have.
 */
struct timekeeper {
	struct vms_btf_member clock, raw_clock, mult, cycles, shifted_ns, name, rating, list;
	struct {
		struct vms_btf_member copy, own; /* of the timekeeper, of the clock source */
	} same[5];
	uint64_t size;
};

#define AT(member) offsetof(struct timekeeper, member)

static const struct vms_wanted_member timekeeper_members[] = {
	{ "timekeeper", "tkr_mono.clock", AT(clock), false },
	{ "timekeeper", "tkr_raw.clock", AT(raw_clock), false },
	{ "timekeeper", "tkr_raw.mult", AT(mult), false },
	{ "timekeeper", "cycle_interval", AT(cycles), false },
	{ "timekeeper", "raw_interval", AT(shifted_ns), false },
	{ "clocksource", "name", AT(name), false },
	{ "clocksource", "rating", AT(rating), false },
	{ "clocksource", "list", AT(list), false },
	{ "timekeeper", "tkr_mono.mask", AT(same[0].copy), false },
	{ "clocksource", "mask", AT(same[0].own), false },
	{ "timekeeper", "tkr_mono.shift", AT(same[1].copy), false },
	{ "clocksource", "shift", AT(same[1].own), false },
	{ "timekeeper", "tkr_raw.mask", AT(same[2].copy), false },
	{ "clocksource", "mask", AT(same[2].own), false },
	{ "timekeeper", "tkr_raw.shift", AT(same[3].copy), false },
	{ "clocksource", "shift", AT(same[3].own), false },
	{ "timekeeper", "tkr_raw.mult", AT(same[4].copy), false },
	{ "clocksource", "mult", AT(same[4].own), false },
};

/* True if `keeper` may be a timekeeper, by its own bytes alone. `*clock` is its clock source. */
static bool is_timekeeper(const struct timekeeper *layout, struct vms_bytes keeper, uint64_t *clock)
{
	uint64_t raw_clock, mult, cycles, shifted_ns;
	return vms_bytes_u64(keeper, layout->clock.offset, clock) &&
	       vms_bytes_u64(keeper, layout->raw_clock.offset, &raw_clock) && *clock == raw_clock &&
	       *clock != 0 && vms_member_get(keeper, &layout->mult, &mult) && mult != 0 &&
	       vms_member_get(keeper, &layout->cycles, &cycles) && cycles != 0 &&
	       vms_member_get(keeper, &layout->shifted_ns, &shifted_ns) &&
	       shifted_ns == cycles * mult;
}

/* True if there is a printable name at `va`. */
static bool is_name(struct vms_memory *memory, uint64_t va)
{
	char name[32];
	if (!vms_memory_read_string(memory, va, name, sizeof(name)) || !*name)
		return false;
	for (const char *c = name; *c; c++)
		if (!g_ascii_isgraph(*c) || *c == '?')
			return false;
	return true;
}

/* True if the structure at `va` is a clock source that is in the kernel's list of them. */
static bool is_clocksource(struct vms_memory *memory, const struct timekeeper *layout, uint64_t va)
{
	const uint64_t node = va + layout->list.offset;
	uint64_t name, rating, next, previous, back, forth;
	return vms_member_read(memory, va, &layout->name, &name) && is_name(memory, name) &&
	       vms_member_read(memory, va, &layout->rating, &rating) && rating >= 1 &&
	       rating <= 499 && vms_memory_read_u64(memory, node, &next) &&
	       vms_memory_read_u64(memory, node + sizeof(next), &previous) && next != node &&
	       vms_memory_read_u64(memory, next + sizeof(next), &back) && back == node &&
	       vms_memory_read_u64(memory, previous, &forth) && forth == node;
}

/* True if `keeper` has copies of the members of the clock source at `clock`. */
static bool has_copies(struct vms_memory *memory, const struct timekeeper *layout,
		       struct vms_bytes keeper, uint64_t clock)
{
	for (size_t i = 0; i < G_N_ELEMENTS(layout->same); i++) {
		uint64_t copy, own;
		if (!vms_member_get(keeper, &layout->same[i].copy, &copy) ||
		    !vms_member_read(memory, clock, &layout->same[i].own, &own) || copy != own)
			return false;
	}
	return true;
}

/*
 * The kernel has a second timekeeper, in which it prepares changes. Both point to the same clock
 * source. If those that are found point to different ones, none is believed.
 */
bool vms_linux_find_timekeeper(const struct vms_linux *guest, const struct vms_kernel_image *image,
			       uint64_t *ret)
{
	struct timekeeper layout;
	if (!vms_members_find(guest->btf, timekeeper_members, G_N_ELEMENTS(timekeeper_members),
			      &layout) ||
	    !vms_btf_size(guest->btf, "timekeeper", &layout.size))
		return false;
	const size_t begin = (guest->text[0].end - image->va) & ~(size_t)7;
	uint64_t source = 0, clock;
	unsigned budget = CANDIDATES_LIMIT;
	struct vms_bytes keeper;
	for (size_t at = begin; vms_bytes_slice(image->bytes, at, layout.size, &keeper); at += 8) {
		if (!is_timekeeper(&layout, keeper, &clock) || clock % 8 != 0 ||
		    !guest->arch->is_kernel_address(clock))
			continue;
		if (budget-- == 0)
			return false;
		if (!has_copies(guest->memory, &layout, keeper, clock) ||
		    !is_clocksource(guest->memory, &layout, clock))
			continue;
		if (source && clock != source)
			return false;
		if (!source)
			*ret = image->va + at;
		source = clock;
	}
	return source != 0;
}
