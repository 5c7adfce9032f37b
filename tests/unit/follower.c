/* SPDX-License-Identifier: MIT */
/* A guest that boots, loads code and is reset, and what its follower tells of that. */
#include "guest/follower.h"
#include "fake_guest.h"
#include "fake_machine.h"
#include "self_file.h"

#define TEXT UINT64_C(0xffffffffc0000000)

struct fixture {
	struct vms_machine *machine;
	struct vms_guest *guest;
	struct vms_symbol_table *symbols; /* of any module */
	uint64_t resets;
	GMutex lock;
	struct vms_guest_follower follower;
};

static uint64_t get_resets(void *data)
{
	return ((struct fixture *)data)->resets;
}

static void set_up(struct fixture *f, enum vms_guest_kind kind)
{
	*f = (struct fixture) { .machine = fake_machine_new(&vms_arch_x86_64, 1) };
	fake_machine_set_hooks(f->machine,
			       &(struct fake_hooks) { .resets = get_resets, .data = f });
	f->guest = fake_guest_new(f->machine, kind);
	f->symbols = vms_symbol_table_new("");
	vms_symbol_table_finish(f->symbols, 0);
	g_mutex_init(&f->lock);
	vms_guest_follower_init(&f->follower, f->guest, &f->lock);
}

static void tear_down(struct fixture *f)
{
	g_assert_true(g_mutex_trylock(&f->lock)); /* it was given back */
	g_mutex_unlock(&f->lock);
	g_mutex_clear(&f->lock);
	vms_symbol_table_unref(f->symbols);
	vms_guest_unref(f->guest);
	vms_machine_unref(f->machine);
}

static void load(struct fixture *f, struct vms_guest *guest, const char *name)
{
	fake_guest_add_module(guest, name, TEXT, 0x1000, f->symbols);
}

/* A kernel is found next; `*begins` becomes true meanwhile. */
static void find(struct fixture *f, bool *begins)
{
	fake_guest_find(fake_guest_new(f->machine, VMS_GUEST_LINUX), begins);
}

/* Looks as if the times that it waits for had passed. */
static bool follow_later(struct fixture *f, unsigned signs)
{
	f->follower.next_look_ns = f->follower.refreshed_ns = 0;
	return vms_guest_follow(&f->follower, signs);
}

/* Nothing is told twice, nor what has not changed. */
static void test_code(void)
{
	struct fixture f;
	set_up(&f, VMS_GUEST_LINUX);
	unsigned refreshes = fake_guest_refreshes(f.guest);
	g_assert_cmpuint(refreshes, ==, 1);
	g_assert_false(follow_later(&f, VMS_GUEST_GOES_ON));
	g_assert_cmpuint(fake_guest_refreshes(f.guest), ==, refreshes + 1);
	g_assert_false(vms_guest_follow(&f.follower, VMS_GUEST_GOES_ON)); /* not yet */
	g_assert_cmpuint(fake_guest_refreshes(f.guest), ==, refreshes + 1);
	g_assert_false(follow_later(&f, 0)); /* not unless it asks */
	g_assert_cmpuint(fake_guest_refreshes(f.guest), ==, refreshes + 1);
	g_assert_false(vms_guest_follow(&f.follower, VMS_GUEST_ASKS));
	g_assert_cmpuint(fake_guest_refreshes(f.guest), ==, refreshes + 2);
	g_assert_cmpuint(fake_guest_table_follows(f.guest), ==, 0);
	tear_down(&f);
}

static void test_refresh(void)
{
	struct fixture f;
	set_up(&f, VMS_GUEST_NONE);
	g_assert_cmpint(vms_guest_refresh(f.guest, NULL), ==, VMS_GUEST_NO_NEWS);
	g_assert_cmpuint(fake_guest_refreshes(f.guest), ==, 0);
	fake_guest_boot(f.guest, true);
	g_assert_cmpint(vms_guest_refresh(f.guest, NULL), ==, VMS_GUEST_NEW_KERNEL);
	g_assert_cmpint(vms_guest_refresh(f.guest, NULL), ==, VMS_GUEST_NO_NEWS);
	fake_guest_load_later(f.guest, "later", TEXT, 0x1000, f.symbols);
	g_assert_cmpint(vms_guest_refresh(f.guest, NULL), ==, VMS_GUEST_NEW_CODE);
	g_assert_cmpint(vms_guest_refresh(f.guest, NULL), ==, VMS_GUEST_NO_NEWS);
	tear_down(&f);
}

/* A kernel that lacks something is looked at again when it runs programs, until all is there. */
static void test_boot(void)
{
	struct fixture f;
	set_up(&f, VMS_GUEST_NONE);
	g_assert_false(vms_guest_follow(&f.follower, VMS_GUEST_GOES_ON));
	fake_guest_boot(f.guest, false);
	g_assert_true(vms_guest_follow(&f.follower, VMS_GUEST_GOES_ON));
	g_assert_false(f.follower.is_settled);
	g_assert_false(follow_later(&f, VMS_GUEST_GOES_ON)); /* it runs no programs yet */
	g_assert_cmpuint(fake_guest_table_follows(f.guest), ==, 1);

	struct self_file lines;
	struct vms_symbol_file *file = self_file_open(TEXT, &lines);
	struct vms_location location;
	g_assert_true(vms_guest_add_symbols(f.guest, file, &lines.base, NULL));
	struct vms_guest *whole = fake_guest_new(f.machine, VMS_GUEST_LINUX);
	fake_guest_add_symbol(whole, "do_work", NULL, TEXT - 0x100, 0x100);
	load(&f, whole, "late");
	fake_guest_find(whole, NULL);
	f.follower.runs_programs = true;
	g_assert_true(follow_later(&f, VMS_GUEST_GOES_ON));
	g_assert_true(f.follower.is_settled);
	size_t n;
	g_assert_nonnull(vms_guest_modules(f.guest, &n));
	g_assert_cmpuint(n, ==, 1);
	/* The names are the new kernel's, and the symbol file is there as before. */
	g_assert_true(vms_guest_locate(f.guest, NULL, TEXT - 1, &location));
	g_assert_cmpstr(location.symbol, ==, "do_work");
	g_assert_true(vms_guest_locate(f.guest, NULL, TEXT, &location));
	g_assert_cmpstr(location.symbol, ==, "two_lines");
	g_assert_false(follow_later(&f, VMS_GUEST_GOES_ON)); /* the modules, and these are known */
	tear_down(&f);
}

/* Of all resets each is told once, and what is in memory is not believed before programs run. */
static void test_reset(void)
{
	struct fixture f;
	set_up(&f, VMS_GUEST_LINUX);
	g_assert_false(vms_guest_follower_was_reset(&f.follower));
	f.resets++;
	g_assert_true(vms_guest_follower_was_reset(&f.follower));
	g_assert_false(vms_guest_follower_was_reset(&f.follower));
	unsigned refreshes = fake_guest_refreshes(f.guest);
	g_assert_false(follow_later(&f, 0)); /* nothing is found */
	f.resets++;
	g_assert_true(vms_guest_follower_was_reset(&f.follower));
	g_assert_false(vms_guest_follow(&f.follower, VMS_GUEST_GOES_ON)); /* too soon */
	g_assert_cmpuint(fake_guest_refreshes(f.guest), ==, refreshes);

	f.follower.runs_programs = true;
	f.resets++;
	g_assert_true(vms_guest_follower_was_reset(&f.follower));
	find(&f, NULL);						       /* what was there before */
	g_assert_false(vms_guest_follow(&f.follower, VMS_GUEST_ASKS)); /* too soon as well */
	g_assert_cmpuint(fake_guest_table_follows(f.guest), ==, 0);
	g_assert_true(follow_later(&f, VMS_GUEST_GOES_ON));
	g_assert_false(f.follower.is_settled);
	find(&f, &f.follower.runs_programs);
	g_assert_true(follow_later(&f, VMS_GUEST_ASKS));
	g_assert_true(f.follower.is_settled);
	g_assert_false(vms_guest_follower_was_reset(&f.follower));
	g_assert_cmpuint(fake_guest_refreshes(f.guest), ==, 0); /* of the one that was found */
	f.resets++;
	g_assert_true(vms_guest_follower_was_reset(&f.follower));
	tear_down(&f);
}

/* A kernel that has all parts at once needs no other look. */
static void test_boot_completely(void)
{
	struct fixture f;
	set_up(&f, VMS_GUEST_NONE);
	fake_guest_boot(f.guest, true);
	g_assert_true(vms_guest_follow(&f.follower, VMS_GUEST_ASKS));
	g_assert_true(f.follower.is_settled);
	tear_down(&f);
}

/* A kernel that never runs programs is not looked for for ever; after each reset anew. */
static void test_limit(void)
{
	struct fixture f;
	set_up(&f, VMS_GUEST_LINUX);
	for (int round = 0; round < 2; round++) {
		unsigned looks = 0;
		f.resets++;
		g_assert_true(vms_guest_follower_was_reset(&f.follower));
		for (; !f.follower.is_settled && looks < 100; looks++) {
			find(&f, NULL);
			g_assert_true(follow_later(&f, VMS_GUEST_GOES_ON));
		}
		g_assert_cmpuint(looks, ==, 6);
	}
	tear_down(&f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/follower/refresh", test_refresh);
	g_test_add_func("/follower/code", test_code);
	g_test_add_func("/follower/boot", test_boot);
	g_test_add_func("/follower/boot-completely", test_boot_completely);
	g_test_add_func("/follower/reset", test_reset);
	g_test_add_func("/follower/limit", test_limit);
	return g_test_run();
}
