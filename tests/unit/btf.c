/* SPDX-License-Identifier: MIT */
/*
 * BTF: against the compiler's own encoder where it has one (the types of btf-types.c, whose true
 * offsets offsetof() tells), and with blobs built by hand, hostile ones too.
 */
#include "guest/linux/btf.h"
#include "btf-types.h"
#include "btf_encoder.h"
#include "self_section.h"
#include <stddef.h>

static struct vms_btf *load(GByteArray *blob)
{
	GError *error = NULL;
	struct vms_btf *btf = vms_btf_new((struct vms_bytes) { blob->data, blob->len }, &error);
	g_assert_no_error(error);
	g_byte_array_unref(blob);
	return btf;
}

static void assert_malformed(const uint8_t *data, size_t size)
{
	g_autoptr(GError) error = NULL;
	/* An exact copy, so that a sanitizer sees every byte read beyond it. */
	g_autofree uint8_t *copy = g_memdup2(data, size);
	g_assert_null(vms_btf_new((struct vms_bytes) { copy, size }, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
}

/* ---- tests ------------------------------------------------------------ */

static void test_members(void)
{
	struct encoder e = encoder_new();
	uint32_t u32 = put_type(&e, "u32", INT, 0, false, 4);
	put(&e, 32);
	uint32_t array = put_type(&e, "", ARRAY, 0, false, 0);
	put(&e, u32), put(&e, u32), put(&e, 6);
	uint32_t alias = put_type(&e, "word", TYPEDEF, 0, false, u32);
	uint32_t constant = put_type(&e, "", CONST, 0, false, alias);
	uint32_t inner = put_type(&e, "inner", STRUCT, 2, false, 16);
	put_member(&e, "a", constant, 0);
	put_member(&e, "b", constant, 96);
	uint32_t nameless = put_type(&e, "", UNION, 2, false, 24);
	put_member(&e, "many", array, 0);
	put_member(&e, "in", inner, 0);
	uint32_t pointer = put_type(&e, "", PTR, 0, false, inner);
	put_type(&e, "outer", STRUCT, 3, true, 48);
	put_member(&e, "flag", u32, 3u << 24 | 13);
	put_member(&e, "", nameless, 64);
	put_member(&e, "next", pointer, 256);
	struct vms_btf *btf = load(finish(&e));

	struct vms_btf_member member;
	g_assert_true(vms_btf_member(btf, "outer", "flag", &member));
	g_assert_cmpuint(member.offset, ==, 1);
	g_assert_cmpuint(member.bit_offset, ==, 5);
	g_assert_cmpuint(member.bits, ==, 3);
	g_assert_true(vms_btf_member(btf, "outer", "many", &member));
	g_assert_cmpuint(member.offset, ==, 8);
	g_assert_cmpuint(member.size, ==, 24);
	g_assert_cmpuint(member.bits, ==, 0);
	g_assert_true(vms_btf_member(btf, "outer", "in.b", &member));
	g_assert_cmpuint(member.offset, ==, 20);
	g_assert_cmpuint(member.size, ==, 4);
	g_assert_true(vms_btf_member(btf, "outer", "next", &member));
	g_assert_cmpuint(member.offset, ==, 32);
	g_assert_cmpuint(member.size, ==, 8);
	g_assert_false(vms_btf_member(btf, "outer", "next.a", &member));
	g_assert_false(vms_btf_member(btf, "outer", "missing", &member));
	g_assert_false(vms_btf_member(btf, "missing", "flag", &member));
	g_assert_false(vms_btf_member(btf, "word", "flag", &member));
	uint64_t size;
	g_assert_true(vms_btf_size(btf, "inner", &size));
	g_assert_cmpuint(size, ==, 16);
	g_assert_false(vms_btf_size(btf, "word", &size));
	vms_btf_free(btf);
}

static void test_structure_before_typedef(void)
{
	struct encoder e = encoder_new();
	uint32_t a = put_type(&e, "a", STRUCT, 0, false, 1);
	put_type(&e, "b", TYPEDEF, 0, false, a);
	put_type(&e, "b", STRUCT, 0, false, 2);
	put_type(&e, "b", STRUCT, 0, false, 3);
	put_type(&e, "c", TYPEDEF, 0, false, a);
	struct vms_btf *btf = load(finish(&e));
	uint64_t size;
	g_assert_true(vms_btf_size(btf, "b", &size));
	g_assert_cmpuint(size, ==, 2);
	g_assert_true(vms_btf_size(btf, "c", &size));
	g_assert_cmpuint(size, ==, 1);
	vms_btf_free(btf);
}

static void test_enumerators(void)
{
	struct encoder e = encoder_new();
	put_type(&e, "few", ENUM, 2, true, 4);
	put(&e, name_offset(&e, "MINUS")), put(&e, (uint32_t)-7);
	put(&e, name_offset(&e, "FIVE")), put(&e, 5);
	put_type(&e, "large", ENUM64, 1, false, 8);
	put(&e, name_offset(&e, "LARGE")), put(&e, 2), put(&e, 1);
	struct vms_btf *btf = load(finish(&e));
	int64_t value;
	g_assert_true(vms_btf_enumerator(btf, "MINUS", &value));
	g_assert_cmpint(value, ==, -7);
	g_assert_true(vms_btf_enumerator(btf, "FIVE", &value));
	g_assert_cmpint(value, ==, 5);
	g_assert_true(vms_btf_enumerator(btf, "LARGE", &value));
	g_assert_cmpint(value, ==, 0x100000002);
	g_assert_false(vms_btf_enumerator(btf, "few", &value));
	vms_btf_free(btf);
}

static void test_percpu(void)
{
	struct encoder e = encoder_new();
	uint32_t u32 = put_type(&e, "u32", INT, 0, false, 4);
	put(&e, 32);
	uint32_t number = put_variable(&e, "cpu_number", u32);
	uint32_t other = put_variable(&e, "elsewhere", u32);
	uint32_t bases = put_variable(&e, "hrtimer_bases", u32);
	put_variable(&e, "nowhere", u32);
	put_type(&e, ".data", DATASEC, 1, false, 4);
	put_place(&e, other, 8, 4);
	put_type(&e, ".data..percpu", DATASEC, 2, false, 0x5404);
	put_place(&e, number, 8, 4);
	put_place(&e, bases, 0x5400, 4);
	struct vms_btf *btf = load(finish(&e));
	uint64_t offset;
	g_assert_true(vms_btf_percpu(btf, "cpu_number", &offset));
	g_assert_cmpuint(offset, ==, 8);
	g_assert_true(vms_btf_percpu(btf, "hrtimer_bases", &offset));
	g_assert_cmpuint(offset, ==, 0x5400);
	g_assert_false(vms_btf_percpu(btf, "elsewhere", &offset));
	g_assert_false(vms_btf_percpu(btf, "nowhere", &offset));
	g_assert_false(vms_btf_percpu(btf, "u32", &offset));
	vms_btf_free(btf);
}

/* A section of what are no variables, of itself, and of types that are not there. */
static void test_bad_percpu(void)
{
	struct encoder e = encoder_new();
	uint32_t structure = put_type(&e, "cpu_number", STRUCT, 0, false, 4);
	uint32_t variable = put_variable(&e, "late", structure);
	put_type(&e, ".data..percpu", DATASEC, 5, false, 4);
	put_place(&e, 0, 1, 4);
	put_place(&e, structure, 2, 4);
	put_place(&e, variable + 1, 3, 4);
	put_place(&e, UINT32_MAX, 4, 4);
	put_place(&e, variable, UINT32_MAX, UINT32_MAX);
	struct vms_btf *btf = load(finish(&e));
	uint64_t offset;
	g_assert_false(vms_btf_percpu(btf, "cpu_number", &offset));
	g_assert_false(vms_btf_percpu(btf, ".data..percpu", &offset));
	g_assert_false(vms_btf_percpu(btf, "", &offset));
	g_assert_true(vms_btf_percpu(btf, "late", &offset));
	g_assert_cmpuint(offset, ==, UINT32_MAX);
	vms_btf_free(btf);
}

/* Typedefs in a circle, an array of itself, an anonymous structure in itself. */
static void test_cycles(void)
{
	struct encoder e = encoder_new();
	put_type(&e, "x", TYPEDEF, 0, false, 2);
	put_type(&e, "y", TYPEDEF, 0, false, 1);
	put_type(&e, "", ARRAY, 0, false, 0);
	put(&e, 3), put(&e, 3), put(&e, 2);
	put_type(&e, "self", STRUCT, 1000, false, 8);
	for (unsigned i = 0; i < 1000; i++)
		put_member(&e, "", 4, 0);
	put_type(&e, "s", STRUCT, 2, false, 8);
	put_member(&e, "m", 1, 0);
	put_member(&e, "n", 3, 0);
	struct vms_btf *btf = load(finish(&e));
	uint64_t size;
	struct vms_btf_member member;
	g_assert_false(vms_btf_size(btf, "x", &size));
	g_assert_false(vms_btf_member(btf, "self", "m", &member));
	g_assert_false(vms_btf_member(btf, "s", "m.m", &member));
	g_assert_true(vms_btf_member(btf, "s", "n", &member));
	g_assert_cmpuint(member.size, ==, 0);
	vms_btf_free(btf);
}

/* Type numbers that name nothing, sizes whose product does not fit. */
/* An array of itself has no size; names are as long as the kernel's may be, and no longer. */
static void test_limits(void)
{
	enum { LONGEST = 127 };
	const size_t largest = 64 << 20;
	struct encoder e = encoder_new();
	struct vms_btf_member member;
	g_autofree char *longest = g_strnfill(LONGEST, 'x'), *longer = g_strnfill(LONGEST + 1, 'x');
	uint32_t self = put_type(&e, "", ARRAY, 0, false, 0);
	put(&e, self), put(&e, self), put(&e, 1);
	put_type(&e, "looped", STRUCT, 3, false, 16);
	put_member(&e, "array", self, 0);
	put_member(&e, longest, self, 0);
	put_member(&e, longer, self, 0);
	put_type(&e, longest, STRUCT, 0, false, 4);
	put_type(&e, longer, STRUCT, 0, false, 4);
	g_autoptr(GByteArray) blob = finish(&e);
	guint end = blob->len;
	g_byte_array_set_size(blob, (guint)largest + 1);
	memset(blob->data + end, 0, blob->len - end);
	for (unsigned more = 0; more < 2; more++) {
		uint64_t size;
		struct vms_btf *btf =
			vms_btf_new((struct vms_bytes) { blob->data, largest + more }, NULL);
		g_assert_true((btf == NULL) == (more == 1));
		if (!btf)
			continue;
		g_assert_true(vms_btf_member(btf, "looped", "array", &member));
		g_assert_cmpuint(member.size, ==, 0);
		g_assert_true(vms_btf_member(btf, "looped", longest, &member));
		g_assert_false(vms_btf_member(btf, "looped", longer, &member));
		g_assert_true(vms_btf_size(btf, longest, &size));
		g_assert_false(vms_btf_size(btf, longer, &size));
		vms_btf_free(btf);
	}
}

static void test_bad_numbers(void)
{
	struct encoder e = encoder_new();
	put_type(&e, "", ARRAY, 0, false, 0);
	put(&e, 3), put(&e, 3), put(&e, UINT32_MAX);
	put_type(&e, "", ARRAY, 0, false, 0);
	put(&e, 1), put(&e, 3), put(&e, UINT32_MAX);
	put_type(&e, "int", INT, 0, false, UINT32_MAX);
	put(&e, 32);
	put_type(&e, "s", STRUCT, 2, false, 8);
	put_member(&e, "wild", 1000000, 0);
	put_member(&e, "huge", 2, UINT32_MAX);
	put_type(&e, "dangling", TYPEDEF, 0, false, UINT32_MAX);
	struct vms_btf *btf = load(finish(&e));
	struct vms_btf_member member;
	uint64_t size;
	g_assert_true(vms_btf_member(btf, "s", "wild", &member));
	g_assert_cmpuint(member.size, ==, 0);
	g_assert_true(vms_btf_member(btf, "s", "huge", &member));
	g_assert_cmpuint(member.size, ==, 0);
	g_assert_false(vms_btf_member(btf, "s", "wild.x", &member));
	g_assert_false(vms_btf_size(btf, "dangling", &size));
	vms_btf_free(btf);
}

static void test_malformed(void)
{
	struct encoder e = encoder_new();
	put_type(&e, "s", STRUCT, 1, false, 8);
	put_member(&e, "m", 1, 0);
	GByteArray *blob = finish(&e);
	for (guint size = 0; size < blob->len; size++)
		assert_malformed(blob->data, size);
	const struct {
		guint at;
		uint8_t value;
	} damage[] = {
		{ 0, 0 },    /* magic */
		{ 4, 23 },   /* a header too short */
		{ 7, 0xff }, /* … and too long */
		{ 11, 0xff },
		{ 15, 0xff },
		{ 19, 0xff },
		{ 23, 0xff }, /* sections outside */
		{ 12, 23 },   /* the members cut off */
		{ 31, 31 },   /* unknown kind */
		{ 31, 0 },
		{ 29, 0xff },		/* more members than there are bytes */
		{ blob->len - 1, 'x' }, /* the last string does not end */
	};
	for (size_t i = 0; i < G_N_ELEMENTS(damage); i++) {
		uint8_t saved = blob->data[damage[i].at];
		blob->data[damage[i].at] = damage[i].value;
		assert_malformed(blob->data, blob->len);
		blob->data[damage[i].at] = saved;
	}
	vms_btf_free(load(blob));
}

#ifdef HAVE_COMPILER_BTF
/* The .BTF section of this very program, which the compiler has made of btf-types.c. */
static struct vms_btf *load_own(void)
{
	size_t size;
	g_autofree uint8_t *section = self_section(".BTF", &size);
	GError *error = NULL;
	struct vms_btf *btf = vms_btf_new((struct vms_bytes) { section, size }, &error);
	g_assert_no_error(error);
	return btf;
}

static void test_compiler(void)
{
	struct vms_btf *btf = load_own();
	struct vms_btf_member member;
	uint64_t size;
	g_assert_true(vms_btf_size(btf, "sample", &size));
	g_assert_cmpuint(size, ==, sizeof(struct sample));
#define CHECK(path)                                                                                \
	g_assert_true(vms_btf_member(btf, "sample", #path, &member));                              \
	g_assert_cmpuint(member.offset, ==, offsetof(struct sample, path));                        \
	g_assert_cmpuint(member.size, ==, sizeof(((struct sample *)0)->path));                     \
	g_assert_cmpuint(member.bits, ==, 0)
	CHECK(byte);
	CHECK(pointer);
	CHECK(matrix);
	CHECK(nameless_a);
	CHECK(nameless_deep);
	CHECK(named.x);
	CHECK(named.deep.y);
	CHECK(alias.y);
	CHECK(kind);
	CHECK(callback);

#undef CHECK
	g_assert_true(vms_btf_member(btf, "sample", "bits_b", &member));
	g_assert_cmpuint(member.bits, ==, 5);
	struct sample sample = { .bits_b = 31 };
	uint64_t word;
	memcpy(&word, (char *)&sample + member.offset, sizeof(word));
	g_assert_cmpuint(word >> member.bit_offset & 31, ==, 31);
	int64_t value;
	g_assert_true(vms_btf_enumerator(btf, "SAMPLE_MANY", &value));
	g_assert_cmpint(value, ==, SAMPLE_MANY);
	vms_btf_free(btf);
}
#endif

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/btf/members", test_members);
	g_test_add_func("/btf/structure-before-typedef", test_structure_before_typedef);
	g_test_add_func("/btf/enumerators", test_enumerators);
	g_test_add_func("/btf/percpu", test_percpu);
	g_test_add_func("/btf/limits", test_limits);
	g_test_add_func("/btf/bad-percpu", test_bad_percpu);
	g_test_add_func("/btf/cycles", test_cycles);
	g_test_add_func("/btf/bad-numbers", test_bad_numbers);
	g_test_add_func("/btf/malformed", test_malformed);
#ifdef HAVE_COMPILER_BTF
	g_test_add_func("/btf/compiler", test_compiler);
#endif
	return g_test_run();
}
