/* SPDX-License-Identifier: MIT */
#include "guest/linux/list.h"
#include "fake_machine.h"

#define BASE   UINT64_C(0xffff888000000000)
#define LIMIT  100
#define MEMORY 4096 /* bytes */

static struct vms_machine *machine;
static struct vms_memory *memory;
static unsigned visited[2 * LIMIT]; /* the nodes of the last walk, in its order */
static unsigned n_visited;
static unsigned refused; /* a node that is none */

static void link_node(unsigned from, unsigned to)
{
	fake_machine_write_u64(machine, BASE + from * 16, BASE + to * 16);
	if (to < MEMORY / 16)
		fake_machine_write_u64(machine, BASE + to * 16 + 8, BASE + from * 16);
}

static bool visit(uint64_t node, void *data)
{
	unsigned number = (unsigned)(node - BASE) / 16;
	g_assert_true(data == &refused);
	if (number == refused)
		return false;
	for (unsigned i = 0; i < n_visited; i++)
		g_assert_cmpuint(visited[i], !=, number);
	g_assert_cmpuint(n_visited, <, LIMIT);
	visited[n_visited++] = number;
	return true;
}

/* Walks from node 0; the number of other nodes, or the error's code as a negative number. */
static int walk(void)
{
	g_autoptr(GError) error = NULL;
	const struct vms_list list = { memory, "list of the test", BASE, LIMIT };
	n_visited = 0;
	bool walked = vms_list_walk(&list, visit, &refused, &error);
	g_assert_true(walked == !error);
	if (error)
		g_assert_nonnull(strstr(error->message, "list of the test"));
	return error ? -error->code : (int)n_visited;
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
			fake_machine_write_u64(machine, BASE + 8, BASE); /* not found backwards */
			g_assert_cmpint(walk(), ==, -VMS_ERROR_MALFORMED);
			g_assert_cmpuint(n_visited, ==, last);
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

/* The nodes 1 to 9, of which the one at `at` leads to `wrong`, are all visited but that. */
static void assert_damage(unsigned at, uint64_t wrong, int code)
{
	for (unsigned i = 0; i < 10; i++)
		link_node(i, (i + 1) % 10);
	fake_machine_write_u64(machine, BASE + at * 16, wrong);
	g_assert_cmpint(walk(), ==, -code);
	g_assert_cmpuint(n_visited, ==, 9);
	for (unsigned i = 0; i < 9; i++)
		g_assert_cmpuint(visited[i], ==, i < at ? i + 1 : 9 - (i - at));
}

static void test_damage(void)
{
	for (unsigned at = 1; at < 9; at++) {
		assert_damage(at, BASE + at * 16, VMS_ERROR_MALFORMED); /* itself */
		assert_damage(at, BASE + 16, VMS_ERROR_MALFORMED);
		refused = 11;
		assert_damage(at, BASE + 11 * 16, VMS_ERROR_UNREADABLE);
		refused = 0;
	}
	/* A node that is none, in a list that is whole: all others are visited. */
	for (unsigned i = 0; i < 10; i++)
		link_node(i, (i + 1) % 10);
	refused = 4;
	g_assert_cmpint(walk(), ==, -VMS_ERROR_UNREADABLE);
	g_assert_cmpuint(n_visited, ==, 8);
	refused = 0;
}

int main(int argc, char **argv)
{
	const struct vms_regs regs = { 0 };
	g_test_init(&argc, &argv, NULL);
	machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(machine, BASE, MEMORY);
	memory = vms_memory_new(machine, &regs);
	g_test_add_func("/list/walk", test_walk);
	g_test_add_func("/list/circles", test_circles);
	g_test_add_func("/list/damage", test_damage);
	g_test_add_func("/list/limit", test_limit);
	g_test_add_func("/list/unreadable", test_unreadable);
	int status = g_test_run();
	vms_memory_free(memory);
	vms_machine_unref(machine);
	return status;
}
