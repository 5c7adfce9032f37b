/* SPDX-License-Identifier: MIT */
/* Logical volumes: where their bytes are, and which cannot be read and why. */
#include "disk/lvm.h"
#include "base/budget.h"
#include "disk_encoder.h"
#include <string.h>

#define SECTOR 512
#define EXTENT (8 * SECTOR)
#define DATA   (64u << 10) /* where extents begin on a physical volume: 128 sectors */
#define SIZE   (256u << 10)
#define PHYSICAL                                                                                   \
	"physical_volumes { pv0 { id = \"aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\" pe_start = 128 " \
	"}"                                                                                        \
	" pv1 { id = \"bbbbbb-bbbb-bbbb-bbbb-bbbb-bbbb-bbbbbb\" pe_start = 128 } } "
#define GROUP(volumes)                                                                             \
	"vg { id = \"group\" seqno = 5 extent_size = 8 " PHYSICAL "logical_volumes { " volumes     \
	" } }"
#define VISIBLE "status = [\"READ\", \"VISIBLE\"] "
/* Segment `i`: its first extent in the volume, how many, of which physical volume, from where on.
 */
#define SEGMENT(i, start, n, pv, first)                                                            \
	"segment" i " { start_extent = " start " extent_count = " n                                \
	" type = \"striped\" stripe_count = 1 stripes = [\"" pv "\", " first "] } "

struct fixture {
	struct fake_disk *disks[3];
	struct vms_lvm *lvm;
	GPtrArray *volumes;
};

/* Two physical volumes, of which the first has a text, and extents of which each is another. */
static void set_up(struct fixture *f, const char *text)
{
	*f = (struct fixture) { .lvm = vms_lvm_new() };
	for (unsigned i = 0; i < 2; i++) {
		f->disks[i] = fake_disk_new(SIZE);
		lvm_put_volume(f->disks[i], 0, 1, i ? 'b' : 'a', i ? NULL : text);
		for (unsigned extent = 0; extent < 40; extent++)
			fake_disk_fill(f->disks[i], DATA + extent * EXTENT, EXTENT,
				       100 * i + extent + 1);
	}
}

static void list(struct fixture *f)
{
	for (unsigned i = 0; i < G_N_ELEMENTS(f->disks) && f->disks[i]; i++)
		g_assert_true(vms_lvm_add(f->lvm, &f->disks[i]->source, 0, SIZE));
	f->volumes = vms_lvm_list(f->lvm);
}

static void tear_down(struct fixture *f)
{
	g_ptr_array_unref(f->volumes);
	vms_lvm_free(f->lvm);
	for (unsigned i = 0; i < G_N_ELEMENTS(f->disks) && f->disks[i]; i++)
		fake_disk_free(f->disks[i]);
}

static const struct vms_lvm_volume *get(const struct fixture *f, unsigned i)
{
	g_assert_cmpuint(i, <, f->volumes->len);
	return f->volumes->pdata[i];
}

/* Checks a volume that has these extents, each 100 times the number of its disk and its place. */
static void check_extents(const struct vms_lvm_volume *volume, unsigned n, const unsigned *extents)
{
	g_autofree uint8_t *expected = g_malloc(n * EXTENT);
	g_assert_null(volume->obstacle);
	g_assert_cmpuint(volume->source.size, ==, n * EXTENT);
	for (unsigned i = 0; i < n; i++)
		fake_content(expected + i * EXTENT, EXTENT, extents[i] + 1);
	fake_disk_check(&volume->source, 0, n * EXTENT, expected);
	g_assert_false(vms_file_source_read(&volume->source, n * EXTENT - 1, expected, 2));
}
#define CHECK(volume, ...)                                                                         \
	do {                                                                                       \
		const unsigned extents_[] = { __VA_ARGS__ };                                       \
		check_extents(volume, G_N_ELEMENTS(extents_), extents_);                           \
	} while (0)

/* ---- where bytes are ------------------------------------------------------------ */

static void test_linear(void)
{
	struct fixture f;
	set_up(&f, GROUP("one { " VISIBLE SEGMENT(
			   "1", "0", "3", "pv0",
			   "7") "} "
				"two { " VISIBLE SEGMENT("1", "0", "2", "pv1", "30")
					SEGMENT("2", "3", "1", "pv1", "0")
						SEGMENT("3", "2", "1", "pv0", "0") "} "));
	list(&f);
	g_assert_cmpuint(f.volumes->len, ==, 2);
	g_assert_cmpstr(get(&f, 0)->name, ==, "vg/one");
	CHECK(get(&f, 0), 7, 8, 9);
	g_assert_cmpstr(get(&f, 1)->name, ==, "vg/two");
	CHECK(get(&f, 1), 130, 131, 0, 100); /* segments may be in any order */
	tear_down(&f);
}

/* The label is in one of the first four sectors, of a part of a disk. */
static void test_labels(void)
{
	static const char text[] = GROUP("one { " VISIBLE SEGMENT("1", "0", "2", "pv0", "1") "} ");
	for (unsigned sector = 0; sector < 6; sector++) {
		const uint64_t part = 100 * SECTOR;
		g_autoptr(fake_disk) disk = fake_disk_new(part + SIZE);
		struct vms_lvm *lvm = vms_lvm_new();
		lvm_put_volume(disk, part, sector, 'a', text);
		for (unsigned i = 0; i < 10; i++)
			fake_disk_fill(disk, part + DATA + i * EXTENT, EXTENT, i + 1);
		g_assert_false(vms_lvm_add(lvm, &disk->source, 0, part));
		g_assert_true(vms_lvm_add(lvm, &disk->source, part, SIZE) == (sector < 4));
		g_autoptr(GPtrArray) volumes = vms_lvm_list(lvm);
		g_assert_cmpuint(volumes->len, ==, sector < 4);
		if (sector < 4)
			CHECK((const struct vms_lvm_volume *)volumes->pdata[0], 1, 2);
		vms_lvm_free(lvm);
	}
}

static void test_damaged_labels(void)
{
	static const struct {
		unsigned at, size;
		uint64_t value;
	} cases[] = {
		{ SECTOR, 1, 'l' },
		{ SECTOR + 24 + 7, 1, '2' },
		{ SECTOR + 20, 4, SECTOR - 31 }, /* its header is not in the sector */
		{ SECTOR + 20, 4, SECTOR + 1 },
		{ SECTOR + 20, 4, UINT32_MAX },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(fake_disk) disk = fake_disk_new(SIZE);
		struct vms_lvm *lvm = vms_lvm_new();
		lvm_put_volume(disk, 0, 1, 'a', NULL);
		fake_disk_put_le(disk, cases[i].at, cases[i].size, cases[i].value);
		g_assert_false(vms_lvm_add(lvm, &disk->source, 0, SIZE));
		vms_lvm_free(lvm);
	}
}

/* ---- texts ------------------------------------------------------------------------ */

static const char older[] =
	"vg { id = \"group\" seqno = 4 extent_size = 8 " PHYSICAL
	"logical_volumes { one { " VISIBLE SEGMENT("1", "0", "2", "pv0", "1") "} } }";
static const char newer[] =
	"vg { id = \"group\" seqno = 10 extent_size = 8 " PHYSICAL
	"logical_volumes { one { " VISIBLE SEGMENT("1", "0", "2", "pv0", "3") "} } }";

/* The newest text counts, wherever it is: by its number, not by its letters. */
static void test_newest(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fixture f;
		set_up(&f, i ? newer : older);
		lvm_put_volume(f.disks[1], 0, 1, 'b', i ? older : newer);
		list(&f);
		g_assert_cmpuint(f.volumes->len, ==, 1);
		CHECK(get(&f, 0), 3, 4);
		tear_down(&f);
	}
}

/* A text goes round at the end of its area, behind the header. */
static void test_ring(void)
{
	const uint64_t area = 4096, size = 16 << 10;
	for (unsigned n = 0; n <= sizeof(newer); n += 7) {
		struct fixture f;
		set_up(&f, older);
		lvm_put_text(f.disks[0], area, size, size - MAX(n, 1), newer);
		list(&f);
		g_assert_cmpuint(f.volumes->len, ==, 1);
		CHECK(get(&f, 0), 3, 4);
		tear_down(&f);
	}
}

static void test_damaged_areas(void)
{
	static const struct {
		unsigned at, size;
		uint64_t value;
	} cases[] = {
		{ 4, 1, '.' },	       { 40, 8, 511 },
		{ 40, 8, 16 << 10 },   { 40, 8, UINT64_MAX },
		{ 48, 8, 0 },	       { 48, 8, (16 << 10) - 512 + 1 },
		{ 48, 8, UINT64_MAX }, { 48, 8, sizeof(newer) - 3 }, /* it is cut */
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct fixture f;
		set_up(&f, newer);
		lvm_put_volume(f.disks[1], 0, 1, 'b', older);
		fake_disk_put_le(f.disks[0], 4096 + cases[i].at, cases[i].size, cases[i].value);
		list(&f);
		g_assert_cmpuint(f.volumes->len, ==, 1);
		CHECK(get(&f, 0), 1, 2);
		tear_down(&f);
	}
}

/* What is in the header of an area is no text, whatever it looks like. */
static void test_text_in_header(void)
{
	static const char other[] = "vg { id = \"group\" seqno = 99 }";
	struct fixture f;
	set_up(&f, newer);
	lvm_put_volume(f.disks[1], 0, 1, 'b', older);
	fake_disk_put(f.disks[0], 4096 + 100, other, sizeof(other));
	fake_disk_put_le(f.disks[0], 4096 + 40, 8, 100);
	fake_disk_put_le(f.disks[0], 4096 + 48, 8, strlen(other));
	list(&f);
	g_assert_cmpuint(f.volumes->len, ==, 1);
	CHECK(get(&f, 0), 1, 2);
	tear_down(&f);
}

/* The longest text, and one that is longer by a byte. */
static void test_longest_text(void)
{
	enum { LONGEST = 4 << 20, AREA = 4096, AREA_SIZE = LONGEST + 1024 };
	for (unsigned more = 0; more < 2; more++) {
		g_autoptr(fake_disk) disk = fake_disk_new(AREA + AREA_SIZE);
		g_autofree char *text = g_malloc(LONGEST + 2);
		struct vms_lvm *lvm = vms_lvm_new();
		memset(text, ' ', LONGEST + more);
		memcpy(text, newer, strlen(newer));
		text[LONGEST + more] = '\0';
		lvm_put_volume(disk, 0, 1, 'a', "");
		fake_disk_put_le(disk, SECTOR + 112, 8, AREA_SIZE);
		lvm_put_text(disk, AREA, AREA_SIZE, 512, text);
		g_assert_true(vms_lvm_add(lvm, &disk->source, 0, disk->source.size));
		g_autoptr(GPtrArray) volumes = vms_lvm_list(lvm);
		g_assert_cmpuint(volumes->len, ==, !more);
		vms_lvm_free(lvm);
	}
}

/* An area that reaches behind its physical volume: what is there is no text of this one. */
static void test_area_outside(void)
{
	g_autoptr(fake_disk) disk = fake_disk_new(SIZE);
	struct vms_lvm *lvm = vms_lvm_new();
	lvm_put_volume(disk, 0, 1, 'a', newer);
	g_assert_true(vms_lvm_add(lvm, &disk->source, 0, 4096 + 512 + 100));
	g_autoptr(GPtrArray) volumes = vms_lvm_list(lvm);
	g_assert_cmpuint(volumes->len, ==, 0);
	vms_lvm_free(lvm);
}

/* The second area of a physical volume counts as the first; and not what is behind the last. */
static void test_areas(void)
{
	const unsigned label = SECTOR, area = 32 << 10;
	for (unsigned ended = 0; ended < 2; ended++) {
		struct fixture f;
		set_up(&f, older);
		lvm_put_text(f.disks[0], area, 16 << 10, 512, newer);
		fake_disk_put_le(f.disks[0], label + 120 + 16 * ended, 8, area);
		fake_disk_put_le(f.disks[0], label + 128 + 16 * ended, 8, 16 << 10);
		list(&f);
		if (ended)
			CHECK(get(&f, 0), 1, 2);
		else
			CHECK(get(&f, 0), 3, 4);
		tear_down(&f);
	}
}

/* ---- what cannot be read ------------------------------------------------------------ */

static void test_obstacles(void)
{
#define VOLUME(segments) GROUP("one { " VISIBLE segments "} ")
#define OTHER(type, rest)                                                                          \
	VOLUME("segment1 { start_extent = 0 extent_count = 1 type = \"" type "\" " rest " } ")
	static const struct {
		const char *text, *obstacle;
	} cases[] = {
		{ VOLUME(SEGMENT("1", "0", "1", "pv2", "0")), "a disk of its group is missing" },
		{ VOLUME(SEGMENT("1", "1", "1", "pv0", "0")), "its description is malformed" },
		{ VOLUME(SEGMENT("1", "4503599627370496", "1", "pv0", "0")),
		  "its description is malformed" }, /* its begin in bytes wraps around */
		{ VOLUME(SEGMENT("1", "0", "0", "pv0", "0")), "its description is malformed" },
		{ VOLUME(SEGMENT("1", "0", "2", "pv0", "0") SEGMENT("2", "1", "2", "pv0", "9")),
		  "its description is malformed" }, /* they overlap */
		{ VOLUME(SEGMENT("1", "0", "2", "pv0", "0") SEGMENT("2", "3", "2", "pv0", "9")),
		  "its description is malformed" }, /* there is a hole */
		{ VOLUME(SEGMENT("1", "0", "9007199254740992", "pv0", "0")),
		  "its description is malformed" }, /* its size in bytes wraps around */
		{ VOLUME(SEGMENT("1", "0", "1", "pv0", "9007199254740992")),
		  "its description is malformed" },
		{ VOLUME(SEGMENT("1", "0", "1", "pv0", "x")), "its description is malformed" },
		{ OTHER("thin", ""), "it is a thin volume, which is not read" },
		{ OTHER("thin-pool", ""), "it is a pool of thin volumes, which is not read" },
		{ OTHER("raid1", "stripe_count = 1 stripes = [\"pv0\", 0]"),
		  "it is not linear, which is not read" },
		{ OTHER("striped", "stripe_count = 2 stripes = [\"pv0\", 0, \"pv1\", 0]"),
		  "it is not linear, which is not read" },
		{ OTHER("striped", "stripes = [\"pv0\", 0]"),
		  "it is not linear, which is not read" },
		{ OTHER("striped", "stripe_count = 1"), "its description is malformed" },
		{ OTHER("striped", "stripe_count = 1 stripes = [\"pv0\"]"),
		  "its description is malformed" },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		struct fixture f;
		set_up(&f, cases[i].text);
		list(&f);
		g_assert_cmpuint(f.volumes->len, ==, 1);
		g_assert_cmpstr(get(&f, 0)->obstacle, ==, cases[i].obstacle);
		g_assert_null(get(&f, 0)->source.read);
		tear_down(&f);
	}
}

/* Physical volumes that cannot be those that are there. */
static void test_missing_disks(void)
{
	static const char *const descriptions[] = {
		"id = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" pe_start = 128",   /* 31 letters */
		"id = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" pe_start = 128", /* 33 */
		"id = \"\" pe_start = 128",
		"pe_start = 128",
		"id = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
		/* The offset of its data in bytes wraps around. */
		"id = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" pe_start = 36028797018964096",
	};
	for (size_t i = 0; i < G_N_ELEMENTS(descriptions); i++) {
		g_autofree char *text = g_strdup_printf("vg { id = \"group\" seqno = 5 extent_size "
							"= 8 physical_volumes { pv0 { %s } } "
							"logical_volumes { one { " VISIBLE SEGMENT(
								"1", "0", "1", "pv0", "0") "} } }",
							descriptions[i]);
		struct fixture f;
		set_up(&f, text);
		list(&f);
		g_assert_cmpuint(f.volumes->len, ==, 1);
		g_assert_cmpstr(get(&f, 0)->obstacle, ==, "a disk of its group is missing");
		tear_down(&f);
	}
}

/* Groups that tell nothing that can be used; volumes without a content of their own. */
static void test_nothing(void)
{
	static const char *const texts[] = {
		"vg { seqno = 5 }",
		"vg { id = \"group\" }",
		"vg { id = \"group\" seqno = 5 extent_size = 8 }",
		"vg { id = \"group\" seqno = 5 extent_size = 0 logical_volumes { one { " VISIBLE
		"} } }",
		"vg { id = \"group\" seqno = 5 extent_size = 4294967297 logical_volumes { one "
		"{ " VISIBLE "} } }",
		"vg = 5",
		GROUP("one { " SEGMENT("1", "0", "1", "pv0", "0") "} "),
		GROUP("one { status = [\"READ\"] " SEGMENT("1", "0", "1", "pv0", "0") "} "),
		GROUP("one = [\"VISIBLE\"] "),
	};
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
		struct fixture f;
		set_up(&f, texts[i]);
		list(&f);
		g_assert_cmpuint(f.volumes->len, ==, 0);
		tear_down(&f);
	}
}

/* What other volumes consist of is left out; but not the origin of a snapshot. */
static void test_parts(void)
{
	static const char text[] = GROUP("image { " VISIBLE SEGMENT(
		"1", "0", "1", "pv0",
		"0") "} "
		     "store { " VISIBLE SEGMENT(
			     "1", "0", "1", "pv0",
			     "1") "} "
				  "root { " VISIBLE SEGMENT(
					  "1", "0", "1", "pv0",
					  "2") "} "
					       "pv0 { " VISIBLE SEGMENT(
						       "1", "0", "1", "pv0",
						       "3") "} " /* a name of both kinds */
							    "striped { " VISIBLE SEGMENT(
								    "1", "0", "1", "pv0",
								    "4") "} "
									 "mirror { status = [] "
									 "segment1 { type = "
									 "\"mirror\" mirrors = "
									 "[\"image\", 0] } } "
									 "snapshot0 { status = [] "
									 "segment1 { type = "
									 "\"snapshot\" origin = "
									 "\"root\" "
									 "cow_store = \"store\" } "
									 "} ");
	struct fixture f;
	set_up(&f, text);
	list(&f);
	g_assert_cmpuint(f.volumes->len, ==, 3);
	CHECK(get(&f, 0), 2);
	CHECK(get(&f, 1), 3);
	CHECK(get(&f, 2), 4);
	tear_down(&f);
}

/* Extents that lie behind the end of their disk: the others can be read. */
static void test_behind_disk(void)
{
	struct fixture f;
	uint8_t byte;
	set_up(&f, GROUP("one { " VISIBLE SEGMENT("1", "0", "3", "pv0", "47") "} "));
	list(&f);
	g_assert_true(vms_file_source_read(&get(&f, 0)->source, 0, &byte, 1));
	g_assert_false(vms_file_source_read(&get(&f, 0)->source, EXTENT, &byte, 1));
	tear_down(&f);
}

/* ---- clones ------------------------------------------------------------------------- */

/* Of a physical volume that is there twice, each has its own volumes, with its own bytes. */
static void test_clones(void)
{
	struct fixture f;
	set_up(&f, GROUP("one { " VISIBLE SEGMENT("1", "0", "2", "pv0", "0")
				 SEGMENT("2", "2", "1", "pv1", "0") "} "));
	f.disks[2] = fake_disk_new(SIZE);
	fake_disk_put(f.disks[2], 0, f.disks[0]->bytes, SIZE);
	fake_disk_fill(f.disks[2], DATA, EXTENT, 31);
	list(&f);
	g_assert_cmpuint(f.volumes->len, ==, 2);
	CHECK(get(&f, 0), 0, 1, 100);
	CHECK(get(&f, 1), 30, 1, 100);
	tear_down(&f);
}

/* A physical volume that says itself that it is of another group is none of this one. */
static void test_other_group(void)
{
	struct fixture f;
	set_up(&f, GROUP("one { " VISIBLE SEGMENT("1", "0", "1", "pv1", "0") "} "));
	lvm_put_volume(f.disks[1], 0, 1, 'b', "other { id = \"other\" seqno = 1 }");
	list(&f);
	g_assert_cmpuint(f.volumes->len, ==, 1);
	g_assert_cmpstr(get(&f, 0)->obstacle, ==, "a disk of its group is missing");
	tear_down(&f);
}

/* ---- budgets -------------------------------------------------------------------------- */

static void test_budget(void)
{
	g_autoptr(GString) volumes = g_string_new(NULL);
	for (unsigned i = 0; i < 40; i++)
		g_string_append_printf(
			volumes,
			"v%u { " VISIBLE
			"segment1 { start_extent = 0 extent_count = 1 type = \"striped\" "
			"stripe_count = 1 stripes = [\"pv0\", %u] } } ",
			i, i);
	g_autofree char *text = g_strdup_printf(GROUP("%s"), volumes->str);
	bool was_cut = false;
	for (uint64_t steps = 1000; steps <= 100000; steps = steps * 5 / 4) {
		g_autoptr(vms_budget) budget = fake_disk_budget(steps, 1 << 20);
		struct fixture f;
		set_up(&f, text);
		f.disks[0]->source.budget = budget;
		list(&f);
		g_assert_true(vms_budget_has_left(budget) == (f.volumes->len == 40));
		was_cut |= f.volumes->len > 0 && f.volumes->len < 40;
		if (f.volumes->len == 40) {
			/* To read costs, too. */
			const struct vms_lvm_volume *volume = get(&f, 7);
			uint64_t n = 0;
			uint8_t byte;
			while (n < steps && vms_file_source_read(&volume->source, 1, &byte, 1))
				n++;
			g_assert_cmpuint(n, <=, steps / 40);
			g_assert_false(vms_budget_has_left(budget));
		}
		g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), >, 0);
		tear_down(&f);
		g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), ==, 0);
	}
	g_assert_true(was_cut);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/lvm/linear", test_linear);
	g_test_add_func("/lvm/labels", test_labels);
	g_test_add_func("/lvm/labels/damaged", test_damaged_labels);
	g_test_add_func("/lvm/newest", test_newest);
	g_test_add_func("/lvm/ring", test_ring);
	g_test_add_func("/lvm/areas", test_areas);
	g_test_add_func("/lvm/areas/damaged", test_damaged_areas);
	g_test_add_func("/lvm/areas/text-in-header", test_text_in_header);
	g_test_add_func("/lvm/areas/longest-text", test_longest_text);
	g_test_add_func("/lvm/areas/outside", test_area_outside);
	g_test_add_func("/lvm/obstacles", test_obstacles);
	g_test_add_func("/lvm/missing-disks", test_missing_disks);
	g_test_add_func("/lvm/nothing", test_nothing);
	g_test_add_func("/lvm/parts", test_parts);
	g_test_add_func("/lvm/behind-disk", test_behind_disk);
	g_test_add_func("/lvm/clones", test_clones);
	g_test_add_func("/lvm/other-group", test_other_group);
	g_test_add_func("/lvm/budget", test_budget);
	return g_test_run();
}
