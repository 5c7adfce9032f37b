/* SPDX-License-Identifier: MIT */
/* Graphs of small pieces of machine code, put together by hand. There is no guest. */
#include "cfg/branch.h"
#include "fake_machine.h"
#include <vmscope/cfg.h>

#define CODE 0x1000

struct fixture {
	struct vms_machine *machine;
	struct vms_memory *memory;
	struct vms_guest *guest;
	struct vms_cfg_options options;
};

static void set_up(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_regs regs = { 0 };
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(f->machine, CODE, 4096);
	memset(fake_machine_at(f->machine, CODE), 0xc3, 4096); /* ret */
	f->memory = vms_memory_new(f->machine, &regs);
	f->guest = vms_guest_detect(f->machine, NULL);
	f->options = (struct vms_cfg_options) { .size = sizeof(f->options) };
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	vms_guest_unref(f->guest);
	vms_memory_free(f->memory);
	vms_machine_unref(f->machine);
}

static struct vms_cfg *make(struct fixture *f, const void *code, size_t size)
{
	g_autoptr(GError) error = NULL;
	memcpy(fake_machine_at(f->machine, CODE), code, size);
	struct vms_cfg *cfg = vms_cfg_new(f->guest, f->memory, CODE, &f->options, &error);
	g_assert_no_error(error);
	return cfg;
}

/* The graph as text: "begin-last end >kind block …" per block, addresses as offsets. */
static char *describe(const struct vms_cfg *cfg)
{
	GString *text = g_string_new(NULL);
	size_t n;
	const struct vms_block *blocks = vms_cfg_blocks(cfg, &n);
	for (size_t i = 0; i < n; i++) {
		g_string_append_printf(text, "%x-%x %s", (unsigned)(blocks[i].va - CODE),
				       (unsigned)(blocks[i].last - CODE),
				       vms_block_end_name(blocks[i].end));
		for (size_t j = 0; j < blocks[i].n_edges; j++)
			g_string_append_printf(text, " >%s %zu",
					       vms_edge_kind_name(blocks[i].edges[j].kind),
					       blocks[i].edges[j].block);
		g_string_append_c(text, '\n');
	}
	return g_string_free(text, FALSE);
}

static void assert_graph(struct fixture *f, const void *code, size_t size, const char *expected)
{
	g_autoptr(vms_cfg) cfg = make(f, code, size);
	g_autofree char *text = describe(cfg);
	g_assert_cmpstr(text, ==, expected);
}

/* 0: test eax,eax; 2: je 7; 4: inc eax; 6: nop; 7: dec eax; 9: jne 0; b: ret */
static const uint8_t loop[] = { 0x85, 0xc0, 0x74, 0x03, 0xff, 0xc0,
				0x90, 0xff, 0xc8, 0x75, 0xf5, 0xc3 };

static void test_loop(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	assert_graph(f, loop, sizeof(loop),
		     "0-2 conditional >next 1 >jump 2\n"
		     "4-6 next >next 2\n"
		     "7-9 conditional >next 3 >jump 0\n"
		     "b-b exit\n");
}

/* 0: je 3 (into the instruction behind); 2: lock; 3: inc [rax]; 5: ret */
static void test_overlap(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const uint8_t code[] = { 0x74, 0x01, 0xf0, 0xff, 0x00, 0xc3 };
	assert_graph(f, code, sizeof(code),
		     "0-0 conditional >next 1 >jump 2\n"
		     "2-2 next >next 3\n"
		     "3-3 next >next 3\n"
		     "5-5 exit\n");
}

/* 0: je 3; 2: 06, which is nothing in 64-bit code; 3: ud2 */
static void test_cut(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const uint8_t code[] = { 0x74, 0x01, 0x06, 0x0f, 0x0b };
	assert_graph(f, code, sizeof(code),
		     "0-0 conditional >next 1 >jump 2\n"
		     "2-2 cut\n"
		     "3-3 exit\n");
}

/* 0: call 0; 5: nop; 6: jmp rax */
static void test_calls(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const uint8_t code[] = { 0xe8, 0xfb, 0xff, 0xff, 0xff, 0x90, 0xff, 0xe0 };
	assert_graph(f, code, sizeof(code), "0-6 indirect\n");
	f->options.calls_end_blocks = true;
	assert_graph(f, code, sizeof(code), "0-0 next >next 1\n5-6 indirect\n");
}

/* 16-bit code: 0: test ax,ax; 2: je 5; 4: nop; 5: ret */
static void test_16_bit(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const uint8_t code[] = { 0x85, 0xc0, 0x74, 0x01, 0x90, 0xc3 };
	f->options.bits = 16;
	f->options.code_base = CODE - 0x100;
	assert_graph(f, code, sizeof(code),
		     "0-2 conditional >next 1 >jump 2\n4-4 next >next 2\n5-5 exit\n");
}

/* A table whose second entry leads to nowhere: none of it is believed. */
static void test_bad_table(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	/* 0: cmp edi,1; 3: ja 0c; 5: jmp [rdi*8+0x1800]; c: ret */
	static const uint8_t code[] = { 0x83, 0xff, 0x01, 0x77, 0x07, 0xff, 0x24,
					0xfd, 0x00, 0x18, 0x00, 0x00, 0xc3 };
	fake_machine_write_u64(f->machine, 0x1800, CODE + 12);
	fake_machine_write_u64(f->machine, 0x1808, CODE + 5);
	assert_graph(f, code, sizeof(code),
		     "0-3 conditional >next 1 >jump 2\n"
		     "5-5 indirect >switch 1 >switch 2\n"
		     "c-c exit\n");
	fake_machine_write_u64(f->machine, 0x1808, 0x10000000);
	assert_graph(f, code, sizeof(code),
		     "0-3 conditional >next 1 >jump 2\n"
		     "5-5 indirect\n"
		     "c-c exit\n");
}

struct visits {
	char text[16];
	unsigned n, most;
};

static bool note_visit(size_t block, void *data)
{
	struct visits *visits = data;
	visits->text[visits->n++] = (char)('0' + block);
	return visits->n < visits->most;
}

static void assert_order(const struct vms_cfg *cfg, enum vms_cfg_order order, unsigned most,
			 const char *expected)
{
	struct visits visits = { .most = most };
	vms_cfg_each(cfg, order, note_visit, &visits);
	g_assert_cmpstr(visits.text, ==, expected);
}

/* 0: je 8; 2: je 6; 4: nop; 5: ret; 6: nop; 7: ret; 8: nop; 9: ret */
static void test_orders(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const uint8_t code[] = {
		0x74, 0x06, 0x74, 0x02, 0x90, 0xc3, 0x90, 0xc3, 0x90, 0xc3
	};
	g_autoptr(vms_cfg) cfg = make(f, code, sizeof(code));
	g_assert_cmpuint(vms_cfg_entry(cfg), ==, 0);
	assert_order(cfg, VMS_CFG_UP, 9, "01234");
	assert_order(cfg, VMS_CFG_DOWN, 9, "43210");
	assert_order(cfg, VMS_CFG_DEPTH_FIRST, 9, "01234");
	assert_order(cfg, VMS_CFG_BREADTH_FIRST, 9, "01423");
	assert_order(cfg, VMS_CFG_UP, 2, "01");
	assert_order(cfg, VMS_CFG_DEPTH_FIRST, 2, "01");
	assert_order(cfg, VMS_CFG_BREADTH_FIRST, 2, "01");
}

static void test_errors(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	f->options.bits = 8;
	g_assert_null(vms_cfg_new(f->guest, f->memory, CODE, &f->options, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
	g_clear_error(&error);
	g_assert_null(vms_cfg_new(f->guest, f->memory, 0x90000, NULL, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE);
	g_clear_error(&error);
	g_assert_null(vms_cfg_new(f->guest, f->memory, UINT64_MAX, NULL, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE);
}

/* ---- instructions that libcapstone does not know ------------------------------------ */

struct unknown {
	const struct vms_arch *arch;
	uint8_t code[12];
	size_t n;
	unsigned size;
};

static const struct unknown unknowns[] = {
	{ &vms_arch_x86_64, { 0x0f, 0x01, 0xee }, 3, 3 },	/* rdpkru */
	{ &vms_arch_x86_64, { 0xf3, 0x0f, 0x01, 0xd9 }, 4, 4 }, /* vmgexit */
	{ &vms_arch_x86_64, { 0x66, 0x0f, 0xae, 0xf1 }, 4, 4 }, /* tpause ecx */
	{ &vms_arch_x86_64, { 0x0f, 0x01, 0x10 }, 3, 0 },	/* lgdt [rax] is known */
	{ &vms_arch_x86_64, { 0x0f, 0x01 }, 2, 0 },		/* cut off */
	{ &vms_arch_x86_64, { 0x06 }, 1, 0 },			/* nothing */
	/* vmovdqa64 zmm0, [rax], [rax+64], [rax+rcx*4+0x10000000]; vpternlogd; vpsrld */
	{ &vms_arch_x86_64, { 0x62, 0xf1, 0xfd, 0x48, 0x6f, 0x00 }, 6, 6 },
	{ &vms_arch_x86_64, { 0x62, 0xf1, 0xfd, 0x48, 0x6f, 0x40, 0x01 }, 7, 7 },
	{ &vms_arch_x86_64,
	  { 0x62, 0xf1, 0xfd, 0x48, 0x6f, 0x84, 0x88, 0x00, 0x00, 0x00, 0x10 },
	  11,
	  11 },
	{ &vms_arch_x86_64, { 0x62, 0xf3, 0x75, 0x48, 0x25, 0xc2, 0xff }, 7, 7 },
	{ &vms_arch_x86_64, { 0x62, 0xf1, 0x75, 0x48, 0x72, 0xd2, 0x07 }, 7, 7 },
	{ &vms_arch_x86_64, { 0x62, 0xf1, 0x75, 0x48, 0x72, 0xd2 }, 6, 0 }, /* cut off */
	{ &vms_arch_aarch64, { 0xe0, 0xe3, 0x18, 0x25 }, 4, 4 },	    /* ptrue p0.b */
	{ &vms_arch_aarch64, { 0x3f, 0x41, 0x03, 0xd5 }, 4, 4 },	    /* msr ssbs, #1 */
	{ &vms_arch_aarch64, { 0x00, 0x00, 0x00, 0x00 }, 4, 0 },	    /* udf #0 */
	{ &vms_arch_aarch64, { 0x00, 0x08, 0x1f, 0xd7 }, 4, 0 },	    /* braa x0, x0 */
	{ &vms_arch_aarch64, { 0xe0, 0xe3, 0x18 }, 3, 0 },		    /* cut off */
};

static void test_unknown(void)
{
	for (size_t i = 0; i < G_N_ELEMENTS(unknowns); i++) {
		const struct unknown *unknown = &unknowns[i];
		const struct vms_decoder decoder = { .arch = unknown->arch, .bits = 64 };
		g_test_message("number %zu", i);
		g_assert_cmpuint(vms_branch_unknown_size(&decoder, unknown->code, unknown->n), ==,
				 unknown->size);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add("/cfg/" #name, struct fixture, NULL, set_up, test_##name, tear_down)
	ADD(loop);
	ADD(overlap);
	ADD(cut);
	ADD(calls);
	ADD(16_bit);
	ADD(bad_table);
	ADD(orders);
	ADD(errors);
	g_test_add_func("/cfg/unknown", test_unknown);
	return g_test_run();
}
