/* SPDX-License-Identifier: MIT */
/*
 * Binaries: this program and its C library, whose functions the dynamic loader tells, too; and
 * files that lie.
 */
#include "symbol/binary.h"
#include "base/clock.h"
#include "elf_encoder.h"
#include "symbol/binary_functions.h"
#include "symbol/demangle.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>
#include <vmscope/log.h>

#define BUDGET ((size_t)1 << 20)

static struct vms_binary *open_path(const char *path)
{
	struct vms_file_source source;
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	g_assert_cmpint(fd, >=, 0);
	g_assert_true(vms_file_source_of_fd(fd, &source));
	return vms_binary_new(path, &source);
}

/* Asserts that the binary has a function where this process has it mapped. */
static void check_function(struct vms_binary *binary, const char *name, uint64_t bias, void *at)
{
	struct vms_symbol symbol;
	uint64_t offset, back;
	struct vms_symbol_table *functions = vms_binary_functions(binary);
	const struct vms_elf_image *elf = vms_binary_elf(binary);
	g_assert_nonnull(elf);
	g_assert_true(vms_symbol_table_lookup(functions, name, &symbol));
	g_assert_true(vms_elf_image_offset(elf, (uint64_t)(uintptr_t)at - bias, &offset));
	g_assert_true(vms_elf_image_code_address(elf, offset, &back));
	g_assert_cmphex(back, ==, (uint64_t)(uintptr_t)at - bias);
	g_assert_cmphex(symbol.va, ==, offset);
	/* Aliases lie there, too. */
	g_assert_true(vms_symbol_table_find(functions, offset + 1, &symbol));
	g_assert_cmphex(symbol.va, ==, offset);
}

static void test_own_program(void)
{
	g_autoptr(vms_binary) binary = open_path("/proc/self/exe");
	Dl_info info;
	struct link_map *map;
	g_assert_true(dladdr1((void *)(uintptr_t)test_own_program, &info, (void **)&map,
			      RTLD_DL_LINKMAP));
	check_function(binary, "test_own_program", map->l_addr,
		       (void *)(uintptr_t)test_own_program);
}

/* Two names of one function, as a C library has them. */
void __vms_test_named_twice(void);
void vms_test_named_twice(void) __attribute__((alias("__vms_test_named_twice")));

void __vms_test_named_twice(void)
{
	g_assert_nonnull(g_get_prgname());
}

static void test_two_names(void)
{
	g_autoptr(vms_binary) binary = open_path("/proc/self/exe");
	struct vms_symbol_table *functions = vms_binary_functions(binary);
	struct vms_symbol symbol, found;
	vms_test_named_twice();
	g_assert_true(vms_symbol_table_lookup(functions, "__vms_test_named_twice", &symbol));
	g_assert_true(vms_symbol_table_find(functions, symbol.va, &found));
	g_assert_cmpstr(found.name, ==, "vms_test_named_twice");
}

/*
 * Functions in assembler code that does not say that they are, and places that are none: within a
 * function whose size is known, and with the names of places within functions.
 */
extern const char vms_test_label[], vms_test_next_label[];
__asm__(".text\n.globl vms_test_label, vms_test_next_label\n"
	"vms_test_label:\nnop\n\"vms_test_label.loop\":\nnop\nret\n"
	"vms_test_next_label:\nnop\nnop\nvms_test_local_label:\nret\n"
	".globl vms_test_table, vms_test_sized\n.type vms_test_sized, %function\n"
	"vms_test_sized:\nnop\nvms_test_inner_label:\nnop\nret\n"
	".size vms_test_sized, . - vms_test_sized\n"
	".data\nvms_test_table:\n.long 1\n.text\n");
void vms_test_sized(void);

static void test_labels(void)
{
	static const char *const none[] = { "vms_test_label.loop", "vms_test_inner_label",
					    "vms_test_table" };
	g_autoptr(vms_binary) binary = open_path("/proc/self/exe");
	struct vms_symbol_table *functions = vms_binary_functions(binary);
	struct vms_symbol symbol;
	Dl_info info;
	struct link_map *map;
	g_assert_true(dladdr1(vms_test_label, &info, (void **)&map, RTLD_DL_LINKMAP));
	check_function(binary, "vms_test_label", map->l_addr, (void *)(uintptr_t)vms_test_label);
	check_function(binary, "vms_test_next_label", map->l_addr,
		       (void *)(uintptr_t)vms_test_next_label);
	g_assert_true(vms_symbol_table_lookup(functions, "vms_test_label", &symbol));
	g_assert_cmpuint(symbol.size, ==, vms_test_next_label - vms_test_label);
	g_assert_true(vms_symbol_table_lookup(functions, "vms_test_local_label", &symbol));
	for (size_t i = 0; i < G_N_ELEMENTS(none); i++)
		g_assert_false(vms_symbol_table_lookup(functions, none[i], &symbol));
	check_function(binary, "vms_test_sized", map->l_addr, (void *)(uintptr_t)vms_test_sized);
}

/* A table of all symbols has names with their versions, as "pthread_create@@GLIBC_2.34". */
static void test_versions(void)
{
	static const struct {
		const char *name, *shown;
	} names[] = {
		{ "pthread_create@@GLIBC_2.34", "pthread_create" },
		{ "memcpy@GLIBC_2.2.5", "memcpy@GLIBC_2.2.5" },
		{ "_ZN3foo3barEi@@V1", "foo::bar(int)" },
		{ "@@", "@@" },
	};
	g_autofree char *path = NULL;
	const int fd = g_file_open_tmp("vmscope-versions-XXXXXX", &path, NULL);
	g_assert_cmpint(fd, >=, 0);
	close(fd);
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		struct vms_symbol symbol;
		elf_encoder_write(path, names[i].name, 0x100, 16);
		g_autoptr(vms_binary) binary = open_path(path);
		g_assert_true(vms_symbol_table_find(vms_binary_functions(binary), 0x100, &symbol));
		g_assert_cmpstr(symbol.name, ==, names[i].shown);
	}
	unlink(path);
}

/* A distribution's library has no symbols but those for dynamic linking. */
static void test_library(void)
{
	static const char *const names[] = { "qsort", "fopen", "pthread_create", "syscall" };
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		void *at = dlsym(RTLD_DEFAULT, names[i]);
		Dl_info info;
		struct link_map *map;
		g_assert_true(dladdr1(at, &info, (void **)&map, RTLD_DL_LINKMAP));
		g_autoptr(vms_binary) binary = open_path(info.dli_fname);
		if (strstr(info.dli_fname, "libc.so"))
			check_function(binary, names[i], map->l_addr, at);
		g_assert_cmpstr(vms_binary_build_id(binary), !=, NULL);
	}
}

static void test_plt(void)
{
	g_autoptr(vms_binary) binary = open_path("/proc/self/exe");
	struct vms_symbol symbol;
	g_assert_true(
		vms_symbol_table_lookup(vms_binary_functions(binary), "dladdr1@plt", &symbol) ||
		vms_symbol_table_lookup(vms_binary_functions(binary), "open64@plt", &symbol) ||
		vms_symbol_table_lookup(vms_binary_functions(binary), "open@plt", &symbol));
}

/* ---- parts that are missing ------------------------------------------- */

struct holes {
	struct vms_file_source whole;
	uint64_t begin, end; /* what is missing */
};

static bool read_around_holes(void *data, uint64_t offset, void *buf, size_t size)
{
	const struct holes *holes = data;
	return (offset + size <= holes->begin || offset >= holes->end) &&
	       holes->whole.read(holes->whole.data, offset, buf, size);
}

/* A file whose tables are not in memory has the functions that are left, and none at wrong places.
 */
static void test_holes(void)
{
	g_autoptr(vms_binary) whole = open_path("/proc/self/exe");
	const uint64_t size = vms_binary_size(whole);
	struct vms_symbol_table *all = vms_binary_functions(whole);
	struct holes holes = { 0 };
	g_assert_true(
		vms_file_source_of_fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &holes.whole));
	for (uint64_t begin = 0; begin < size; begin += size / 16) {
		const struct vms_file_source source = {
			.size = size,
			.read = read_around_holes,
			.data = &holes,
		};
		holes.begin = begin;
		holes.end = begin + size / 4;
		g_autoptr(vms_binary) binary = vms_binary_new("holes", &source);
		struct vms_symbol_table *some = vms_binary_functions(binary);
		g_assert_true(begin > 0 || vms_symbol_table_count(some) == 0);
		for (size_t i = 0; i < vms_symbol_table_count(some); i++) {
			const struct vms_symbol symbol = vms_symbol_table_get(some, i);
			struct vms_symbol same;
			size_t cursor = 0;
			bool found = false;
			while (!found && vms_symbol_table_next(all, symbol.name, &cursor, &same))
				found = same.va == symbol.va;
			g_assert_true(found);
		}
	}
	vms_file_source_clear(&holes.whole);
}

/* A file that is not yet in memory when it is first asked for gets its functions later. */
static void test_late(void)
{
	g_autoptr(vms_binary) whole = open_path("/proc/self/exe");
	const uint64_t size = vms_binary_size(whole), second = UINT64_C(1000000000);
	const size_t n = vms_symbol_table_count(vms_binary_functions(whole));
	const uint64_t begins[] = { 0, vms_binary_elf(whole)->sections[1].sh_offset, size / 2 };
	for (size_t i = 0; i < G_N_ELEMENTS(begins); i++) {
		struct holes holes = { .begin = begins[i], .end = size };
		g_assert_true(vms_file_source_of_fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
						    &holes.whole));
		const struct vms_file_source source = { size, read_around_holes, NULL, &holes };
		g_autoptr(vms_binary) binary = vms_binary_new("late", &source);
		g_assert_null(vms_binary_known_functions(binary));
		struct vms_symbol_table *before = vms_binary_functions(binary);
		const uint64_t now = vms_clock_now_ns();
		const size_t n_before = vms_symbol_table_count(before);
		g_assert_cmpuint(n_before, <, n);

		/* Nothing has come: the pause doubles. */
		g_assert_false(vms_binary_refresh(binary, now + second / 2));
		g_assert_true(vms_binary_refresh(binary, now + second));
		g_assert_true(vms_binary_functions(binary) == before);
		holes.begin = holes.end = UINT64_MAX / 2;
		g_assert_false(vms_binary_refresh(binary, now + 2 * second));
		g_assert_true(vms_binary_known_functions(binary) == before);

		g_assert_true(vms_binary_refresh(binary, now + 3 * second));
		g_assert_cmpuint(vms_symbol_table_count(vms_binary_functions(binary)), ==, n);
		g_assert_cmpstr(vms_binary_build_id(binary), ==, vms_binary_build_id(whole));
		g_assert_nonnull(vms_binary_elf(binary));
		/* What was given out before stays, and what is whole is not read again. */
		g_assert_cmpuint(vms_symbol_table_count(before), ==, n_before);
		g_assert_false(vms_binary_refresh(binary, now + 1000 * second));
		vms_file_source_clear(&holes.whole);
	}
}

/* Keeps the last section, once the headers of sections are there. */
static void *keep_section(struct vms_binary *binary)
{
	const struct vms_elf_image *elf = vms_binary_elf(binary);
	return elf && elf->n_sections ? g_memdup2(&elf->sections[1], sizeof(Elf64_Shdr)) : NULL;
}

/* A program without functions, whose headers come late, gets what others keep of it later. */
static void test_late_without_functions(void)
{
	enum { SECTIONS = 2 * VMS_FILE_BLOCK, SIZE = 3 * VMS_FILE_BLOCK };
	const Elf64_Ehdr header = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_shoff = SECTIONS,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 2,
	};
	const Elf64_Shdr section = { .sh_type = SHT_PROGBITS, .sh_addr = 0x1234 };
	const uint64_t begins[] = { 0, SECTIONS }, second = UINT64_C(1000000000);
	for (size_t i = 0; i < G_N_ELEMENTS(begins); i++) {
		uint8_t *bytes = g_malloc0(SIZE);
		memcpy(bytes, &header, sizeof(header));
		memcpy(bytes + SECTIONS + sizeof(section), &section, sizeof(section));
		struct holes holes = { vms_file_source_of_memory(bytes, SIZE), begins[i], SIZE };
		const struct vms_file_source source = { SIZE, read_around_holes, NULL, &holes };
		g_autoptr(vms_binary) binary = vms_binary_new("late", &source);
		g_assert_cmpuint(vms_symbol_table_count(vms_binary_functions(binary)), ==, 0);
		g_assert_null(vms_binary_attachment(binary, keep_section, g_free));
		holes.begin = holes.end = UINT64_MAX / 2;
		g_assert_true(vms_binary_refresh(binary, vms_clock_now_ns() + second));
		const Elf64_Shdr *kept = vms_binary_attachment(binary, keep_section, g_free);
		g_assert_nonnull(kept);
		g_assert_cmphex(kept->sh_addr, ==, 0x1234);
		g_assert_true(vms_binary_attachment(binary, keep_section, g_free) == kept);
		vms_file_source_clear(&holes.whole);
	}
}

/* A file whose begin never comes is read ever more rarely. */
static void test_late_for_ever(void)
{
	g_autoptr(vms_binary) whole = open_path("/proc/self/exe");
	const uint64_t size = vms_binary_size(whole);
	struct holes holes = { .begin = 0, .end = size };
	g_assert_true(
		vms_file_source_of_fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &holes.whole));
	const struct vms_file_source source = { size, read_around_holes, NULL, &holes };
	g_autoptr(vms_binary) binary = vms_binary_new("late", &source);
	vms_binary_functions(binary);
	uint64_t now = vms_clock_now_ns();
	unsigned reads = 0;
	for (unsigned i = 0; i < 640; i++) {
		now += UINT64_C(1000000000);
		reads += vms_binary_refresh(binary, now);
	}
	g_assert_cmpuint(reads, <=, 16); /* 1 + 2 + … + 64, then each 64 seconds */
	vms_file_source_clear(&holes.whole);
}

/* Opens the test itself, whose tables count to a budget. */
static struct vms_binary *open_on_budget(struct vms_budget *budget)
{
	struct vms_file_source source;
	g_assert_true(vms_file_source_of_fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &source));
	source.budget = budget;
	return vms_binary_new("program", &source);
}

/* There may be any number of files: all of their tables together have a limit. */
static void test_budget(void)
{
	const struct vms_budget_options options = { .size = sizeof(options),
						    .bytes = UINT64_C(32) << 10 };
	g_autoptr(vms_budget) budget = vms_budget_new(&options, NULL);
	g_autoptr(vms_binary) first = open_on_budget(NULL);
	struct vms_binary *second = open_on_budget(budget);
	const size_t all = vms_symbol_table_count(vms_binary_functions(first));
	g_assert_cmpuint(all, >, 100);
	g_assert_nonnull(vms_binary_elf(second));
	g_assert_cmpuint(vms_symbol_table_count(vms_binary_functions(second)), <, all);
	g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), <=, options.bytes / 4);
	g_autofree char *losses = vms_budget_describe_losses(budget);
	g_assert_nonnull(losses);
	g_assert_true(g_str_has_prefix(losses, "program: more than "));
	vms_binary_unref(second);
	g_assert_cmpuint(vms_budget_spent(budget, VMS_BUDGET_BYTES), ==, 0);
}

/* Twice as many reads of the same functions cost twice as many steps, which are counted. */
static void test_steps(void)
{
	uint64_t steps[2];
	for (unsigned i = 0; i < G_N_ELEMENTS(steps); i++) {
		g_autoptr(vms_budget) budget = vms_budget_new(NULL, NULL);
		for (unsigned n = 0; n < 1 + i; n++) {
			g_autoptr(vms_binary) binary = open_on_budget(budget);
			g_assert_cmpuint(vms_symbol_table_count(vms_binary_functions(binary)), >,
					 100);
		}
		steps[i] = vms_budget_spent(budget, VMS_BUDGET_STEPS);
	}
	g_assert_cmpuint(steps[0], >, 1000);
	g_assert_cmpuint(steps[1], ==, 2 * steps[0]);
}

static void test_present(void)
{
	uint8_t *bytes = g_malloc(3 * VMS_FILE_BLOCK), buf[2 * VMS_FILE_BLOCK], has[3];
	memset(bytes, 7, 3 * VMS_FILE_BLOCK);
	struct holes holes = { .whole = vms_file_source_of_memory(bytes, 3 * VMS_FILE_BLOCK),
			       .begin = VMS_FILE_BLOCK,
			       .end = VMS_FILE_BLOCK + 1 };
	const struct vms_file_source source = { holes.whole.size, read_around_holes, NULL, &holes };
	uint64_t first = 0;
	g_assert_cmpuint(vms_file_source_read_present(&source, 100, buf, sizeof(buf), has, &first),
			 ==, 1);
	g_assert_cmpuint(first, ==, VMS_FILE_BLOCK);
	g_assert_true(has[0] && !has[1] && has[2]);
	g_assert_cmpuint(buf[0], ==, 7);
	g_assert_cmpuint(buf[VMS_FILE_BLOCK], ==, 0);
	g_assert_cmpuint(buf[2 * VMS_FILE_BLOCK - 1], ==, 7);
	vms_file_source_clear(&holes.whole);
}

/* ---- names ------------------------------------------------------------ */

static void test_demangle(void)
{
	static const struct {
		const char *name, *readable;
	} names[] = {
		{ "_ZN3foo3barEi", "foo::bar(int)" },
		{ "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
		  "core::fmt::Write::write_fmt" },
		{ "_ZN50_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$"
		  "4into17h0123456789abcdefE",
		  "<T as core::convert::Into<U>>::into" },
		{ "_ZN2rt5start28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE.llvm."
		  "2528400095833",
		  "rt::start::{{closure}}" },
		{ "_ZN1a1f17h0123456789abcdefE.cold.1", "a::f" },
		{ "_Z3foov.isra.0.cold", "foo() [clone .isra.0] [clone .cold]" },
		{ "main", NULL },
		{ "_Z", NULL },
		{ "_ZN3foo", NULL },
	};
	size_t budget = BUDGET;
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autofree char *readable = vms_demangle(names[i].name, &budget);
		g_assert_cmpstr(readable, ==, names[i].readable);
	}
	budget = 3;
	g_assert_null(vms_demangle("_ZN3foo3barEi", &budget));
}

/* As c++filt reads them, without hashes and types of constants; most are of RFC 2603 and rustc. */
static void test_demangle_rust(void)
{
	static const struct {
		const char *name, *readable;
	} names[] = {
		{ "_RNvC6_123foo3bar", "123foo::bar" },
		{ "_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function" },
		{ "_RNvCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
		  "utf8_idents::საჭმელად_გემრიელი_სადილი" },
		{ "_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}" },
		{ "_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_"
		  "4iter8iterator8Iterator9rpositionNCNgNpB9_6memchr7memrchrs_0E0Bb_",
		  "<core::slice::Iter<u8> as "
		  "core::iter::iterator::Iterator>::rposition::<core::slice::memchr::memrchr::{"
		  "closure#1}>::{closure#0}" },
		{ "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_"
		  "ECs1iopQbuBiw2_3std",
		  "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>" },
		{ "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
		  "<std::path::PathBuf>::new" },
		{ "_RNvXs_Cs1234_7mycrateNtB4_3FooNtNtCs5_4core3fmt5Debug3fmt",
		  "<mycrate::Foo as core::fmt::Debug>::fmt" },
		{ "_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>" },
		{ "_RNvYNtC4main3FooNtC4main3Bar3baz", "<main::Foo as main::Bar>::baz" },
		{ "_RINvC1a1fKj7b_E", "a::f::<123>" },
		{ "_RINvC1a1fKb1_Kc76_Kin5_E", "a::f::<true, 'v', -5>" },
		{ "_RINvC1a1fRL_eQL0_hE", NULL },
		{ "_RINvC1a1fFG_RL0_hRL1_tEuE", NULL },
		{ "_RINvC1a1fFUKCjEmE", "a::f::<unsafe extern \"C\" fn(usize) -> u32>" },
		{ "_RINvC1a1fDNtC1b1TEL_E", "a::f::<dyn b::T>" },
		{ "_RINvC1a1fTjETjhEE", "a::f::<(usize,), (usize, u8)>" },
		{ "_RINvC1a1fAjj4_SePhOiE", "a::f::<[usize; 4], [str], *const u8, *mut isize>" },
		{ "_RNvC1a1f.llvm.123", "a::f" },
		{ "_RNvNtNtNtC1a1b1c1d1e", "a::b::c::d::e" },
		{ "_RNCNvC1a1f0", "a::f::{closure#0}" },
		{ "_RNSNvC1a1f4dropB3_", "a::f::{shim:drop#0}" },
		{ "_RINvC1a1fDG_INtC1b1TRL0_hEp1OjEL_E",
		  "a::f::<dyn for<'a> b::T<&'a u8, O = usize>>" },
		{ "_RINvC1a1fpE", "a::f::<_>" },
		{ "_RINvC1a1fzvE", "a::f::<!, ...>" },
		{ "_R", NULL },
		{ "_RNvC1a", NULL },
		{ "_RNvC9a1b", NULL },
		{ "_RB_", NULL },
	};
	size_t budget = BUDGET;
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autofree char *readable = vms_demangle(names[i].name, &budget);
		g_assert_cmpstr(readable, ==, names[i].readable);
	}
}

/* Each argument of the type is the one before, twice. */
static void test_demangle_rust_bomb(void)
{
	g_autoptr(GString) name = g_string_new("_RINvC1a1fTuuE");
	size_t budget = BUDGET;
	for (unsigned i = 0, last = 8; i < 30; i++) {
		const char digits[] =
			"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
		g_autofree char *back = last - 1 < 62
						? g_strdup_printf("B%c_", digits[last - 1])
						: g_strdup_printf("B%c%c_", digits[(last - 1) / 62],
								  digits[(last - 1) % 62]);
		last = (unsigned)name->len - 2;
		g_string_append_printf(name, "T%s%sE", back, back);
	}
	g_string_append(name, "E");
	g_assert_null(vms_demangle(name->str, &budget));
}

/* Each argument holds the one before twice. */
static void test_demangle_bomb(void)
{
	g_autoptr(GString) name = g_string_new("_Z1fI1AIiiE");
	size_t budget = BUDGET;
	for (unsigned i = 0; i < 60; i++)
		g_string_append_printf(name, "S_IS%X_S%X_E", i, i);
	g_string_append(name, "EvT_");
	g_assert_null(vms_demangle(name->str, &budget));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/binary/own-program", test_own_program);
	g_test_add_func("/binary/two-names", test_two_names);
	g_test_add_func("/binary/labels", test_labels);
	g_test_add_func("/binary/versions", test_versions);
	g_test_add_func("/binary/library", test_library);
	g_test_add_func("/binary/plt", test_plt);
	g_test_add_func("/binary/holes", test_holes);
	g_test_add_func("/binary/late", test_late);
	g_test_add_func("/binary/late-without-functions", test_late_without_functions);
	g_test_add_func("/binary/late-for-ever", test_late_for_ever);
	g_test_add_func("/binary/budget", test_budget);
	g_test_add_func("/binary/steps", test_steps);
	g_test_add_func("/binary/present", test_present);
	g_test_add_func("/binary/demangle", test_demangle);
	g_test_add_func("/binary/demangle-bomb", test_demangle_bomb);
	g_test_add_func("/binary/demangle-rust", test_demangle_rust);
	g_test_add_func("/binary/demangle-rust-bomb", test_demangle_rust_bomb);
	return g_test_run();
}
