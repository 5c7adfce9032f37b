/* SPDX-License-Identifier: MIT */
#include "machine/core/extent.h"

#define SPACE  64 /* addresses, few enough to look at each */
#define ROUNDS 20000

static GArray *random_extents(void)
{
	GArray *extents = g_array_new(FALSE, FALSE, sizeof(struct vms_extent));
	guint n = (guint)g_test_rand_int_range(0, 12);
	for (guint i = 0; i < n; i++) {
		uint64_t at = (uint64_t)g_test_rand_int_range(0, SPACE - 1);
		struct vms_extent extent = {
			.at = at,
			.size = (uint64_t)g_test_rand_int_range(1, (gint32)(SPACE - at) + 1),
			/* Often the same place in the file for an address. */
			.file_offset = at + (g_test_rand_bit() ? 1000 : 2000),
			.rank = i,
		};
		if (g_test_rand_int_range(0, 5) == 0)
			extent.file_offset = VMS_EXTENT_ZEROS;
		g_array_append_val(extents, extent);
	}
	return extents;
}

/* Where the file has an address, by looking at every extent; G_MAXUINT64 - 1: nowhere. */
#define NOWHERE (G_MAXUINT64 - 1)
static uint64_t place(const struct vms_extent *extent, uint64_t at)
{
	if (at < extent->at || at - extent->at >= extent->size)
		return NOWHERE;
	return extent->file_offset == VMS_EXTENT_ZEROS ? VMS_EXTENT_ZEROS
						       : extent->file_offset + at - extent->at;
}

static uint64_t slow_place(const GArray *extents, uint64_t at, bool *agree)
{
	uint64_t first = NOWHERE;
	for (guint i = 0; i < extents->len; i++) {
		uint64_t here = place(&g_array_index(extents, struct vms_extent, i), at);
		if (first == NOWHERE)
			first = here;
		else if (here != NOWHERE && here != first)
			*agree = false;
	}
	return first;
}

static void shuffle(GArray *extents)
{
	for (guint i = extents->len; i > 1; i--) {
		guint j = (guint)g_test_rand_int_range(0, (gint32)i);
		struct vms_extent *a = &g_array_index(extents, struct vms_extent, i - 1);
		struct vms_extent *b = &g_array_index(extents, struct vms_extent, j), other = *a;
		*a = *b;
		*b = other;
	}
}

static void check_resolved(const GArray *resolved)
{
	for (guint i = 1; i < resolved->len; i++) {
		const struct vms_extent *here = &g_array_index(resolved, struct vms_extent, i);
		g_assert_cmpuint(here[-1].at + here[-1].size, <=, here->at);
		/* Joined where they follow each other in the file, too. */
		if (here[-1].at + here[-1].size == here->at &&
		    here->file_offset != VMS_EXTENT_ZEROS)
			g_assert_cmpuint(here[-1].file_offset + here[-1].size, !=,
					 here->file_offset);
	}
}

static void test_resolve(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		g_autoptr(GArray) extents = random_extents();
		g_autoptr(GArray) resolved = g_array_copy(extents);
		bool agree = true;
		uint64_t conflict = 0;
		shuffle(resolved);
		bool resolved_agree = vms_extents_resolve(resolved, &conflict);
		check_resolved(resolved);
		for (uint64_t at = 0; at < SPACE; at++) {
			uint64_t expected = slow_place(extents, at, &agree);
			struct vms_extent part;
			bool known = vms_extents_at(resolved, at, SPACE - at, &part);
			g_assert_cmpuint(part.at, ==, at);
			g_assert_cmpuint(part.size, >, 0);
			g_assert_true(known == (expected != NOWHERE));
			if (known)
				g_assert_cmpuint(part.file_offset, ==, expected);
		}
		g_assert_true(agree == resolved_agree);
		bool agree_there = true;
		if (!agree)
			slow_place(extents, conflict, &agree_there);
		g_assert_true(agree_there == agree);
	}
}

/* Every begin inside of all that began before: slow for what looks at every pair. */
static void test_nested(void)
{
	g_autoptr(GArray) extents = g_array_new(FALSE, FALSE, sizeof(struct vms_extent));
	uint64_t conflict, n = 300000;
	for (uint64_t i = 0; i < n; i++) {
		struct vms_extent extent = { i, 2 * (n - i), i + 4096, (uint32_t)(n - i) };
		g_array_append_val(extents, extent);
	}
	g_assert_true(vms_extents_resolve(extents, &conflict));
	g_assert_cmpuint(extents->len, ==, 1);
	g_assert_cmpuint(g_array_index(extents, struct vms_extent, 0).size, ==, 2 * n);
}

static void test_gap(void)
{
	g_autoptr(GArray) extents = g_array_new(FALSE, FALSE, sizeof(struct vms_extent));
	struct vms_extent extent = { 100, 10, 7, 0 }, part;
	g_array_append_val(extents, extent);
	g_assert_false(vms_extents_at(extents, 40, 1000, &part));
	g_assert_cmpuint(part.size, ==, 60);
	g_assert_false(vms_extents_at(extents, 40, 20, &part));
	g_assert_cmpuint(part.size, ==, 20);
	g_assert_true(vms_extents_at(extents, 105, 1000, &part));
	g_assert_cmpuint(part.size, ==, 5);
	g_assert_cmpuint(part.file_offset, ==, 12);
	g_assert_false(vms_extents_at(extents, 110, 1000, &part));
	g_assert_cmpuint(part.size, ==, 1000);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/extent/resolve", test_resolve);
	g_test_add_func("/extent/nested", test_nested);
	g_test_add_func("/extent/gap", test_gap);
	return g_test_run();
}
