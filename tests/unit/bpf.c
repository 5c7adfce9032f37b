/* SPDX-License-Identifier: MIT */
/* BPF programs in a kernel's memory laid out by hand, and what the symbolizer is told of them. */
#include "guest/linux/bpf.h"
#include "fake_linux.h"
#include "guest/linux/kernel_code.h"

#define BASE	   UINT64_C(0xffff888000000000)
#define LIST	   BASE
#define TREE	   (BASE + 0x40) /* a counter of the list's changes */
#define KSYM(i)	   (BASE + 0x100 + (i)*UINT64_C(0x100))
#define PROGRAM(i) (UINT64_C(0xffffffffc0000000) + (i)*UINT64_C(0x1000))
#define SIZE	   0x80

enum { START = 0, END = 8, NODE = 16, NAME = 32 };

struct fixture {
	struct vms_machine *machine;
	struct vms_linux *guest;
};

static void set_up(struct fixture *f, const void *data)
{
	static const struct encoder_member counter[] = { { "seq", 0, 4 } };
	static const struct encoder_member node[] = { { "next", 0, 8 }, { "prev", 8, 8 }, { 0 } };
	static const struct encoder_member ksym[] = { { "start", START, 8 },
						      { "end", END, 8 },
						      { "lnode", NODE, 16, node },
						      { "name", NAME, 64 } };
	const bool *is_counted = data;
	const struct fake_symbol symbols[] = { { "bpf_kallsyms", LIST },
					       { *is_counted ? "bpf_tree" : "other", TREE },
					       { NULL, 0 } };
	struct encoder encoder = encoder_new();
	put_structure(&encoder, "latch_tree_root", 8, 1, counter);
	put_structure(&encoder, "bpf_ksym", 96, 4, ksym);
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(f->machine, BASE, 0x1000);
	f->guest = fake_linux_new(f->machine, symbols, finish(&encoder));
}

static void tear_down(struct fixture *f, const void *data G_GNUC_UNUSED)
{
	vms_linux_free(f->guest);
	vms_machine_unref(f->machine);
}

/* The first `n` programs are loaded now, the first one as `name`. */
static void load(struct fixture *f, unsigned n, const char *name)
{
	static uint64_t changes;
	for (unsigned i = 0; i <= n; i++) {
		const uint64_t from = i ? KSYM(i - 1) + NODE : LIST;
		const uint64_t to = i < n ? KSYM(i) + NODE : LIST;
		fake_machine_write_u64(f->machine, from, to);
		fake_machine_write_u64(f->machine, to + 8, from);
		if (i == n)
			break;
		fake_machine_write_u64(f->machine, KSYM(i) + START, PROGRAM(i));
		fake_machine_write_u64(f->machine, KSYM(i) + END, PROGRAM(i) + SIZE);
		g_strlcpy(fake_machine_at(f->machine, KSYM(i) + NAME), i ? "another" : name, 64);
	}
	fake_machine_write_u64(f->machine, TREE, ++changes);
	g_assert_false(vms_linux_refresh_code(f->guest, NULL)); /* it has no modules */
}

static void check(struct fixture *f, uint32_t code, uint64_t va, const char *expected)
{
	struct vms_location location;
	bool known =
		vms_symbolizer_locate(f->guest->symbolizer, VMS_KERNEL_SPACE, code, va, &location);
	g_assert_true(known == (expected != NULL));
	if (!known)
		return;
	g_assert_cmpstr(location.symbol, ==, expected);
	g_assert_cmpstr(location.module, ==, "bpf");
	g_assert_cmphex(location.part, ==, 0);
}

/* Programs that are the same when they are read again have the same number, counted or not. */
static void test_noted(struct fixture *f, const void *data G_GNUC_UNUSED)
{
	load(f, 2, "first");
	check(f, 0, PROGRAM(0) + 1, "first");
	check(f, 0, PROGRAM(1) + SIZE - 1, "another");
	check(f, 0, PROGRAM(0) + SIZE, NULL);
	check(f, 0, PROGRAM(2), NULL);
	const uint32_t noted = vms_symbolizer_note_code(f->guest->symbolizer, PROGRAM(0));
	g_assert_cmpuint(noted, >, 0);
	load(f, 2, "first");
	g_assert_cmpuint(vms_symbolizer_note_code(f->guest->symbolizer, PROGRAM(1)), ==, noted);
	load(f, 3, "first");
	check(f, 0, PROGRAM(2), "another");
	g_assert_cmpuint(vms_symbolizer_note_code(f->guest->symbolizer, PROGRAM(0)), ==, noted + 1);
	load(f, 3, "second");
	check(f, 0, PROGRAM(0), "second");
	check(f, noted, PROGRAM(0), "first");
	load(f, 0, NULL);
	check(f, 0, PROGRAM(0), NULL);
	check(f, noted, PROGRAM(0), "first");
}

int main(int argc, char **argv)
{
	static const bool counted = true, uncounted = false;
	g_test_init(&argc, &argv, NULL);
	g_test_add("/bpf/counted", struct fixture, &counted, set_up, test_noted, tear_down);
	g_test_add("/bpf/uncounted", struct fixture, &uncounted, set_up, test_noted, tear_down);
	return g_test_run();
}
