/* SPDX-License-Identifier: MIT */
/*
 * Writes a profile of made-up samples in all formats, for readers that are not ours (formats.py).
 *
 *   make-formats truth SAMPLES DIR [leaf-first]  all formats as DIR/r.SUFFIX, and DIR/truth: a line
 *                                                of what each sample was made of
 *   make-formats time SAMPLES FILE               one format, by the name of FILE: prints the
 *                                                processor time of the profile and of
 *                                                the file, in s
 */
#include "sample/profile-private.h"
#include "sample/run_facts.h"
#include "sample/samples.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vmscope/export.h>

#define KERNEL	     UINT64_C(0xffff800000001000)
#define MODULE	     UINT64_C(0xffff900000000000)
#define USER	     UINT64_C(0x400000)
#define NO_SYMBOLS   UINT64_C(0x7f0000000000)
#define ANONYMOUS    UINT64_C(0x7ffff0000000)
#define BYTES	     16 /* of each function */
#define N_FUNCTIONS  2000
#define N_VCPUS	     4
#define N_PROCESSES  12
#define N_THREADS    5 /* of each process */
#define INTERVAL_NS  UINT64_C(1000000)
#define BEGIN_NS     UINT64_C(5000000000000)
#define DEEPEST	     24
#define CODE_SPACING UINT64_C(0x100000)

/* Names that a guest may choose to be taken for something else. The others are harmless. */
static const char *const names[] = {
	"plain",       "semi;colon",  "quo\"te",     "back\\slash", "comma,", "new\nline", "tab\t",
	"caf\303\251", "bad\377utf8", " (paren)",    "a (b) (c)",   "[idle]", "</script>", "a+0x10",
	"#hash",       "12/34 [001]", "std::x<int>", "trailing ",   "()",     "0 1 2",
};
static const char *const comms[] = {
	"sh", "semi;x", "a 1/2 [003]", "#x", "q\"\\\t", "\377\376", ""
};

struct world {
	struct vms_symbolizer *symbolizer;
	const struct vms_process *processes[N_PROCESSES], *swapper;
	struct vms_samples samples[N_VCPUS];
	GRand *random;
	FILE *truth; /* or NULL */
};

static const char *get_function(unsigned index, char buffer[32])
{
	if (index < G_N_ELEMENTS(names))
		return names[index];
	g_snprintf(buffer, 32, "function_%u", index);
	return buffer;
}

/* A table of functions from `va` on. They are those from `first` on. */
static struct vms_symbol_table *make_table(const char *module, unsigned first, unsigned n,
					   uint64_t va)
{
	struct vms_symbol_table *table = vms_symbol_table_new(module);
	char buffer[32];

	for (unsigned i = 0; i < n; i++)
		vms_symbol_table_add(table, get_function(first + i, buffer), va + i * BYTES, BYTES,
				     't');
	vms_symbol_table_finish(table, va + n * BYTES);
	return table;
}

static void map_code(struct world *world, uint32_t space, const char *path, uint64_t va,
		     struct vms_symbol_table *symbols, enum vms_mapping_kind kind)
{
	const struct vms_mapping mapping = {
		.start = va,
		.end = va + CODE_SPACING,
		.offset = kind == VMS_MAPPING_FILE ? 0 : va,
		.name = path,
		.symbols = symbols,
		.kind = kind,
	};
	vms_symbolizer_map(world->symbolizer, space, &mapping);
}

static const struct vms_process *add_process(struct world *world, const char *comm, uint32_t pid,
					     bool is_idle)
{
	struct vms_process process = { .pid = pid, .is_idle = is_idle };

	g_strlcpy(process.comm, comm, sizeof(process.comm));
	return vms_symbolizer_add_space(world->symbolizer, &process);
}

static void make_world(struct world *world)
{
	g_autoptr(vms_symbol_table) kernel = make_table("vmlinux", 0, N_FUNCTIONS, KERNEL);
	g_autoptr(vms_symbol_table) module = make_table("mod (x)", 0, 50, MODULE);
	g_autoptr(vms_symbol_table) program = make_table("/bin/a b;c", 0, N_FUNCTIONS, 0);
	const struct vms_mapping loaded = {
		.start = MODULE,
		.end = MODULE + 0x1000,
		.symbols = module,
		.kind = VMS_MAPPING_MODULE,
	};

	world->symbolizer = vms_symbolizer_new();
	world->random = g_rand_new_with_seed(1);
	map_code(world, VMS_KERNEL_SPACE, NULL, KERNEL, kernel, VMS_MAPPING_KERNEL);
	vms_symbolizer_load(world->symbolizer, &loaded, 1);
	world->swapper = add_process(world, "swapper/0", 0, true);
	for (unsigned i = 0; i < N_PROCESSES; i++) {
		const char *comm = comms[i % G_N_ELEMENTS(comms)];
		world->processes[i] = add_process(world, comm, 1000 + 100 * i, false);
		map_code(world, world->processes[i]->index, "/bin/a b;c", USER, program,
			 VMS_MAPPING_FILE);
		map_code(world, world->processes[i]->index, "/lib/x.so", NO_SYMBOLS, NULL,
			 VMS_MAPPING_FILE);
	}
	for (unsigned i = 0; i < N_VCPUS; i++)
		vms_samples_init(&world->samples[i], VMS_TREE_LIMIT / N_VCPUS, SIZE_MAX);
}

static void clear_world(struct world *world)
{
	for (unsigned i = 0; i < N_VCPUS; i++)
		vms_samples_clear(&world->samples[i]);
	vms_symbolizer_unref(world->symbolizer);
	g_rand_free(world->random);
}

/* ---- samples ---------------------------------------------------------- */

static void add_frame(struct world *world, struct vms_stack *stack, uint64_t va, bool is_user)
{
	struct vms_frame *frame = &stack->frame[stack->n];

	*frame = (struct vms_frame) { .pc = va, .is_return = stack->n > 0, .is_user = is_user };
	frame->pc += frame->is_return ? 1 : 0;
	if (!is_user)
		frame->code = vms_symbolizer_note_code(world->symbolizer, va);
	stack->n++;
	stack->n_kernel += !is_user;
}

/*
 * Walks from the outermost function inwards. What a function calls depends on the function, as in
 * real programs, so that stacks are many, but not all different.
 */
static void make_stack(struct world *world, bool in_user, struct vms_stack *stack)
{
	const unsigned n = (unsigned)g_rand_int_range(world->random, 1, DEEPEST);
	const unsigned n_user = in_user ? n / 2 : 0;
	unsigned path[DEEPEST], function = 0;

	for (unsigned i = 0; i < n; i++) {
		path[i] = function;
		function =
			(function * 31 + 7 + 3 * (unsigned)g_rand_int_range(world->random, 0, 2)) %
			N_FUNCTIONS;
	}
	stack->n = stack->n_kernel = 0;
	for (unsigned i = n; i-- > 0;) {
		const bool is_user = i < n_user;
		uint64_t base = is_user ? USER : KERNEL;
		if (is_user && path[i] % 17 == 0)
			base = path[i] % 2 ? NO_SYMBOLS : ANONYMOUS;
		else if (!is_user && path[i] < 50 && path[i] % 2)
			base = MODULE;
		add_frame(world, stack, base + path[i] * BYTES, is_user);
	}
	stack->end = stack->kernel_end =
		g_rand_int_range(world->random, 0, 10) ? VMS_WALK_ROOT : VMS_WALK_DEPTH;
}

/* Writes what an exporter must say of a sample. Strings are in hexadecimal digits. */
static void write_hex(FILE *file, const char *text)
{
	for (; *text; text++)
		fprintf(file, "%02x", (unsigned char)*text);
}

static void write_frame(const struct world *world, const struct vms_frame *frame)
{
	const uint64_t va = frame->pc - frame->is_return;
	char buffer[32];

	fputc(' ', world->truth);
	if (va >= ANONYMOUS && frame->is_user) {
		g_snprintf(buffer, sizeof(buffer), "0x%" PRIx64, frame->pc);
		write_hex(world->truth, buffer);
	} else if (va >= NO_SYMBOLS && frame->is_user) {
		g_snprintf(buffer, sizeof(buffer), "x.so+0x%" PRIx64, frame->pc - NO_SYMBOLS);
		write_hex(world->truth, buffer);
	} else {
		const uint64_t base = frame->is_user ? USER : va >= MODULE ? MODULE : KERNEL;
		write_hex(world->truth, get_function((unsigned)((va - base) / BYTES), buffer));
	}
}

/* A line: time, vCPU, pid, tid, comm, then the frames, the outermost first. */
static void write_truth(const struct world *world, const struct vms_sample_record *record,
			const struct vms_process *process)
{
	fprintf(world->truth, "%" PRIu64 " %u %u %u x", record->time_ns, record->vcpu, record->pid,
		record->tid);
	write_hex(world->truth, process ? process->is_idle ? "swapper" : process->comm : "");
	if (record->idle)
		fprintf(world->truth, " 5b69646c655d"); /* [idle] */
	else if (record->stack.end == VMS_WALK_DEPTH)
		fprintf(world->truth, " 5b7472756e63617465645d"); /* [truncated] */
	for (unsigned i = record->stack.n; i-- > 0;)
		write_frame(world, &record->stack.frame[i]);
	fputc('\n', world->truth);
}

static void add_samples(struct world *world, unsigned n, bool leaf_first)
{
	g_autofree struct vms_sample_record *record = g_new0(struct vms_sample_record, 1);

	for (unsigned i = 0; i < n; i++) {
		const unsigned kind = (unsigned)g_rand_int_range(world->random, 0, 10);
		const unsigned p = (unsigned)g_rand_int_range(world->random, 0, N_PROCESSES);
		const struct vms_process *process = kind == 0	? NULL
						    : kind <= 2 ? world->swapper
								: world->processes[p];
		record->vcpu = i % N_VCPUS;
		record->time_ns = BEGIN_NS + (i / N_VCPUS) * INTERVAL_NS + record->vcpu * 1000;
		record->idle = kind == 1;
		record->space = process ? process->index : VMS_NO_SPACE;
		record->pid = process ? process->pid : 0;
		record->tid = record->pid;
		if (kind > 2)
			record->tid += (uint32_t)g_rand_int_range(world->random, 0, N_THREADS);
		record->stack.n = record->stack.n_kernel = 0;
		record->stack.end = VMS_WALK_ROOT;
		if (!record->idle)
			make_stack(world, kind > 2, &record->stack);
		vms_samples_add(&world->samples[record->vcpu], record, leaf_first, 1000);
		if (world->truth)
			write_truth(world, record, process);
	}
}

/* ---- files ------------------------------------------------------------ */

static struct vms_profile *make_profile(struct world *world, bool leaf_first)
{
	const struct vms_tree *trees[N_VCPUS];
	const struct vms_sample_times *times[N_VCPUS];
	for (unsigned i = 0; i < N_VCPUS; i++) {
		trees[i] = world->samples[i].tree;
		times[i] = &world->samples[i].times;
	}
	const struct vms_profile_source source = {
		.symbolizer = world->symbolizer,
		.trees = trees,
		.times = times,
		.n_trees = N_VCPUS,
		.leaf_first = leaf_first,
	};
	return vms_profile_new(&source);
}

static struct vms_run_facts *make_facts(const struct world *world, unsigned n)
{
	struct vms_run_facts *facts = g_new0(struct vms_run_facts, 1);

	facts->title = g_strdup("A \"made-up\" guest \\ \377");
	facts->machine_description = g_strdup("no machine");
	facts->interval_ns = INTERVAL_NS;
	facts->begin_ns = BEGIN_NS;
	facts->begin_utc_ns = INT64_C(1700000000123456789);
	facts->elapsed_ns = n / N_VCPUS * INTERVAL_NS;
	facts->end = VMS_SAMPLE_COMPLETE;
	facts->n_vcpus = N_VCPUS;
	facts->vcpus = g_new0(struct vms_sample_stats, N_VCPUS);
	for (unsigned i = 0; i < N_VCPUS; i++)
		facts->vcpus[i] = world->samples[i].stats;
	facts->items = g_array_new(FALSE, FALSE, sizeof(struct vms_run_item));
	return facts;
}

static void export_to(const struct vms_exporter *exporter, const struct vms_profile *profile,
		      const struct vms_run_facts *facts, const char *path)
{
	g_autoptr(GError) error = NULL;
	if (!vms_export_file(exporter, profile, facts, NULL, path, &error))
		g_error("%s", error->message);
}

/* Returns the processor time of this process in s. */
static double get_processor_time(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return EXIT_FAILURE;
	const bool is_test = strcmp(argv[1], "truth") == 0, leaf_first = argc > 4;
	const unsigned n = (unsigned)g_ascii_strtoull(argv[2], NULL, 10);
	g_autofree char *truth = g_build_filename(argv[3], "truth", NULL);
	struct world world = { .truth = is_test ? fopen(truth, "w") : NULL };
	size_t n_exporters;
	const struct vms_exporter *const *exporters = vms_exporters(&n_exporters);

	make_world(&world);
	add_samples(&world, n, leaf_first);
	const double begin = get_processor_time();
	g_autoptr(vms_profile) profile = make_profile(&world, leaf_first);
	g_autoptr(vms_run_facts) facts = make_facts(&world, n);
	const double made = get_processor_time();
	for (size_t i = 0; is_test && i < n_exporters; i++) {
		g_autofree char *name = g_strconcat("r", exporters[i]->suffix, NULL);
		g_autofree char *path = g_build_filename(argv[3], name, NULL);
		export_to(exporters[i], profile, facts, path);
	}
	clear_world(&world);
	if (is_test)
		return fclose(world.truth) ? EXIT_FAILURE : EXIT_SUCCESS;
	export_to(vms_exporter_by_path(argv[3]), profile, facts, argv[3]);
	printf("%.3f %.3f\n", made - begin, get_processor_time() - made);
	return EXIT_SUCCESS;
}
