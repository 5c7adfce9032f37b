/* SPDX-License-Identifier: MIT */
/* Variables that a kernel's symbols leave out, in an image laid out by hand. */
#include "guest/linux/unlisted_symbols.h"
#include "fake_linux.h"
#include "guest/linux/kernel_image.h"
#include "unlisted_types.h"

#define IMAGE	   UINT64_C(0xffff800080000000)
#define IMAGE_SIZE 0x40000
#define TEXT_END   0x8000
#define NAMES	   0x9000
#define EXPORTS	   0xa000
#define BANNERS	   0xb000
#define BTF	   0x10000
#define DATA	   0x30000
#define LINEAR	   UINT64_C(0xffff000000000000)
#define MODULES	   UINT64_C(0xffff800000000000)
#define BANNER	   "Linux version 6.1.0 (me@here) (cc) #"

struct fixture {
	struct vms_machine *machine;
	struct vms_linux *guest;
	uint8_t *image;
	struct vms_kernel_image kernel_image;
};

static void set_up(struct fixture *f, gconstpointer data)
{
	static const struct fake_symbol functions[] = { { "schedule", IMAGE + 0x1000 },
							{ NULL, 0 } };
	static const struct fake_symbol all[] = { { "schedule", IMAGE + 0x1000 },
						  { "init_task", IMAGE + 0x8 },
						  { NULL, 0 } };
	f->machine = fake_machine_new(&vms_arch_aarch64, 1);
	f->image = fake_machine_add_ram(f->machine, IMAGE, IMAGE_SIZE);
	fake_machine_add_ram(f->machine, LINEAR, 0x4000);
	fake_machine_add_ram(f->machine, MODULES, 0x1000);
	f->guest = fake_linux_new(f->machine, data ? all : functions, unlisted_types());
	f->guest->text[0].begin = IMAGE;
	f->guest->text[0].end = IMAGE + TEXT_END;
	f->kernel_image = (struct vms_kernel_image) { IMAGE, { f->image, IMAGE_SIZE } };
}

static void tear_down(struct fixture *f, gconstpointer data)
{
	(void)data;
	vms_linux_free(f->guest);
	vms_machine_unref(f->machine);
}

static void put_relative(struct fixture *f, size_t at, size_t target)
{
	const int32_t offset = (int32_t)((int64_t)target - (int64_t)at);
	memcpy(f->image + at, &offset, sizeof(offset));
}

/* struct kernel_symbol: a value, a name, a name space. */
static void put_export(struct fixture *f, unsigned index, const char *name, size_t value)
{
	const size_t entry = EXPORTS + index * 12, at = NAMES + index * 64;
	strcpy((char *)f->image + at, name);
	put_relative(f, entry, value);
	put_relative(f, entry + 4, at);
	put_relative(f, entry + 8, at + strlen(name));
}

static void put_u64(struct fixture *f, uint64_t va, uint64_t value)
{
	fake_machine_write_u64(f->machine, va, value);
}

static void check(struct fixture *f, const char *name, uint64_t va)
{
	uint64_t found = 0;
	g_assert_true(vms_linux_symbol(f->guest, name, &found));
	g_assert_cmphex(found, ==, va);
}

static void check_none(struct fixture *f, const char *name)
{
	uint64_t found;
	g_assert_false(vms_linux_symbol(f->guest, name, &found));
}

static void find(struct fixture *f)
{
	vms_linux_find_unlisted(f->guest, &f->kernel_image);
	vms_linux_find_unlisted_by_types(f->guest, &f->kernel_image);
}

static void test_exports(struct fixture *f, gconstpointer data)
{
	(void)data;
	put_export(f, 0, "a_symbol", DATA);
	put_export(f, 1, "init_task", DATA + 0x100);
	put_export(f, 2, "init_uts_ns", DATA + 0x200);
	put_export(f, 3, "zero", DATA + 0x300);
	/* The name again, with something that points to it but is no export. */
	strcpy((char *)f->image + NAMES + 0x800, "nr_cpu_ids");
	put_relative(f, EXPORTS + 0x404, NAMES + 0x800);
	find(f);
	check(f, "init_task", IMAGE + DATA + 0x100);
	check(f, "init_uts_ns", IMAGE + DATA + 0x200);
	check(f, "schedule", IMAGE + 0x1000);
	check_none(f, "nr_cpu_ids");
	check_none(f, "zero");
}

/* Names that are not sorted are no table of exports. */
static void test_unsorted_exports(struct fixture *f, gconstpointer data)
{
	(void)data;
	put_export(f, 0, "z_symbol", DATA);
	put_export(f, 1, "init_task", DATA + 0x100);
	put_export(f, 2, "a_symbol", DATA + 0x300);
	find(f);
	check_none(f, "init_task");
}

static void test_banner(struct fixture *f, gconstpointer data)
{
	static const char preliminary[] = BANNER " SMP\n", banner[] = BANNER "1 SMP\n";
	(void)data;
	memcpy(f->image + BANNERS, preliminary, sizeof(preliminary));
	find(f);
	check_none(f, "linux_banner");
	/* In the log: it has no newline. */
	memcpy(f->image + BANNERS + 0x80, banner, strlen(banner) - 1);
	memcpy(f->image + BANNERS + 0x100, banner, sizeof(banner));
	g_clear_pointer(&f->guest->variables, g_hash_table_unref);
	find(f);
	check(f, "linux_banner", IMAGE + BANNERS + 0x100);
}

/* So many names of one variable, and beginnings of banners, are looked at. */
static void test_many_places(struct fixture *f, gconstpointer data)
{
	static const char banner[] = BANNER "1 SMP\n";
	enum { PLACES = 200, BANNERS_MOST = 64 };
	(void)data;
	for (unsigned i = 0; i < PLACES; i++)
		strcpy((char *)f->image + NAMES + 16 * i, "nr_cpu_ids");
	for (unsigned more = 0; more < 2; more++) {
		for (unsigned i = 0; i < BANNERS_MOST - 1 + more; i++)
			memcpy(f->image + BANNERS + 16 * i, banner, 14);
		memcpy(f->image + BANNERS + 16 * BANNERS_MOST, banner, sizeof(banner));
		g_clear_pointer(&f->guest->variables, g_hash_table_unref);
		find(f);
		check_none(f, "nr_cpu_ids");
		if (more)
			check_none(f, "linux_banner");
		else
			check(f, "linux_banner", IMAGE + BANNERS + 16 * BANNERS_MOST);
	}
}

static void test_vmcoreinfo(struct fixture *f, gconstpointer data)
{
	(void)data;
	strcpy(fake_machine_at(f->machine, LINEAR + 0x2000), "OSRELEASE=6.1\nPAGESIZE=4096\n");
	put_u64(f, IMAGE + 0x100, LINEAR + 0x2000); /* in code: no variable */
	put_u64(f, IMAGE + DATA, LINEAR + 0x1000);
	put_u64(f, IMAGE + DATA + 8, LINEAR + 0x9000); /* not there */
	put_u64(f, IMAGE + DATA + 16, LINEAR + 0x2000);
	find(f);
	check(f, "vmcoreinfo_data", IMAGE + DATA + 16);
}

static void put_btf(struct fixture *f, size_t at, uint32_t types_size, uint32_t strings_size)
{
	const uint32_t header[] = { 0x0001eb9f, 24, 0, types_size, types_size, strings_size };
	memcpy(f->image + at, header, sizeof(header));
}

static void test_btf(struct fixture *f, gconstpointer data)
{
	(void)data;
	put_btf(f, BTF - 0x100, 16, 16);	   /* too small for a kernel's */
	put_btf(f, BTF - 0x200, 0x12000, 0x70000); /* larger than the image */
	put_btf(f, BTF, 0x12000, 0x400);
	find(f);
	check(f, "__start_BTF", IMAGE + BTF);
	check(f, "__stop_BTF", IMAGE + BTF + 24 + 0x12400);
}

/* Two variables of each CPU, whose places tell where the others are. */
static void put_percpu(struct fixture *f, size_t section, size_t other_section)
{
	put_export(f, 0, "a_symbol", DATA);
	put_export(f, 1, "cpu_number", section + PERCPU_CPU_NUMBER);
	put_export(f, 2, "kstat", other_section + PERCPU_KSTAT);
	put_export(f, 3, "zero", DATA);
	find(f);
}

static void test_percpu(struct fixture *f, gconstpointer data)
{
	(void)data;
	put_percpu(f, DATA + 0x1000, DATA + 0x1000);
	check(f, "cpu_number", IMAGE + DATA + 0x1000 + PERCPU_CPU_NUMBER);
	check(f, "hrtimer_bases", IMAGE + DATA + 0x1000 + PERCPU_HRTIMER_BASES);
	check(f, "tick_cpu_device", IMAGE + DATA + 0x1000 + PERCPU_TICK_CPU_DEVICE);
}

static void test_bad_percpu(struct fixture *f, gconstpointer data)
{
	static const size_t sections[][2] = {
		{ DATA + 0x1000, DATA + 0x2000 },	      /* they do not agree */
		{ DATA + 0x1010, DATA + 0x1010 },	      /* not where a section begins */
		{ IMAGE_SIZE + 0x1000, IMAGE_SIZE + 0x1000 }, /* not in the image */
	};
	(void)data;
	for (size_t i = 0; i < G_N_ELEMENTS(sections); i++) {
		put_percpu(f, sections[i][0], sections[i][1]);
		check(f, "cpu_number", IMAGE + sections[i][0] + PERCPU_CPU_NUMBER);
		check_none(f, "hrtimer_bases");
		check_none(f, "tick_cpu_device");
		g_clear_pointer(&f->guest->variables, g_hash_table_unref);
	}
}

/* A clock source, in the list that begins behind it, with its name behind that. */
static void put_source(struct fixture *f, uint64_t va)
{
	const uint64_t list = va + 0x80, name = va + 0x90;
	put_u64(f, va + SOURCE_MASK, 0xffffff);
	put_u64(f, va + SOURCE_MULT, UINT64_C(5) << 32 | 1000);
	put_u64(f, va + SOURCE_NAME, name);
	put_u64(f, va + SOURCE_LIST, list);
	put_u64(f, va + SOURCE_LIST + 8, list);
	put_u64(f, va + SOURCE_RATING, 400);
	put_u64(f, list, va + SOURCE_LIST);
	put_u64(f, list + 8, va + SOURCE_LIST);
	strcpy(fake_machine_at(f->machine, name), "clock-1");
}

static void put_keeper(struct fixture *f, size_t at, uint64_t source)
{
	static const uint64_t bases[] = { KEEPER_MONO, KEEPER_RAW };
	const uint64_t va = IMAGE + at;
	for (size_t i = 0; i < G_N_ELEMENTS(bases); i++) {
		put_u64(f, va + bases[i] + READ_CLOCK, source);
		put_u64(f, va + bases[i] + READ_MASK, 0xffffff);
		put_u64(f, va + bases[i] + READ_MULT, UINT64_C(5) << 32 | 1000);
	}
	/* Time is slewed. */
	put_u64(f, va + KEEPER_MONO + READ_MULT, UINT64_C(5) << 32 | 1003);
	put_u64(f, va + KEEPER_CYCLES, 12345);
	put_u64(f, va + KEEPER_SHIFTED_NS, 12345000);
}

static void find_keeper_again(struct fixture *f)
{
	g_clear_pointer(&f->guest->variables, g_hash_table_unref);
	find(f);
}

static void test_timekeeper(struct fixture *f, gconstpointer data)
{
	const size_t fast = DATA + 0x100, own = DATA + 0x208, shadow = DATA + 0x300;
	(void)data;
	put_source(f, LINEAR + 0x100);
	put_source(f, IMAGE + DATA + 0x1000);
	/* One for reading only has other data behind it. */
	put_keeper(f, fast, LINEAR + 0x100);
	put_u64(f, IMAGE + fast + KEEPER_CYCLES, 0);
	put_u64(f, IMAGE + fast + KEEPER_SHIFTED_NS, 0);
	put_keeper(f, 0x100, LINEAR + 0x100); /* in code: no variable */
	find(f);
	check_none(f, "timekeeper");
	put_keeper(f, own, IMAGE + DATA + 0x1000);
	put_keeper(f, shadow, IMAGE + DATA + 0x1000);
	find_keeper_again(f);
	check(f, "timekeeper", IMAGE + own);
	/* Two that do not agree. */
	put_keeper(f, shadow, LINEAR + 0x100);
	find_keeper_again(f);
	check_none(f, "timekeeper");
}

/* All that must be so for a clock source, and for what is kept by it. */
static void test_bad_timekeeper(struct fixture *f, gconstpointer data)
{
	const uint64_t source = LINEAR + 0x100, keeper = IMAGE + DATA + 0x208, wrong = LINEAR + 8;
	const struct {
		uint64_t va, value;
	} damage[] = {
		{ source + SOURCE_NAME, 0 },
		{ source + 0x90, 0 },			 /* an empty name */
		{ source + 0x90, UINT64_C(0x00610a62) }, /* one of two lines */
		{ source + SOURCE_RATING, 0 },
		{ source + SOURCE_RATING, 500 },
		{ source + SOURCE_LIST, wrong },
		{ source + SOURCE_LIST, source + SOURCE_LIST },
		{ source + SOURCE_LIST + 8, wrong },
		{ source + SOURCE_MASK, 0xffff },
		{ source + SOURCE_MULT, UINT64_C(5) << 32 | 1001 },
		{ source + SOURCE_MULT, UINT64_C(6) << 32 | 1000 },
		{ keeper + KEEPER_MONO + READ_CLOCK, wrong },
		{ keeper + KEEPER_MONO + READ_MASK, 0xffff },
		{ keeper + KEEPER_MONO + READ_MULT, UINT64_C(6) << 32 | 1000 },
		{ keeper + KEEPER_CYCLES, 12346 },
	};
	(void)data;
	for (size_t i = 0; i < G_N_ELEMENTS(damage); i++) {
		put_source(f, source);
		put_keeper(f, DATA + 0x208, source);
		find_keeper_again(f);
		check(f, "timekeeper", keeper);
		put_u64(f, damage[i].va, damage[i].value);
		find_keeper_again(f);
		check_none(f, "timekeeper");
	}
	/* One that is not there, and one that is the user's. */
	put_keeper(f, DATA + 0x208, LINEAR + 0x10000);
	put_keeper(f, DATA + 0x300, 0x1000);
	find_keeper_again(f);
	check_none(f, "timekeeper");
}

static void test_modules(struct fixture *f, gconstpointer data)
{
	const uint64_t head = IMAGE + DATA + 0x40, module = MODULES + 0x100;
	(void)data;
	/* A list that has nodes there, too, but not of modules. */
	put_u64(f, IMAGE + DATA, MODULES + 0x810);
	put_u64(f, IMAGE + DATA + 8, MODULES + 0x810);
	put_u64(f, MODULES + 0x810, IMAGE + DATA);
	put_u64(f, MODULES + 0x818, IMAGE + DATA);
	find(f);
	check_none(f, "modules");
	put_u64(f, head, module + MODULE_LIST);
	put_u64(f, head + 8, module + MODULE_LIST);
	put_u64(f, module + MODULE_LIST, head);
	put_u64(f, module + MODULE_LIST + 8, head);
	put_u64(f, module + MODULE_SELF, module);
	vms_linux_find_unlisted_by_types(f->guest, &f->kernel_image);
	check(f, "modules", head);
}

/* An image of words that all might be what is looked for: not all are looked at closely. */
static void test_hostile_image(struct fixture *f, gconstpointer data)
{
	enum { LISTS = 1 << 16, EXPORT_NAMES = 1 << 20, SIZE = 8 << 20 };
	(void)data;
	g_autofree uint8_t *bytes = g_malloc0(SIZE);
	const uint64_t node = MODULES + 0x810;
	const size_t name = SIZE - 0x1000;
	f->image = bytes;
	f->kernel_image = (struct vms_kernel_image) { IMAGE, { bytes, SIZE } };
	for (size_t at = TEXT_END; at < SIZE; at += 8)
		memcpy(bytes + at, &node, sizeof(node));
	uint64_t reads = fake_machine_reads(f->machine);
	find(f);
	g_assert_cmpuint(fake_machine_reads(f->machine) - reads, <, 2 * LISTS);

	/* … and pointers to what might be VMCOREINFO. */
	const uint64_t page = LINEAR + 0x1000;
	for (size_t at = TEXT_END; at < SIZE; at += 8)
		memcpy(bytes + at, &page, sizeof(page));
	reads = fake_machine_reads(f->machine);
	g_clear_pointer(&f->guest->variables, g_hash_table_unref);
	find(f);
	g_assert_cmpuint(fake_machine_reads(f->machine) - reads, <, 3 * LISTS);

	/* An export behind as many words that lead to its name, and before one more. */
	g_clear_pointer(&f->guest->variables, g_hash_table_unref);
	for (unsigned more = 0; more < 2; more++) {
		memset(bytes, 0, SIZE);
		strcpy((char *)bytes + name, "init_task");
		for (size_t i = 0; i + 1 < EXPORT_NAMES + more; i++)
			put_relative(f, 4 + i * 4, name);
		const size_t entry = (EXPORT_NAMES + 8) * 4;
		strcpy((char *)bytes + name + 0x100, "zero");
		put_relative(f, entry, DATA);
		put_relative(f, entry + 4, name);
		put_relative(f, entry + 16, name + 0x100);
		find(f);
		if (more)
			check_none(f, "init_task");
		else
			check(f, "init_task", IMAGE + DATA);
		g_clear_pointer(&f->guest->variables, g_hash_table_unref);
	}
}

/* Kernels that have the symbols are believed. */
static void test_nothing_unlisted(struct fixture *f, gconstpointer data)
{
	(void)data;
	put_export(f, 0, "a_symbol", DATA);
	put_export(f, 1, "init_task", DATA + 0x100);
	put_btf(f, BTF, 0x12000, 0x400);
	find(f);
	check(f, "init_task", IMAGE + 8);
	check_none(f, "__start_BTF");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(path, test) g_test_add(path, struct fixture, NULL, set_up, test, tear_down)
	ADD("/unlisted-symbols/exports", test_exports);
	ADD("/unlisted-symbols/unsorted-exports", test_unsorted_exports);
	ADD("/unlisted-symbols/banner", test_banner);
	ADD("/unlisted-symbols/many-places", test_many_places);
	ADD("/unlisted-symbols/vmcoreinfo", test_vmcoreinfo);
	ADD("/unlisted-symbols/btf", test_btf);
	ADD("/unlisted-symbols/percpu", test_percpu);
	ADD("/unlisted-symbols/bad-percpu", test_bad_percpu);
	ADD("/unlisted-symbols/timekeeper", test_timekeeper);
	ADD("/unlisted-symbols/bad-timekeeper", test_bad_timekeeper);
	ADD("/unlisted-symbols/modules", test_modules);
	ADD("/unlisted-symbols/hostile-image", test_hostile_image);
	g_test_add("/unlisted-symbols/nothing", struct fixture, "all symbols", set_up,
		   test_nothing_unlisted, tear_down);
	return g_test_run();
}
