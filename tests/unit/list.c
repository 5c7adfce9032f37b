/* SPDX-License-Identifier: MIT */
#include "guest/linux/list.h"
#include "fake_machine.h"

#define BASE  UINT64_C(0xffff888000000000)
#define LIMIT 100

static struct vms_machine *machine;
static struct vms_memory *memory;
static unsigned walked; /* nodes of the last walk */

static void link_node(unsigned from, unsigned to)
{
	fake_machine_write_u64(machine, BASE + from * 16, BASE + to * 16);
}

/* Walks from node 0; the number of other nodes, or the error's code as a negative number. */
static int walk(void)
{
	g_autoptr(GError) error = NULL;
	struct vms_list list;
	uint64_t node;
	int n = 0;
	vms_list_begin(&list, memory, BASE, LIMIT, "list of the test");
	for (; vms_list_next(&list, &node, &error); n++)
		g_assert_cmpint(n, <, LIMIT);
	if (error)
		g_assert_nonnull(strstr(error->message, "list of the test"));
	walked = (unsigned)n;
	return error ? -error->code : n;
}

static void test_walk(void)
{
	link_node(0, 0);
	g_assert_cmpint(walk(), ==, 0);
	link_node(0, 3), link_node(3, 1), link_node(1, 2), link_node(2, 0);
	g_assert_cmpint(walk(), ==, 3);
}

/* Circles of every length, entered after every number of nodes, that leave out the head. */
static void test_circles(void)
{
	for (unsigned before = 0; before < 20; before++) {
		for (unsigned length = 1; length < 20; length++) {
			unsigned last = before + length;
			for (unsigned i = 0; i < last; i++)
				link_node(i, i + 1);
			link_node(last, before + 1);
			g_assert_cmpint(walk(), ==, -VMS_ERROR_MALFORMED);
			g_assert_cmpuint(walked, <=, MIN(LIMIT, 3 * (last + 1)));
		}
	}
}

static void test_limit(void)
{
	for (unsigned i = 0; i < LIMIT; i++)
		link_node(i, i + 1);
	link_node(LIMIT, 0);
	g_assert_cmpint(walk(), ==, LIMIT);
	link_node(LIMIT, LIMIT + 1), link_node(LIMIT + 1, 0);
	g_assert_cmpint(walk(), ==, -VMS_ERROR_MALFORMED);
}

static void test_unreadable(void)
{
	link_node(0, 1), link_node(1, 1000000);
	g_assert_cmpint(walk(), ==, -VMS_ERROR_UNREADABLE);
}

int main(int argc, char **argv)
{
	const struct vms_regs regs = { 0 };
	g_test_init(&argc, &argv, NULL);
	machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(machine, BASE, 4096);
	memory = vms_memory_new(machine, &regs);
	g_test_add_func("/list/walk", test_walk);
	g_test_add_func("/list/circles", test_circles);
	g_test_add_func("/list/limit", test_limit);
	g_test_add_func("/list/unreadable", test_unreadable);
	int status = g_test_run();
	vms_memory_free(memory);
	vms_machine_unref(machine);
	return status;
}
