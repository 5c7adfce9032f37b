/* SPDX-License-Identifier: MIT */
/* Partition tables laid out by hand, as the UEFI specification describes them. */
#include "disk/partitions.h"
#include "base/budget.h"
#include "fake_disk.h"

#define SECTOR 512u
#define LINUX  0x83
#define GPT    0xee

struct part {
	uint64_t first, n; /* sectors */
};

static void put_signature(struct fake_disk *disk, uint64_t sector)
{
	fake_disk_put_le(disk, sector * SECTOR + 510, 2, 0xaa55);
}

/* Puts an entry of a boot record, whose first sector counts from that record's begin or another's.
 */
static void put_entry(struct fake_disk *disk, uint64_t sector, unsigned i, unsigned type,
		      uint32_t first, uint32_t n)
{
	const uint64_t at = sector * SECTOR + 446 + i * 16;
	put_signature(disk, sector);
	fake_disk_put_le(disk, at + 4, 1, type);
	fake_disk_put_le(disk, at + 8, 4, first);
	fake_disk_put_le(disk, at + 12, 4, n);
}

static void put_gpt(struct fake_disk *disk, uint64_t sector_size, uint64_t table, uint32_t n,
		    uint32_t entry_size)
{
	put_entry(disk, 0, 0, GPT, 1, UINT32_MAX);
	fake_disk_put(disk, sector_size, "EFI PART", 8);
	fake_disk_put_le(disk, sector_size + 72, 8, table);
	fake_disk_put_le(disk, sector_size + 80, 4, n);
	fake_disk_put_le(disk, sector_size + 84, 4, entry_size);
}

/* Puts an entry of a GPT at an offset. `type`: any but 0. */
static void put_gpt_entry(struct fake_disk *disk, uint64_t at, uint64_t type, uint64_t first,
			  uint64_t last)
{
	fake_disk_put_le(disk, at + 8, 8, type);
	fake_disk_put_le(disk, at + 32, 8, first);
	fake_disk_put_le(disk, at + 40, 8, last);
}

/* Checks the partitions of a disk, besides the whole disk. */
static void check_parts(const struct fake_disk *disk, uint64_t sector_size, unsigned n,
			const struct part *parts)
{
	g_autoptr(GArray) found = vms_partitions_list(&disk->source);
	const struct vms_partition *all = (const struct vms_partition *)(void *)found->data;
	g_assert_cmpuint(found->len, >=, 1);
	g_assert_cmpuint(all[0].offset, ==, 0);
	g_assert_cmpuint(all[0].size, ==, disk->source.size);
	for (unsigned i = 0; i < MIN(n, found->len - 1); i++) {
		g_assert_cmpuint(all[i + 1].offset, ==, parts[i].first * sector_size);
		g_assert_cmpuint(all[i + 1].size, ==, parts[i].n * sector_size);
	}
	g_assert_cmpuint(found->len - 1, ==, n);
}
#define CHECK(disk, sector_size, ...)                                                              \
	do {                                                                                       \
		const struct part parts_[] = { __VA_ARGS__ };                                      \
		check_parts(disk, sector_size, G_N_ELEMENTS(parts_), parts_);                      \
	} while (0)

/* ---- boot records -------------------------------------------------------- */

static void test_none(void)
{
	g_autoptr(fake_disk) disk = fake_disk_new(100 * SECTOR);
	check_parts(disk, SECTOR, 0, NULL);
	put_entry(disk, 0, 0, LINUX, 10, 20);
	CHECK(disk, SECTOR, { 10, 20 });
	fake_disk_put_le(disk, 510, 2, 0x55aa); /* no signature */
	check_parts(disk, SECTOR, 0, NULL);
	disk->source.size = SECTOR - 1;
	check_parts(disk, SECTOR, 0, NULL);
}

/* Those that are empty, or do not lie on the disk as a whole, are left out. */
static void test_primary(void)
{
	g_autoptr(fake_disk) disk = fake_disk_new(100 * SECTOR);
	put_entry(disk, 0, 0, LINUX, 90, 10); /* up to the end; not in the order of the disk */
	put_entry(disk, 0, 1, 0, 10, 10);     /* of no type */
	put_entry(disk, 0, 2, 0x07, 1, 9);
	put_entry(disk, 0, 3, 0x8e, 20, 30);
	CHECK(disk, SECTOR, { 90, 10 }, { 1, 9 }, { 20, 30 });
	put_entry(disk, 0, 0, LINUX, 90, 11);
	put_entry(disk, 0, 1, LINUX, 30, 0);
	put_entry(disk, 0, 2, LINUX, 0, 20); /* that is the record itself */
	CHECK(disk, SECTOR, { 20, 30 });
	put_entry(disk, 0, 3, LINUX, UINT32_MAX, UINT32_MAX);
	check_parts(disk, SECTOR, 0, NULL);
	put_entry(disk, 0, 0, LINUX, 100, 1);
	check_parts(disk, SECTOR, 0, NULL);
}

/*
 * A logical partition counts from its record, but the next record from the begin of the extended
 * partition.
 */
static void test_logical(void)
{
	static const unsigned types[] = { 0x05, 0x0f, 0x85 };
	for (size_t i = 0; i < G_N_ELEMENTS(types); i++) {
		g_autoptr(fake_disk) disk = fake_disk_new(100 * SECTOR);
		put_entry(disk, 0, 0, LINUX, 1, 9);
		put_entry(disk, 0, 1, types[i], 10, 80);
		put_entry(disk, 0, 2, LINUX, 90, 10);
		put_entry(disk, 10, 0, LINUX, 2, 10);
		put_entry(disk, 10, 1, types[i], 20, 30);
		put_entry(disk, 30, 0, LINUX, 3, 10);
		put_entry(disk, 30, 1, types[i], 50, 30);
		put_entry(disk, 60, 0, LINUX, 4, 10);
		CHECK(disk, SECTOR, { 1, 9 }, { 12, 10 }, { 33, 10 }, { 64, 10 }, { 90, 10 });
		put_entry(disk, 30, 1, LINUX, 50, 30); /* the chain ends */
		CHECK(disk, SECTOR, { 1, 9 }, { 12, 10 }, { 33, 10 }, { 90, 10 });
		fake_disk_put_le(disk, 30 * SECTOR + 510, 2, 0); /* no record */
		CHECK(disk, SECTOR, { 1, 9 }, { 12, 10 }, { 90, 10 });
	}
}

/* A chain of records that leads back to itself ends. */
static void test_loop(void)
{
	g_autoptr(fake_disk) disk = fake_disk_new(100 * SECTOR);
	put_entry(disk, 0, 0, 5, 10, 80);
	put_entry(disk, 10, 0, LINUX, 2, 10);
	put_entry(disk, 10, 1, 5, 20, 30);
	put_entry(disk, 30, 0, LINUX, 2, 10);
	put_entry(disk, 30, 1, 5, 0, 30);
	g_autoptr(GArray) found = vms_partitions_list(&disk->source);
	g_assert_cmpuint(found->len, ==, 1 + 64);
	for (unsigned i = 0; i < 4; i++)
		put_entry(disk, 0, i, 5, 10, 80);
	g_autoptr(GArray) most = vms_partitions_list(&disk->source);
	g_assert_cmpuint(most->len, ==, 256);
}

/* ---- GPT ----------------------------------------------------------------- */

static void test_gpt(void)
{
	static const struct {
		uint64_t sector, table;
		uint32_t entry_size;
	} cases[] = { { 512, 2, 128 }, { 512, 7, 256 }, { 512, 2, 48 }, { 4096, 2, 128 } };
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(fake_disk) disk = fake_disk_new(100 * cases[i].sector);
		const uint64_t at = cases[i].table * cases[i].sector, size = cases[i].entry_size;
		put_gpt(disk, cases[i].sector, cases[i].table, 8, cases[i].entry_size);
		put_gpt_entry(disk, at, 1, 50, 99);		/* up to the end */
		put_gpt_entry(disk, at + size, 0, 40, 49);	/* of no type */
		put_gpt_entry(disk, at + 2 * size, 1, 40, 100); /* beyond it */
		/* One that ends before it begins, whose offset wraps around. */
		put_gpt_entry(disk, at + 3 * size, 1, UINT64_MAX / cases[i].sector + 41, 49);
		put_gpt_entry(disk, at + 4 * size, 1, 40, 40); /* one sector */
		put_gpt_entry(disk, at + 5 * size, 1, 1, UINT64_MAX);
		put_gpt_entry(disk, at + 6 * size, UINT64_C(1) << 63, 30, 39);
		fake_disk_put_le(disk, at + 7 * size, 8, 1); /* the other half of a type */
		put_gpt_entry(disk, at + 7 * size, 0, 20, 29);
		put_gpt_entry(disk, at + 8 * size, 1, 40, 41); /* behind the last one */
		CHECK(disk, cases[i].sector, { 50, 50 }, { 40, 1 }, { 30, 10 }, { 20, 10 });
	}
}

/* Where there is a GPT, the boot record may list some of its partitions for older systems. */
static void test_hybrid(void)
{
	g_autoptr(fake_disk) disk = fake_disk_new(100 * SECTOR);
	put_gpt(disk, SECTOR, 2, 1, 128);
	put_gpt_entry(disk, 2 * SECTOR, 1, 50, 59);
	put_entry(disk, 0, 1, LINUX, 40, 10);
	CHECK(disk, SECTOR, { 50, 10 });
	/* It need not be the first entry. */
	put_entry(disk, 0, 0, LINUX, 40, 10);
	put_entry(disk, 0, 3, GPT, 1, 10);
	CHECK(disk, SECTOR, { 50, 10 });
	put_entry(disk, 0, 3, LINUX, 60, 10);
	CHECK(disk, SECTOR, { 40, 10 }, { 40, 10 }, { 60, 10 });
}

static void test_damaged_gpt(void)
{
	static const struct {
		unsigned at, size;
		uint64_t value;
	} cases[] = {
		{ SECTOR, 1, 'e' },
		{ SECTOR + 72, 8, 100 },	       /* the table is behind the disk */
		{ SECTOR + 72, 8, UINT64_C(1) << 55 }, /* its offset wraps around to 0 */
		{ SECTOR + 72, 8, UINT64_MAX },
		{ SECTOR + 80, 4, 0 },
		{ SECTOR + 84, 4, 47 },
		{ SECTOR + 84, 4, 4097 },
		{ SECTOR + 84, 4, 0 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(fake_disk) disk = fake_disk_new(100 * SECTOR);
		put_gpt(disk, SECTOR, 0, 1, 128); /* in the boot record, which has room for one */
		put_gpt_entry(disk, 0, 1, 50, 59);
		CHECK(disk, SECTOR, { 50, 10 });
		fake_disk_put_le(disk, cases[i].at, cases[i].size, cases[i].value);
		check_parts(disk, SECTOR, 0, NULL);
	}
}

/* What does not fit on the disk of a table that is too long is not read. */
static void test_long_gpt(void)
{
	g_autoptr(fake_disk) disk = fake_disk_new(100 * SECTOR);
	put_gpt(disk, SECTOR, 2, UINT32_MAX, 128);
	for (uint64_t at = 2 * SECTOR; at < disk->source.size; at += 128)
		put_gpt_entry(disk, at, 1, 50, 59);
	g_autoptr(GArray) found = vms_partitions_list(&disk->source);
	g_assert_cmpuint(found->len, ==, 256);
	/* Entries that are too many count neither if those before them are of no type. */
	for (unsigned i = 0; i < 256; i++)
		put_gpt_entry(disk, 2 * SECTOR + i * 128, i == 255, 40, 49);
	CHECK(disk, SECTOR, { 40, 10 });
	fake_disk_put_le(disk, SECTOR + 72, 8, 98); /* the last two sectors */
	g_autoptr(GArray) few = vms_partitions_list(&disk->source);
	g_assert_cmpuint(few->len, ==, 1 + 8);
}

/* A budget that is used up ends it: what was found before stays. */
static void test_budget(void)
{
	g_autoptr(fake_disk) disk = fake_disk_new(100 * SECTOR);
	put_gpt(disk, SECTOR, 2, 200, 128);
	for (unsigned i = 0; i < 200; i++)
		put_gpt_entry(disk, 2 * SECTOR + i * 128, 1, 50, 59);
	guint before = 1;
	for (uint64_t steps = 10; steps <= 10000; steps *= 10) {
		g_autoptr(vms_budget) budget = fake_disk_budget(steps, 1000);
		disk->source.budget = budget;
		g_autoptr(GArray) found = vms_partitions_list(&disk->source);
		g_assert_true(vms_budget_has_left(budget) == (found->len == 1 + 200));
		g_assert_cmpuint(found->len, >=, before);
		before = found->len + (steps <= 100); /* more each time */
		if (steps == 10)
			g_assert_cmpuint(found->len, ==, 1);
	}
	g_assert_cmpuint(before, ==, 1 + 200);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/partitions/none", test_none);
	g_test_add_func("/partitions/primary", test_primary);
	g_test_add_func("/partitions/logical", test_logical);
	g_test_add_func("/partitions/loop", test_loop);
	g_test_add_func("/partitions/gpt", test_gpt);
	g_test_add_func("/partitions/hybrid", test_hybrid);
	g_test_add_func("/partitions/damaged-gpt", test_damaged_gpt);
	g_test_add_func("/partitions/long-gpt", test_long_gpt);
	g_test_add_func("/partitions/budget", test_budget);
	return g_test_run();
}
