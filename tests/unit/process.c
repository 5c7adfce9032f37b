/* SPDX-License-Identifier: MIT */
/* What processes map, in memory laid out by hand: areas in a red-black tree, as before 6.1. */
#include "guest/linux/process.h"
#include "fake_linux.h"

#define BASE	UINT64_C(0xffff888000000000)
#define MM	BASE
#define AREA(i) (BASE + 0x1000 + (i)*UINT64_C(0x40))
#define AREAS	(VMS_AREAS_LIMIT + 64u)
#define RAM	(0x2000 + AREAS * 0x40)
#define PAGE	UINT64_C(0x1000)
#define USER	UINT64_C(0x400000)
#define VM_EXEC 4

/* Where this kernel has the members that it has in memory here. */
enum { VM_START = 0, VM_END = 8, VM_RB = 16, RB_RIGHT = 8, RB_LEFT = 16, VM_FLAGS = 40 };
enum { MAP_COUNT = 0, TOTAL_VM = 8, MM_RB = 16 };

struct fixture {
	struct vms_machine *machine;
	struct vms_linux *guest;
};

/* Integers in a row, of 8 bytes each. */
static uint32_t put_words(struct encoder *e, uint32_t word, const char *name, unsigned n,
			  const char *const *members)
{
	uint32_t type = put_type(e, name, STRUCT, n, false, n * 8);
	for (unsigned i = 0; i < n; i++)
		put_member(e, members[i], word, i * 64);
	return type;
}

static GByteArray *types(void)
{
	static const char *const rb[] = { "parent", "rb_right", "rb_left" };
	static const char *const root[] = { "rb_node" };
	static const char *const path[] = { "mnt", "dentry" };
	static const char *const name[] = { "len", "name" };
	static const char *const vfsmount[] = { "mnt_root" };
	static const char *const mount[] = { "mnt_parent", "mnt_mountpoint", "mnt" };
	struct encoder e = encoder_new();
	uint32_t word = put_type(&e, "u64", INT, 0, false, 8);
	put(&e, 64);
	uint32_t rb_node = put_words(&e, word, "rb_node", 3, rb);
	uint32_t rb_root = put_words(&e, word, "rb_root", 1, root);
	uint32_t file_path = put_words(&e, word, "path", 2, path);
	uint32_t d_name = put_words(&e, word, "qstr", 2, name);
	put_words(&e, word, "vfsmount", 1, vfsmount);
	put_words(&e, word, "mount", 3, mount);
	put_type(&e, "vm_area_struct", STRUCT, 6, false, 64);
	put_member(&e, "vm_start", word, VM_START * 8);
	put_member(&e, "vm_end", word, VM_END * 8);
	put_member(&e, "vm_rb", rb_node, VM_RB * 8);
	put_member(&e, "vm_flags", word, VM_FLAGS * 8);
	put_member(&e, "vm_pgoff", word, 48 * 8);
	put_member(&e, "vm_file", word, 56 * 8);
	put_type(&e, "mm_struct", STRUCT, 6, false, 64);
	put_member(&e, "map_count", word, MAP_COUNT * 8);
	put_member(&e, "total_vm", word, TOTAL_VM * 8);
	put_member(&e, "mm_rb", rb_root, MM_RB * 8);
	put_member(&e, "start_brk", word, 24 * 8);
	put_member(&e, "brk", word, 32 * 8);
	put_member(&e, "start_stack", word, 40 * 8);
	put_type(&e, "file", STRUCT, 1, false, 16);
	put_member(&e, "f_path", file_path, 0);
	put_type(&e, "dentry", STRUCT, 2, false, 24);
	put_member(&e, "d_name", d_name, 0);
	put_member(&e, "d_parent", word, 128);
	return finish(&e);
}

static void write_u64(struct fixture *f, uint64_t va, uint64_t value)
{
	fake_machine_write_u64(f->machine, va, value);
}

/* A balanced tree of the areas [first, end), each of a page; its root's node, 0 for none. */
static uint64_t write_tree(struct fixture *f, unsigned first, unsigned end)
{
	unsigned middle = first + (end - first) / 2;
	if (first == end)
		return 0;
	write_u64(f, AREA(middle) + VM_START, USER + middle * PAGE);
	write_u64(f, AREA(middle) + VM_END, USER + (middle + 1) * PAGE);
	write_u64(f, AREA(middle) + VM_FLAGS, 0);
	write_u64(f, AREA(middle) + VM_RB + RB_LEFT, write_tree(f, first, middle));
	write_u64(f, AREA(middle) + VM_RB + RB_RIGHT, write_tree(f, middle + 1, end));
	return AREA(middle) + VM_RB;
}

static void setup(struct fixture *f, const void *data)
{
	static const struct fake_symbol none[] = { { NULL, 0 } };
	(void)data;
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(f->machine, BASE, RAM);
	f->guest = fake_linux_new(f->machine, none, types());
	f->guest->processes = vms_linux_processes_new(f->guest);
	write_u64(f, MM + MM_RB, write_tree(f, 0, AREAS));
}

static void teardown(struct fixture *f, const void *data)
{
	(void)data;
	vms_linux_free(f->guest);
	vms_machine_unref(f->machine);
}

static void test_code(struct fixture *f, const void *data)
{
	struct vms_mapping mapping;
	unsigned areas = VMS_AREAS_LIMIT;
	(void)data;
	write_u64(f, AREA(3) + VM_FLAGS, VM_EXEC);
	write_u64(f, AREA(5) + VM_FLAGS, VM_EXEC);
	g_assert_true(vms_linux_next_code(f->guest, MM, 0, &areas, &mapping));
	g_assert_cmphex(mapping.start, ==, USER + 3 * PAGE);
	g_assert_cmphex(mapping.end, ==, USER + 4 * PAGE);
	g_assert_true(vms_linux_next_code(f->guest, MM, mapping.end, &areas, &mapping));
	g_assert_cmphex(mapping.start, ==, USER + 5 * PAGE);
	g_assert_cmpuint(areas, ==, VMS_AREAS_LIMIT - 4);
}

/* A list of all code does not look at more areas than a process can have, however it is asked. */
static void test_many_areas(struct fixture *f, const void *data)
{
	(void)data;
	for (unsigned more = 0; more < 2; more++) {
		struct vms_mapping mapping = { 0 };
		unsigned areas = VMS_AREAS_LIMIT, n = 0;
		write_tree(f, 0, AREAS);
		write_u64(f, AREA(7) + VM_FLAGS, VM_EXEC);
		write_u64(f, AREA(VMS_AREAS_LIMIT + more) + VM_FLAGS, VM_EXEC);
		while (vms_linux_next_code(f->guest, MM, mapping.end, &areas, &mapping))
			n++;
		g_assert_cmpuint(n, ==, more ? 1 : 2);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(path, test) g_test_add(path, struct fixture, NULL, setup, test, teardown)
	ADD("/process/code", test_code);
	ADD("/process/many-areas", test_many_areas);
	return g_test_run();
}
