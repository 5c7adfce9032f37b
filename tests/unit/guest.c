/* SPDX-License-Identifier: MIT */
/* What a guest answers when its operating system's part leaves out what it need not have. */
#include "fake_machine.h"
#include "guest/guest-private.h"
#include "guest/kernel_code.h"
#include "guest/symbols.h"

struct fixture {
	struct vms_machine *machine;
	struct vms_memory *memory;
	struct vms_guest *guest;
};

static bool is_there, was_freed;
static struct vms_symbolizer *symbolizer;

static void *detect(struct vms_machine *machine G_GNUC_UNUSED, char **why,
		    GError **error G_GNUC_UNUSED)
{
	if (is_there)
		return &symbolizer;
	*why = g_strdup("it sleeps");
	return NULL;
}

static void leave(void *system)
{
	g_assert_true(system == &symbolizer);
	was_freed = true;
}

static char *describe(const void *system G_GNUC_UNUSED, struct vms_guest_info *ret)
{
	*ret = (struct vms_guest_info) { .name = "Plain" };
	return NULL;
}

static struct vms_symbolizer *get_symbolizer(const void *system G_GNUC_UNUSED)
{
	return symbolizer;
}

static void set_up(struct fixture *f, gconstpointer data)
{
	static const struct vms_guest_ops ops = {
		.kind = VMS_GUEST_LINUX,
		.detect = detect,
		.free = leave,
		.describe = describe,
		.symbolizer = get_symbolizer,
	};
	const bool *recognised = data;
	const struct vms_regs regs = { 0 };
	is_there = *recognised;
	was_freed = false;
	symbolizer = vms_symbolizer_new();
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	f->memory = vms_memory_new(f->machine, &regs);
	f->guest = vms_guest_detect_system(f->machine, &ops, NULL);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
	const bool *recognised = data;
	vms_guest_unref(f->guest);
	g_assert_true(was_freed == *recognised);
	vms_memory_free(f->memory);
	vms_machine_unref(f->machine);
	vms_symbolizer_unref(symbolizer);
}

static void never(uint64_t time_ns G_GNUC_UNUSED, unsigned level G_GNUC_UNUSED,
		  const char *text G_GNUC_UNUSED, void *data G_GNUC_UNUSED)
{
	g_assert_not_reached();
}

/* The question failed, and the message has the reason. */
static void assert_unsupported(bool answer, GError *error, const char *reason)
{
	g_assert_false(answer);
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED);
	g_assert_nonnull(strstr(error->message, reason));
	g_error_free(error);
}
#define ASSERT_UNSUPPORTED(question)                                                               \
	do {                                                                                       \
		GError *error = NULL;                                                              \
		bool answer = question;                                                            \
		assert_unsupported(answer, error, is_there ? "(Plain)" : "(it sleeps)");           \
	} while (0)

static void test_errors(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	struct vms_task task = { 0 };
	struct vms_regs regs;
	ASSERT_UNSUPPORTED(vms_guest_refresh_modules(f->guest, &error));
	ASSERT_UNSUPPORTED(vms_guest_tasks(f->guest, NULL, &error) != NULL);
	ASSERT_UNSUPPORTED(vms_guest_task_regs(f->guest, &task, &regs, &error));
	ASSERT_UNSUPPORTED(vms_guest_timers(f->guest, &error) != NULL);
	ASSERT_UNSUPPORTED(vms_guest_clocks(f->guest, &error) != NULL);
	ASSERT_UNSUPPORTED(vms_guest_dmesg(f->guest, never, NULL, &error));
}

static void test_unknown(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_regs regs = { 0 };
	const struct vms_process process = { 0 };
	struct vms_task task = { 0 };
	struct vms_task_layout layout;
	struct vms_mapping mapping;
	struct vms_orc_entry entry;
	struct vms_location location;
	uint64_t start, end;
	unsigned areas = 1;
	g_assert_cmpint(vms_guest_kind(f->guest), ==, is_there ? VMS_GUEST_LINUX : VMS_GUEST_NONE);
	g_assert_cmpstr(vms_guest_why(f->guest), ==, is_there ? NULL : "it sleeps");
	g_assert_true(vms_guest_is_complete(f->guest) == is_there);
	g_assert_true(vms_guest_follow_tables(f->guest, NULL));
	g_assert_null(vms_guest_vmcoreinfo(f->guest));
	size_t n;
	g_assert_null(vms_guest_modules(f->guest, &n));
	g_assert_cmpuint(n, ==, 0);
	g_assert_null(vms_guest_kernel_symbols(f->guest, &start, &end));
	g_assert_cmpuint(vms_guest_lookup(f->guest, NULL, NULL, NULL), ==, 0);
	g_assert_false(vms_guest_locate(f->guest, NULL, 0x1000, &location));
	g_assert_false(vms_guest_code_changed(f->guest, f->memory, 0x1000));
	vms_guest_note_kernel_pc(f->guest, f->memory, 0x1000);
	g_assert_false(vms_guest_current(f->guest, f->memory, &regs, &task));
	g_assert_null(vms_guest_process(f->guest, &task));
	vms_guest_note_address(f->guest, f->memory, &process, 0x1000);
	g_assert_false(vms_guest_task_layout(f->guest, &layout));
	g_assert_false(vms_guest_task_has(f->guest, 1, 1, 1));
	g_assert_false(vms_guest_next_code(f->guest, 1, 0, &areas, &mapping));
	g_assert_cmpuint(vms_guest_mappings_stamp(f->guest, 1), ==, 0);
	g_assert_false(vms_guest_is_kernel_text(f->guest, 0x1000));
	g_assert_false(vms_guest_is_entry_text(f->guest, 0x1000));
	g_assert_cmpuint(vms_guest_pt_regs_record(f->guest), ==, 0);
	g_assert_false(vms_guest_has_orc(f->guest));
	g_assert_false(vms_guest_orc(f->guest, 0x1000, &entry));
}

int main(int argc, char **argv)
{
	static const bool yes = true, no = false;
	g_test_init(&argc, &argv, NULL);
#define ADD(path, recognised, test)                                                                \
	g_test_add("/guest/" path, struct fixture, recognised, set_up, test, tear_down)
	ADD("plain/errors", &yes, test_errors);
	ADD("plain/unknown", &yes, test_unknown);
	ADD("none/errors", &no, test_errors);
	ADD("none/unknown", &no, test_unknown);
	return g_test_run();
}
