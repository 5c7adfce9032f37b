/* SPDX-License-Identifier: MIT */
/* What addresses are called when all that is known of them was told before. */
#include <string.h>
#include <vmscope/symbolizer.h>

#define KERNEL	    UINT64_C(0xffffffff81000000)
#define ELSEWHERE   UINT64_C(0xfffffffffe000000) /* where a part of the kernel is mapped again */
#define MODULE	    UINT64_C(0xffffffffc0000000)
#define PROGRAM	    UINT64_C(0xffffffffc0800000)
#define USER	    UINT64_C(0x7f0000000000)
#define NOTED_LIMIT (64u << 20)

struct fixture {
	struct vms_symbolizer *symbolizer;
	uint32_t space, other;
};

static struct vms_symbol_table *make_table(const char *module, const char *function, uint64_t va)
{
	struct vms_symbol_table *table = vms_symbol_table_new(module);
	vms_symbol_table_add(table, function, va, 0x100, 't');
	vms_symbol_table_finish(table, va + 0x100);
	return table;
}

static uint32_t add_space(struct fixture *f, const char *comm, uint32_t pid)
{
	struct vms_process process = { .pid = pid, .index = 1234 };
	g_strlcpy(process.comm, comm, sizeof(process.comm));
	return vms_symbolizer_add_space(f->symbolizer, &process)->index;
}

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_symbol_table) table = make_table("vmlinux", "do_work", KERNEL + 0x1000);
	const struct vms_mapping image = { .start = KERNEL,
					   .end = KERNEL + 0x100000,
					   .offset = KERNEL,
					   .symbols = table,
					   .kind = VMS_MAPPING_KERNEL };
	const struct vms_mapping again = { .start = ELSEWHERE,
					   .end = ELSEWHERE + 0x1000,
					   .offset = KERNEL + 0x1000,
					   .symbols = table,
					   .kind = VMS_MAPPING_KERNEL };
	f->symbolizer = vms_symbolizer_new();
	vms_symbolizer_map(f->symbolizer, VMS_KERNEL_SPACE, &image);
	vms_symbolizer_map(f->symbolizer, VMS_KERNEL_SPACE, &again);
	f->space = add_space(f, "first", 1);
	f->other = add_space(f, "second", 2);
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	vms_symbolizer_unref(f->symbolizer);
}

/* A module of one part with one function at its begin, or a program. */
static struct vms_mapping make_code(enum vms_mapping_kind kind, uint64_t va,
				    struct vms_symbol_table *table)
{
	return (struct vms_mapping) {
		.start = va, .end = va + 0x1000, .symbols = table, .kind = kind
	};
}

/* "SYMBOL+OFFSET [MODULE]", without a symbol "+OFFSET [MODULE]"; NULL: nothing is known. */
static char *name_of(struct fixture *f, uint32_t space, uint32_t code, uint64_t va)
{
	struct vms_location location;
	if (!vms_symbolizer_locate(f->symbolizer, space, code, va, &location))
		return NULL;
	if (location.symbol)
		g_assert_cmphex(location.start + location.offset, ==, va);
	return g_strdup_printf("%s+%x [%s]", location.symbol ?: "", (unsigned)location.offset,
			       location.module ?: "");
}

static void check(struct fixture *f, uint32_t space, uint32_t code, uint64_t va,
		  const char *expected)
{
	g_autofree char *name = name_of(f, space, code, va);
	g_assert_cmpstr(name, ==, expected);
}

static void test_kernel(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	check(f, VMS_KERNEL_SPACE, 0, KERNEL + 0x1010, "do_work+10 []");
	check(f, VMS_KERNEL_SPACE, 0, ELSEWHERE + 0x20, "do_work+20 []");
	check(f, VMS_KERNEL_SPACE, 0, KERNEL, NULL);
	check(f, VMS_KERNEL_SPACE, 0, ELSEWHERE + 0x100, NULL);
	check(f, f->space, 0, KERNEL + 0x1010, NULL);
	check(f, VMS_NO_SPACE, 0, KERNEL + 0x1010, NULL);
	g_assert_cmpuint(vms_symbolizer_note_code(f->symbolizer, KERNEL + 0x1010), ==, 0);
	g_assert_cmpuint(vms_symbolizer_note_code(f->symbolizer, ELSEWHERE), ==, 0);
}

static void test_processes(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_process *process = vms_symbolizer_process(f->symbolizer, f->other);
	g_assert_cmpuint(process->index, ==, f->other);
	g_assert_cmpuint(process->pid, ==, 2);
	g_assert_cmpstr(process->comm, ==, "second");
	g_assert_null(vms_symbolizer_process(f->symbolizer, 2));
	g_assert_null(vms_symbolizer_process(f->symbolizer, VMS_KERNEL_SPACE));
	g_assert_null(vms_symbolizer_process(f->symbolizer, VMS_NO_SPACE));
}

/* A file is named by its symbols, which are by offset, or by its name; each space has its own. */
static void test_files(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	char path[] = "/bin/tool", build_id[] = "0123abcd";
	g_autoptr(vms_symbol_table) table = make_table("tool", "main", 0x2000);
	struct vms_mapping mapping = { .start = USER,
				       .end = USER + 0x2000,
				       .file = 7,
				       .offset = 0x2000,
				       .name = path,
				       .build_id = build_id,
				       .symbols = table,
				       .stamp = 99 };
	vms_symbolizer_map(f->symbolizer, f->space, &mapping);
	path[0] = build_id[0] = '?'; /* they were copied */
	check(f, f->space, 0, USER + 0x10, "main+10 [/bin/tool]");
	check(f, f->space, 0, USER + 0x1000, "+3000 [/bin/tool]");
	check(f, f->space, 0, USER + 0x2000, NULL);
	check(f, f->other, 0, USER + 0x10, NULL);
	g_assert_true(vms_symbolizer_mapping(f->symbolizer, f->space, USER + 1, &mapping));
	g_assert_cmphex(mapping.end, ==, USER + 0x2000);
	g_assert_cmpuint(mapping.file, ==, 7);
	g_assert_cmpstr(mapping.build_id, ==, "0123abcd");
	g_assert_cmpuint(mapping.stamp, ==, 99);
	g_assert_false(vms_symbolizer_mapping(f->symbolizer, f->space, USER - 1, &mapping));
}

/* What is mapped takes the place of all that it overlaps, and of nothing else. */
static void test_overlaps(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const struct {
		unsigned start, end;
		const char *name;
	} maps[] = { { 1, 3, "a" }, { 5, 7, "b" }, { 9, 11, "c" }, { 3, 5, "d" }, { 6, 10, "e" } };
	static const char *const expected[] = { NULL, "a", "a", "d", "d", NULL,
						"e",  "e", "e", "e", NULL };
	for (size_t i = 0; i < G_N_ELEMENTS(maps); i++) {
		const struct vms_mapping mapping = { .start = USER + maps[i].start * 0x1000,
						     .end = USER + maps[i].end * 0x1000,
						     .name = maps[i].name };
		vms_symbolizer_map(f->symbolizer, f->space, &mapping);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
		struct vms_location location;
		bool known = vms_symbolizer_locate(f->symbolizer, f->space, 0, USER + i * 0x1000,
						   &location);
		g_assert_true(known == (expected[i] != NULL));
		if (known)
			g_assert_cmpstr(location.module, ==, expected[i]);
	}
}

/* What is not loaded any more has the names that it was noted with, and no others. */
static void test_loaded(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_symbol_table) first = make_table("first", "open", MODULE);
	g_autoptr(vms_symbol_table) second = make_table("second", "read", MODULE);
	g_autoptr(vms_symbol_table) bpf = make_table("bpf", "prog", PROGRAM);
	const struct vms_mapping before[] = { make_code(VMS_MAPPING_PROGRAM, PROGRAM, bpf),
					      make_code(VMS_MAPPING_MODULE, MODULE, first) };
	const struct vms_mapping after[] = { make_code(VMS_MAPPING_MODULE, MODULE, second) };
	struct vms_location location;
	vms_symbolizer_load(f->symbolizer, before, G_N_ELEMENTS(before));
	check(f, VMS_KERNEL_SPACE, 0, MODULE + 1, "open+1 [first]");
	check(f, VMS_KERNEL_SPACE, 0, PROGRAM + 1, "prog+1 [bpf]");
	const uint32_t open = vms_symbolizer_note_code(f->symbolizer, MODULE + 1);
	const uint32_t prog = vms_symbolizer_note_code(f->symbolizer, PROGRAM);
	g_assert_cmpuint(open, >, 0);
	g_assert_cmpuint(prog, >, 0);
	g_assert_cmpuint(open, !=, prog);
	g_assert_cmpuint(vms_symbolizer_note_code(f->symbolizer, MODULE), ==, open);
	g_assert_cmpuint(vms_symbolizer_note_code(f->symbolizer, MODULE + 0x100), ==, 0);

	vms_symbolizer_load(f->symbolizer, after, G_N_ELEMENTS(after));
	g_clear_pointer(&first, vms_symbol_table_unref);
	g_clear_pointer(&bpf, vms_symbol_table_unref);
	check(f, VMS_KERNEL_SPACE, 0, MODULE + 1, "read+1 [second]");
	check(f, VMS_KERNEL_SPACE, 0, PROGRAM + 1, NULL);
	check(f, VMS_KERNEL_SPACE, open, MODULE + 1, "open+1 [first]");
	check(f, VMS_KERNEL_SPACE, prog, PROGRAM + 1, "prog+1 [bpf]");
	check(f, VMS_KERNEL_SPACE, prog + 1, PROGRAM + 1, NULL);
	g_assert_true(vms_symbolizer_locate(f->symbolizer, VMS_KERNEL_SPACE, open, MODULE + 1,
					    &location));
	g_assert_cmphex(location.part, ==, MODULE);
	g_assert_true(vms_symbolizer_locate(f->symbolizer, VMS_KERNEL_SPACE, prog, PROGRAM + 1,
					    &location));
	g_assert_cmphex(location.part, ==, 0);
}

/* A guest that loads and unloads without end does not fill the memory. */
static void test_noted_limit(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autofree char *name = g_strnfill(10 << 20, 'x');
	size_t bytes = 0;
	unsigned n = 0;
	for (;; n++) {
		g_autoptr(vms_symbol_table) table = make_table("large", name, MODULE);
		const struct vms_mapping code = make_code(VMS_MAPPING_MODULE, MODULE, table);
		vms_symbolizer_load(f->symbolizer, &code, 1);
		const uint32_t number = vms_symbolizer_note_code(f->symbolizer, MODULE);
		if (number == 0)
			break;
		g_assert_cmpuint(number, ==, n + 1);
		bytes += vms_symbol_table_bytes(table);
		g_assert_cmpuint(bytes, <=, NOTED_LIMIT);
	}
	g_assert_cmpuint(n, >=, 4);
	vms_symbolizer_load(f->symbolizer, NULL, 0);
	g_autofree char *first = name_of(f, VMS_KERNEL_SPACE, 1, MODULE);
	g_assert_true(g_str_has_prefix(first, "xxx"));
}

static void test_names_limit(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const char *first = vms_symbolizer_intern(f->symbolizer, "/a"), *last = first;
	g_autofree char *name = g_strnfill(1 << 20, 'n');
	unsigned n = 0;
	for (; strcmp(last, "[file]") != 0 && n < 1000; n++) {
		name[0] = (char)('A' + n / 26);
		name[1] = (char)('A' + n % 26);
		last = vms_symbolizer_intern(f->symbolizer, name);
	}
	g_assert_cmpuint(n, ==, 64);
	g_assert_true(vms_symbolizer_intern(f->symbolizer, "/a") == first);
}

/* ---- several threads -------------------------------------------------- */

struct race {
	struct fixture *f;
	struct vms_mapping loaded[2];
	int is_over; /* atomic */
};

static gpointer load_and_map(gpointer data)
{
	struct race *race = data;
	struct vms_mapping mapping = { .end = USER + 0x1000, .name = "/bin/tool" };
	for (unsigned i = 0; !g_atomic_int_get(&race->is_over); i++) {
		mapping.start = USER - i % 16 * 0x1000;
		vms_symbolizer_load(race->f->symbolizer, &race->loaded[i % 2], 1);
		vms_symbolizer_map(race->f->symbolizer, race->f->space, &mapping);
		add_space(race->f, "another", i);
	}
	return NULL;
}

/* Names are looked up and noted while code comes and goes. */
static void test_threads(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(vms_symbol_table) first = make_table("first", "open", MODULE);
	g_autoptr(vms_symbol_table) second = make_table("second", "read", MODULE);
	struct race race = { .f = f,
			     .loaded = { make_code(VMS_MAPPING_MODULE, MODULE, first),
					 make_code(VMS_MAPPING_MODULE, MODULE, second) } };
	const struct vms_mapping mapping = { USER, USER + 0x1000, .name = "/bin/tool" };
	vms_symbolizer_load(f->symbolizer, race.loaded, 1);
	vms_symbolizer_map(f->symbolizer, f->space, &mapping);
	const uint32_t open = vms_symbolizer_note_code(f->symbolizer, MODULE);
	GThread *thread = g_thread_new("loads", load_and_map, &race);
	for (unsigned i = 0; i < 20000; i++) {
		const uint32_t code = vms_symbolizer_note_code(f->symbolizer, MODULE);
		check(f, VMS_KERNEL_SPACE, open, MODULE + 1, "open+1 [first]");
		check(f, VMS_KERNEL_SPACE, code, MODULE + 1,
		      code == open ? "open+1 [first]" : "read+1 [second]");
		g_autofree char *name = name_of(f, f->space, 0, USER);
		g_assert_true(g_str_has_suffix(name, " [/bin/tool]"));
		g_assert_nonnull(vms_symbolizer_process(f->symbolizer, f->other));
	}
	g_atomic_int_set(&race.is_over, 1);
	g_thread_join(thread);
}

#define ADD(name, test)                                                                            \
	g_test_add("/symbolizer/" name, struct fixture, NULL, set_up, test, tear_down)

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	ADD("kernel", test_kernel);
	ADD("processes", test_processes);
	ADD("files", test_files);
	ADD("overlaps", test_overlaps);
	ADD("loaded", test_loaded);
	ADD("noted-limit", test_noted_limit);
	ADD("names-limit", test_names_limit);
	ADD("threads", test_threads);
	return g_test_run();
}
