/* SPDX-License-Identifier: MIT */
/* Guesses of where a guest's memory lies, for what monitors have mapped. */
#include "machine/kvm/areas.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* What a monitor has mapped besides its guest's memory. */
#define OTHERS                                                                                     \
	"55d0c0000000-55d0c0400000 r-xp 00000000 fd:01 1034 /usr/bin/monitor\n"                    \
	"55d0c0400000-55d0c0600000 rw-p 00400000 fd:01 1034 /usr/bin/monitor\n"                    \
	"55d0c2000000-55d0c6000000 rw-p 00000000 00:00 0 [heap]\n"                                 \
	"7f0000000000-7f0000021000 rw-p 00000000 00:00 0\n"                                        \
	"7f0000021000-7f0004000000 ---p 00000000 00:00 0\n"                                        \
	"7ffd00000000-7ffd00800000 rw-p 00000000 00:00 0 [stack]\n"                                \
	"7f5000000000-7f5000003000 rw-s 00000000 00:0f 1037 anon_inode:kvm-vcpu:0\n"               \
	"not a mapping\n"

static bool is_same(const struct vms_kvm_guess *guess, const struct vms_ram_place *places,
		    unsigned n)
{
	return guess->n == n && memcmp(guess->places, places, n * sizeof(*places)) == 0;
}

/* Counts the guesses that are `places`; checks that all are sorted and do not overlap. */
static unsigned count_guesses(const char *maps, const struct vms_ram_place *places, unsigned n)
{
	g_autofree char *text = g_strconcat(OTHERS, maps, NULL);
	g_autoptr(GArray) areas = vms_kvm_list_areas(text);
	g_autoptr(GArray) guesses = vms_kvm_list_guesses(areas);
	unsigned found = 0;
	for (guint i = 0; i < guesses->len; i++) {
		const struct vms_kvm_guess *guess =
			&g_array_index(guesses, struct vms_kvm_guess, i);
		found += is_same(guess, places, n);
		for (unsigned j = 1; j < guess->n; j++)
			g_assert_cmphex(guess->places[j - 1].pa + guess->places[j - 1].size, <=,
					guess->places[j].pa);
	}
	return found;
}

static void test_one_block(void)
{
	const struct vms_ram_place small[] = { { 0, 512 * MIB, 0x7f1000000000 } };
	g_assert_cmpuint(
		count_guesses("7f1000000000-7f1020000000 rw-p 00000000 00:00 0\n", small, 1), ==,
		1);
	/* QEMU's pc with 6 GiB: 3 GiB below 4 GiB. */
	const struct vms_ram_place pc[] = { { 0, 3 * GIB, 0x7f1000000000 },
					    { 4 * GIB, 3 * GIB, 0x7f10c0000000 } };
	g_assert_cmpuint(count_guesses("7f1000000000-7f1180000000 rw-p 00000000 00:00 0\n", pc, 2),
			 ==, 1);
	/* Two mappings of a monitor that the kernel shows as one, the second one first. */
	const struct vms_ram_place reversed[] = { { 0, 3 * GIB, 0x7f1140000000 },
						  { 4 * GIB, 5 * GIB, 0x7f1000000000 } };
	g_assert_cmpuint(
		count_guesses("7f1000000000-7f1200000000 rw-p 00000000 00:00 0\n", reversed, 2), ==,
		1);
}

/* kvmtool: the hole is mapped, and cannot be read. */
static void test_two_mappings(void)
{
	const struct vms_ram_place places[] = { { 0, 0xd0000000, 0x7f1000000000 },
						{ 4 * GIB, GIB, 0x7f1100000000 } };
	g_assert_cmpuint(count_guesses("7f1000000000-7f10d0000000 rw-p 00000000 00:00 0\n"
				       "7f10d0000000-7f1100000000 ---p 00000000 00:00 0\n"
				       "7f1100000000-7f1140000000 rw-p 00000000 00:00 0\n",
				       places, 2),
			 ==, 1);
}

/* Firecracker with vhost-user: one file, its second part mapped below the first. */
static void test_one_file(void)
{
	const struct vms_ram_place places[] = { { 0, 0xc0000000, 0x7f1040000000 },
						{ 4 * GIB, GIB, 0x7f1000000000 } };
	g_assert_cmpuint(count_guesses("7f1000000000-7f1040000000 rw-s c0000000 00:01 2049 "
				       "/memfd:guest_mem (deleted)\n"
				       "7f1040000000-7f1100000000 rw-s 00000000 00:01 2049 "
				       "/memfd:guest_mem (deleted)\n",
				       places, 2),
			 >=, 1);
}

/* A file in more parts than anybody maps. */
static void test_many_parts(void)
{
	g_autoptr(GString) maps = g_string_new(NULL);
	for (unsigned i = 0; i < 100; i++)
		g_string_append_printf(maps,
				       "7f1%03x000000-7f1%03x100000 rw-s %x00000 00:01 2049 /x\n",
				       2 * i, 2 * i, i);
	g_autoptr(GArray) areas = vms_kvm_list_areas(maps->str);
	g_assert_cmpuint(areas->len, ==, 1);
	const struct vms_kvm_area *area = &g_array_index(areas, struct vms_kvm_area, 0);
	g_assert_cmpuint(area->n, ==, VMS_KVM_SEGMENTS_MAX);
	g_assert_cmpuint(area->size, ==, VMS_KVM_SEGMENTS_MAX * MIB);
	g_autoptr(GArray) guesses = vms_kvm_list_guesses(areas);
	g_assert_cmpuint(guesses->len, ==, VMS_KVM_SEGMENTS_MAX);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/kvm-areas/one-block", test_one_block);
	g_test_add_func("/kvm-areas/two-mappings", test_two_mappings);
	g_test_add_func("/kvm-areas/one-file", test_one_file);
	g_test_add_func("/kvm-areas/many-parts", test_many_parts);
	return g_test_run();
}
