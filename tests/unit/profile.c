/* SPDX-License-Identifier: MIT */
/*
 * Profiles of records, with counts and names worked out by hand. There is neither a machine nor a
 * guest: a symbolizer that was told what is mapped where is all that names need.
 */
#include "profile_trees.h"
#include "sample/profile-private.h"
#include "sample/samples.h"
#include "self_file.h"
#include <inttypes.h>
#include <string.h>

/* Kernel code: outer at 0x1000 up to 0x1100, where inner begins; module code without symbols. */
#define OUTER  UINT64_C(0xffff800000001000)
#define INNER  UINT64_C(0xffff800000001100)
#define MODULE UINT64_C(0xffff900000000000)
#define NOBODY UINT64_C(0xffffa00000000000)
#define LOADED UINT64_C(0xffffb00000000000)
/* User code: a function at another address in each process, and a file without symbols. */
#define MAIN_A UINT64_C(0x400000)
#define MAIN_B UINT64_C(0x500000)
#define FILE_A UINT64_C(0x7f0000000000)

struct fixture {
	struct vms_symbolizer *symbolizer;
	const struct vms_process *a, *b, *swapper;
	struct vms_samples samples[2];
};

static struct vms_symbol_table *make_table(const char *module, const char *function, uint64_t va,
					   uint64_t size)
{
	struct vms_symbol_table *table = vms_symbol_table_new(module);
	if (function)
		vms_symbol_table_add(table, function, va, size, 't');
	vms_symbol_table_finish(table, va + size);
	return table;
}

/* A function of the kernel's own. */
static void map_kernel(struct fixture *fixture, const char *function, uint64_t va, uint64_t size)
{
	g_autoptr(vms_symbol_table) table = make_table("vmlinux", function, va, size);
	const struct vms_mapping mapping = {
		.start = va,
		.end = va + size,
		.offset = va,
		.symbols = table,
		.kind = VMS_MAPPING_KERNEL,
	};
	vms_symbolizer_map(fixture->symbolizer, VMS_KERNEL_SPACE, &mapping);
}

/* A file that has a function at its begin, or no symbols. */
static void map_file(struct fixture *fixture, uint32_t space, const char *path, uint64_t va,
		     const char *function)
{
	const uint64_t offset = 0x2000, size = 0x1000;
	g_autoptr(vms_symbol_table) table =
		function ? make_table(path, function, offset, 0x100) : NULL;
	const struct vms_mapping mapping = {
		.start = va,
		.end = va + size,
		.offset = offset,
		.name = path,
		.symbols = table,
	};
	vms_symbolizer_map(fixture->symbolizer, space, &mapping);
}

/* The only module that is loaded from now on; NULL: none. */
static void load(struct fixture *fixture, const char *module, const char *function, uint64_t part,
		 uint64_t va)
{
	g_autoptr(vms_symbol_table) table = make_table(module ?: "", function, va, 0x100);
	const struct vms_mapping mapping = {
		.start = part,
		.end = part + 0x1000,
		.symbols = table,
		.kind = VMS_MAPPING_MODULE,
	};
	vms_symbolizer_load(fixture->symbolizer, &mapping, module ? 1 : 0);
}

static const struct vms_process *add_process(struct fixture *fixture, const char *comm,
					     uint32_t pid, bool is_idle)
{
	struct vms_process process = { .pid = pid, .is_idle = is_idle };
	g_strlcpy(process.comm, comm, sizeof(process.comm));
	return vms_symbolizer_add_space(fixture->symbolizer, &process);
}

/* All that is there of a guest is what its symbolizer was told. */
static void set_up(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	fixture->symbolizer = vms_symbolizer_new();
	map_kernel(fixture, "outer", OUTER, 0x100);
	map_kernel(fixture, "inner", INNER, 0x100);
	fixture->a = add_process(fixture, "prog", 10, false);
	fixture->b = add_process(fixture, "prog", 11, false);
	fixture->swapper = add_process(fixture, "swapper/1", 0, true);
	map_file(fixture, fixture->a->index, "/bin/prog", MAIN_A, "main");
	map_file(fixture, fixture->b->index, "/bin/prog", MAIN_B, "main");
	map_file(fixture, fixture->a->index, "/lib/libc.so", FILE_A, NULL);
	for (int i = 0; i < 2; i++)
		vms_samples_init(&fixture->samples[i], 1000, 1000);
}

static void tear_down(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	for (int i = 0; i < 2; i++)
		vms_samples_clear(&fixture->samples[i]);
	vms_symbolizer_unref(fixture->symbolizer);
}

/* What one sample of a vCPU finds. The frames, leaf first, end with a pc of 0. */
struct sample {
	bool idle;
	const struct vms_process *process;
	struct vms_frame frames[12];
	enum vms_walk_end end;
};

/* Adds the sample `times` times. */
static void add(struct fixture *fixture, unsigned vcpu, bool leaf_first, unsigned times,
		const struct sample *sample)
{
	g_autofree struct vms_sample_record *record = g_new0(struct vms_sample_record, 1);
	record->idle = sample->idle;
	record->space = sample->process ? sample->process->index : VMS_NO_SPACE;
	record->stack.end = record->stack.kernel_end = sample->end;
	for (const struct vms_frame *frame = sample->frames; frame->pc; frame++) {
		struct vms_frame *added = &record->stack.frame[record->stack.n++];
		*added = *frame;
		record->stack.n_kernel += !frame->is_user;
		if (!frame->is_user)
			added->code = vms_symbolizer_note_code(fixture->symbolizer,
							       frame->pc - frame->is_return);
	}
	for (unsigned i = 0; i < times; i++)
		vms_samples_add(&fixture->samples[vcpu], record, leaf_first, 1000);
}

static struct vms_profile *make(struct fixture *fixture, unsigned flags, bool leaf_first)
{
	const struct vms_tree *trees[] = { fixture->samples[0].tree, fixture->samples[1].tree };
	struct vms_profile_source source = {
		.symbolizer = fixture->symbolizer,
		.trees = trees,
		.n_trees = 2,
		.flags = flags,
		.leaf_first = leaf_first,
	};
	return vms_profile_new(&source);
}

/* A tree as text: "name total self" per node, a dot per level; an address where it has no name. */
static char *tree_text(const struct vms_profile *profile, size_t index)
{
	const struct vms_profile_tree *tree = get_tree(profile, index);
	GString *text = g_string_new(NULL);
	uint32_t node = tree->first_root;

	while (node != VMS_NO_NODE) {
		const struct vms_profile_node *n = &tree->nodes[node];
		const struct vms_label *label = vms_profile_label(profile, n->label);
		for (uint32_t up = n->parent; up != VMS_NO_NODE; up = tree->nodes[up].parent)
			g_string_append_c(text, '.');
		g_string_append(text, label->name ? label->name : "?");
		if (label->offset)
			g_string_append_printf(text, "+0x%" PRIx64, label->offset);
		g_string_append_printf(text, " %" PRIu64 " %" PRIu64 "\n", n->total, n->self);
		if (n->first_child != VMS_NO_NODE) {
			node = n->first_child;
			continue;
		}
		while (node != VMS_NO_NODE && tree->nodes[node].next_sibling == VMS_NO_NODE)
			node = tree->nodes[node].parent;
		if (node != VMS_NO_NODE)
			node = tree->nodes[node].next_sibling;
	}
	return g_string_free(text, FALSE);
}

static void assert_tree(const struct vms_profile *profile, size_t index, const char *expected)
{
	g_autofree char *text = tree_text(profile, index);
	g_assert_cmpstr(text, ==, expected);
}

/* "name self total" per function. */
static void assert_functions(const struct vms_profile *profile, const char *expected)
{
	GString *text = g_string_new(NULL);
	size_t n;
	const struct vms_profile_function *functions = vms_profile_functions(profile, &n);
	for (size_t i = 0; i < n; i++) {
		const struct vms_label *label = vms_profile_label(profile, functions[i].label);
		g_string_append_printf(text, "%s %" PRIu64 " %" PRIu64 "\n",
				       label->name ? label->name : "?", functions[i].self,
				       functions[i].total);
	}
	g_assert_cmpstr(text->str, ==, expected);
	g_string_free(text, TRUE);
}

/* Two addresses of one function are one node by function, two by address. */
static void test_by(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	add(fixture, 0, false, 3,
	    &(struct sample) { .frames = { { INNER + 4 }, { OUTER + 8, true } } });
	add(fixture, 0, false, 2,
	    &(struct sample) { .frames = { { INNER + 6 }, { OUTER + 8, true } } });
	add(fixture, 0, false, 1,
	    &(struct sample) { .frames = { { INNER + 6 }, { OUTER + 9, true } } });

	g_autoptr(vms_profile) by_function = make(fixture, 0, false);
	assert_tree(by_function, 0, "outer 6 0\n.inner 6 6\n");
	assert_functions(by_function, "inner 6 6\nouter 0 6\n");
	g_autoptr(vms_profile) by_address = make(fixture, VMS_PROFILE_BY_ADDRESS, false);
	assert_tree(by_address, 0,
		    "outer+0x8 5 0\n.inner+0x4 3 3\n.inner+0x6 2 2\n"
		    "outer+0x9 1 0\n.inner+0x6 1 1\n");
	assert_functions(by_address, "inner 6 6\nouter 0 6\n");
}

/* The line of a function is that of its begin; of an address, its own. */
static void test_source(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	struct self_file lines;
	vms_symbolizer_add_file(fixture->symbolizer, self_file_open(OUTER, &lines), false);
	add(fixture, 0, false, 1, &(struct sample) { .frames = { { OUTER + SELF_FILE_LATER } } });
	g_autoptr(vms_profile) by_function = make(fixture, 0, false);
	const struct vms_label *label = vms_profile_label(by_function, 0);
	g_assert_cmpstr(label->name, ==, "outer");
	g_assert_cmpstr(label->module, ==, NULL);
	g_assert_cmphex(label->va, ==, OUTER);
	g_assert_cmpstr(label->source, ==, SELF_FILE_SOURCE);
	g_assert_cmpuint(label->line, ==, lines.begin);
	g_autoptr(vms_profile) by_address = make(fixture, VMS_PROFILE_BY_ADDRESS, false);
	label = vms_profile_label(by_address, 0);
	g_assert_cmphex(label->va, ==, OUTER + SELF_FILE_LATER);
	g_assert_cmpuint(label->line, ==, lines.later);
}

/* A call as a function's last instruction returns to the next function. */
static void test_return_address(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	add(fixture, 0, false, 1, &(struct sample) { .frames = { { INNER }, { INNER, true } } });
	g_autoptr(vms_profile) by_function = make(fixture, 0, false);
	assert_tree(by_function, 0, "outer 1 0\n.inner 1 1\n");
	g_autoptr(vms_profile) by_address = make(fixture, VMS_PROFILE_BY_ADDRESS, false);
	assert_tree(by_address, 0, "outer+0x100 1 0\n.inner 1 1\n");
}

/* Self and total of functions that call themselves count each sample once. */
static void test_recursion(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	add(fixture, 0, false, 2,
	    &(struct sample) { .frames = { { INNER + 1 },
					   { OUTER + 1, true },
					   { INNER + 2, true },
					   { OUTER + 2, true } } });
	add(fixture, 0, false, 1,
	    &(struct sample) { .frames = { { OUTER + 1 }, { OUTER + 2, true } } });
	add(fixture, 0, false, 1, &(struct sample) { .frames = { { OUTER + 3 } } });
	g_autoptr(vms_profile) profile = make(fixture, 0, false);
	assert_tree(profile, 0, "outer 4 1\n.inner 2 0\n..outer 2 0\n...inner 2 2\n.outer 1 1\n");
	assert_functions(profile, "outer 2 4\ninner 2 2\n");
}

/* Leaf first the leaf is a root, and self is still what the leaf has. */
static void test_leaf_first(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	add(fixture, 0, true, 3,
	    &(struct sample) { .process = fixture->a,
			       .frames = { { INNER + 1 }, { OUTER + 1, true } },
			       .end = VMS_WALK_DEPTH });
	add(fixture, 0, true, 2,
	    &(struct sample) { .process = fixture->b, .frames = { { INNER + 2 } } });
	add(fixture, 0, true, 1, &(struct sample) { .idle = true });
	g_autoptr(vms_profile) profile = make(fixture, 0, true);
	g_assert_true(vms_profile_leaf_first(profile));
	assert_tree(profile, 0,
		    "inner 5 0\n.outer 3 0\n..[truncated] 3 0\n...prog (10) 3 3\n"
		    ".prog (11) 2 2\n[idle] 1 1\n");
	assert_functions(profile, "inner 5 5\n[idle] 1 1\nouter 0 3\n");
}

/* Process, then why the stack is not complete, then user code, then the kernel's. */
static void test_processes(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	add(fixture, 0, false, 4,
	    &(struct sample) { .process = fixture->a,
			       .frames = { { INNER + 1 },
					   { MAIN_A + 5, true, true },
					   { FILE_A + 0x20, true, true } },
			       .end = VMS_WALK_UNREADABLE });
	add(fixture, 0, false, 3,
	    &(struct sample) { .process = fixture->b, .frames = { { MAIN_B + 9, false, true } } });
	add(fixture, 0, false, 2,
	    &(struct sample) { .process = fixture->swapper, .frames = { { OUTER } } });
	add(fixture, 0, false, 1, &(struct sample) { .frames = { { OUTER } } });
	g_autoptr(vms_profile) profile = make(fixture, 0, false);
	assert_tree(profile, 0,
		    "prog (10) 4 0\n.[unreadable stack] 4 0\n..libc.so+0x2020 4 0\n...main 4 0\n"
		    "....inner 4 4\n"
		    "prog (11) 3 0\n.main 3 3\n"
		    "swapper (0) 2 0\n.outer 2 2\n"
		    "outer 1 1\n");
}

/* Without names: bare kernel addresses, a module's, and the same user address of two processes. */
static void test_nameless(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	add(fixture, 0, true, 5, &(struct sample) { .frames = { { NOBODY } } });
	load(fixture, "driver", NULL, MODULE, MODULE); /* it has no symbols */
	add(fixture, 0, true, 4, &(struct sample) { .frames = { { MODULE + 0x10 } } });
	add(fixture, 0, true, 3,
	    &(struct sample) { .process = fixture->a, .frames = { { 0x123, false, true } } });
	add(fixture, 0, true, 2,
	    &(struct sample) { .process = fixture->b, .frames = { { 0x123, false, true } } });
	g_autoptr(vms_profile) profile = make(fixture, 0, true);
	assert_tree(profile, 0, "? 5 5\n? 4 4\n? 3 0\n.prog (10) 3 3\n? 2 0\n.prog (11) 2 2\n");
	const struct vms_profile_tree *tree = get_tree(profile, 0);
	const struct vms_label *label =
		vms_profile_label(profile, tree->nodes[tree->first_root].label);
	g_assert_cmpint(label->kind, ==, VMS_LABEL_ADDRESS);
	g_assert_cmphex(label->va, ==, NOBODY);
	g_assert_false(label->is_user);
}

/* Code of modules keeps the name that it had when it was sampled. */
static void test_unloaded(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const struct sample leaf = { .frames = { { LOADED + 0x10 } } };
	const struct sample caller = { .frames = { { LOADED + 0x100, true } } };
	const struct sample moved = { .frames = { { LOADED + 0x3010 } } };

	load(fixture, "first", "probe", LOADED, LOADED);
	add(fixture, 0, true, 4, &leaf);
	add(fixture, 0, true, 3, &caller);
	load(fixture, "second", "work", LOADED, LOADED);
	add(fixture, 0, true, 5, &leaf);
	load(fixture, NULL, NULL, LOADED, LOADED);
	add(fixture, 0, true, 1, &leaf); /* nobody's */
	load(fixture, "first", "probe", LOADED + 0x3000, LOADED + 0x3000);
	add(fixture, 0, true, 2, &moved);
	load(fixture, NULL, NULL, LOADED, LOADED);
	g_autoptr(vms_profile) by_function = make(fixture, 0, true);
	assert_tree(by_function, 0, "probe 9 9\nwork 5 5\n? 1 1\n");
	g_autoptr(vms_profile) by_address = make(fixture, VMS_PROFILE_BY_ADDRESS, true);
	assert_tree(by_address, 0,
		    "work+0x10 5 5\nprobe+0x10 4 4\nprobe+0x100 3 3\nprobe+0x10 2 2\n? 1 1\n");
}

/* One function of two processes, at different addresses, is one function. */
static void test_shared_code(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	add(fixture, 0, true, 1,
	    &(struct sample) { .process = fixture->a, .frames = { { MAIN_A + 1, false, true } } });
	add(fixture, 0, true, 1,
	    &(struct sample) { .process = fixture->b, .frames = { { MAIN_B + 1, false, true } } });
	g_autoptr(vms_profile) by_function = make(fixture, 0, true);
	assert_tree(by_function, 0, "main 2 0\n.prog (10) 1 1\n.prog (11) 1 1\n");
	g_autoptr(vms_profile) by_address = make(fixture, VMS_PROFILE_BY_ADDRESS, true);
	assert_tree(by_address, 0, "main+0x1 2 0\n.prog (10) 1 1\n.prog (11) 1 1\n");
}

static void test_vcpus(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	add(fixture, 0, false, 2, &(struct sample) { .frames = { { OUTER } } });
	add(fixture, 1, false, 3, &(struct sample) { .frames = { { OUTER + 1 } } });
	add(fixture, 1, false, 1, &(struct sample) { .idle = true });
	g_autoptr(vms_profile) each = make(fixture, 0, false);
	g_assert_cmpuint(count_trees(each), ==, 2);
	assert_tree(each, 0, "outer 2 2\n");
	assert_tree(each, 1, "outer 3 3\n[idle] 1 1\n");
	g_assert_cmpint(get_tree(each, 1)->vcpu, ==, 1);
	g_assert_cmpuint(get_tree(each, 1)->samples, ==, 4);
	assert_functions(each, "outer 5 5\n[idle] 1 1\n");

	g_autoptr(vms_profile) merged = make(fixture, VMS_PROFILE_MERGE_VCPUS, false);
	g_assert_cmpuint(count_trees(merged), ==, 1);
	g_assert_cmpint(get_tree(merged, 0)->vcpu, ==, VMS_ALL_VCPUS);
	assert_tree(merged, 0, "outer 5 5\n[idle] 1 1\n");
}

/* Siblings by count, those of one count by address. */
static void test_order(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	add(fixture, 0, false, 2, &(struct sample) { .frames = { { INNER } } });
	add(fixture, 0, false, 2, &(struct sample) { .frames = { { OUTER } } });
	load(fixture, "driver", "probe", MODULE, MODULE);
	add(fixture, 0, false, 3, &(struct sample) { .frames = { { MODULE } } });
	g_autoptr(vms_profile) profile = make(fixture, 0, false);
	assert_tree(profile, 0, "probe 3 3\nouter 2 2\ninner 2 2\n");
}

/* What is beyond the tree's limit is counted, and what was begun for it does not show. */
static void test_out_of_nodes(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	vms_samples_clear(&fixture->samples[0]);
	vms_samples_init(&fixture->samples[0], 3, 1000);
	add(fixture, 0, false, 1, &(struct sample) { .frames = { { INNER } } });
	add(fixture, 0, false, 2,
	    &(struct sample) { .frames = { { INNER }, { OUTER, true }, { OUTER, true } } });
	g_autoptr(vms_profile) profile = make(fixture, 0, false);
	assert_tree(profile, 0, "[out of nodes] 2 2\ninner 1 1\n");
}

/* A guest's names are made fit for a terminal. */
static void test_hostile_names(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	map_kernel(fixture, "evil\033[2J\n\xff", NOBODY, 16);
	add(fixture, 0, false, 1, &(struct sample) { .frames = { { NOBODY } } });
	g_autoptr(vms_profile) profile = make(fixture, 0, false);
	assert_tree(profile, 0, "evil?[2J?? 1 1\n");
}

/* A chain of a million nodes, and as many siblings below it. */
static void test_million(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const uint32_t n = 1000000;
	g_autoptr(vms_tree) tree = vms_tree_new(VMS_TREE_LIMIT);
	struct vms_tree_key key = { .kind = VMS_TREE_PC, .owner = VMS_KERNEL_SPACE };
	uint32_t node = VMS_TREE_ROOT;

	for (uint32_t i = 0; i < n; i++) {
		key.value = NOBODY + i % 1000;
		node = vms_tree_child(tree, node, key);
	}
	for (uint32_t i = 0; i < n; i++) {
		key.value = NOBODY + n - i;
		uint32_t leaf = vms_tree_child(tree, node, key);
		tree->nodes[leaf].self = 1;
	}
	const struct vms_tree *trees[] = { tree };
	struct vms_profile_source source = { .symbolizer = fixture->symbolizer,
					     .trees = trees,
					     .n_trees = 1 };
	g_autoptr(vms_profile) profile = vms_profile_new(&source);
	const struct vms_profile_tree *made = get_tree(profile, 0);
	g_assert_cmpuint(made->n_nodes, ==, 2 * n);
	g_assert_cmpuint(made->samples, ==, n);
	uint32_t at = made->first_root;
	for (uint32_t i = 1; i < n; i++) {
		g_assert_cmpuint(made->nodes[at].total, ==, n);
		g_assert_cmpuint(made->nodes[at].next_sibling, ==, VMS_NO_NODE);
		at = made->nodes[at].first_child;
	}
	at = made->nodes[at].first_child;
	for (uint32_t i = 0; i < n; i++, at = made->nodes[at].next_sibling) {
		const struct vms_label *label = vms_profile_label(profile, made->nodes[at].label);
		g_assert_cmphex(label->va, ==, NOBODY + 1 + i);
	}
	g_assert_cmpuint(at, ==, VMS_NO_NODE);
	size_t n_functions;
	const struct vms_profile_function *functions = vms_profile_functions(profile, &n_functions);
	g_assert_cmpuint(n_functions, ==, n + 1);
	g_assert_cmpuint(functions[0].total, ==, n); /* one of the chain's, and a leaf */
	g_assert_cmpuint(functions[0].self, ==, 1);
}

/* Processes of one name, of one container, or none at all: their trees are put together. */
static void test_merged_processes(struct fixture *fixture, gconstpointer data G_GNUC_UNUSED)
{
	const struct vms_process web = { .pid = 12, .comm = "prog", .container = "web" };
	const struct vms_process other = { .pid = 13, .comm = "other", .container = "web" };
	const struct vms_process *in_web[] = {
		vms_symbolizer_add_space(fixture->symbolizer, &web),
		vms_symbolizer_add_space(fixture->symbolizer, &other),
	};
	const struct vms_process *all[] = { fixture->a, in_web[0], in_web[1] };
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		const struct sample sample = { .process = all[i], .frames = { { .pc = OUTER } } };
		add(fixture, 0, false, 1, &sample);
		add(fixture, 1, true, 1, &sample);
	}
	static const struct {
		unsigned flags;
		const char *text, *leaf_first;
	} cases[] = {
		{ VMS_PROFILE_BY_COMM, "prog 2 0\n.outer 2 2\nother 1 0\n.outer 1 1\n",
		  "outer 3 0\n.prog 2 2\n.other 1 1\n" },
		{ VMS_PROFILE_BY_CONTAINER, "web 2 0\n.outer 2 2\n[no container] 1 0\n.outer 1 1\n",
		  "outer 3 0\n.web 2 2\n.[no container] 1 1\n" },
		{ VMS_PROFILE_WITHOUT_PROCESSES, "outer 3 3\n", "outer 3 3\n" },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(vms_profile) profile = make(fixture, cases[i].flags, false);
		g_autoptr(vms_profile) reversed = make(fixture, cases[i].flags, true);
		g_autofree char *text = tree_text(profile, 0);
		g_autofree char *leaf_first = tree_text(reversed, 1);
		size_t n;
		g_assert_cmpstr(text, ==, cases[i].text);
		g_assert_cmpstr(leaf_first, ==, cases[i].leaf_first);
		/* Whose the samples are is still told one by one. */
		vms_profile_threads(profile, &n);
		g_assert_cmpuint(n, ==, 3);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct fixture *fixture, gconstpointer data);
	} tests[] = {
		{ "/profile/by", test_by },
		{ "/profile/source", test_source },
		{ "/profile/return-address", test_return_address },
		{ "/profile/recursion", test_recursion },
		{ "/profile/leaf-first", test_leaf_first },
		{ "/profile/processes", test_processes },
		{ "/profile/merged-processes", test_merged_processes },
		{ "/profile/nameless", test_nameless },
		{ "/profile/unloaded", test_unloaded },
		{ "/profile/shared-code", test_shared_code },
		{ "/profile/vcpus", test_vcpus },
		{ "/profile/order", test_order },
		{ "/profile/out-of-nodes", test_out_of_nodes },
		{ "/profile/hostile-names", test_hostile_names },
		{ "/profile/million", test_million },
	};

	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add(tests[i].name, struct fixture, NULL, set_up, tests[i].run, tear_down);
	return g_test_run();
}
