/* SPDX-License-Identifier: MIT */
/*
 * A recording, after the magic number: what was mapped where, names, code and samples.
 *
 * Covers: src/sample/recording.c, src/sample/recording_records.c, src/sample/recording_processes.c,
 * src/sample/recording_stacks.c, src/sample/recording_profile.c, src/sample/recording_code.c,
 * src/sample/recording_join.c, src/sample/recording_texts.c, src/symbol/mappings.c,
 * src/sample/machine_threads.c, src/sample/annotation.c,
 * src/sample/vcpu_records.c, src/capture/sample_records.c.
 */
#include "capture/fxt_reader.h"
#include "capture/sample_records.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vmscope/export.h>
#include <vmscope/recording.h>
#include <vmscope/sample.h>

#include "sample/annotation.h"
#include "sample/vcpu_records.h"

#define LITTLE_NS    20000
#define LITTLE_BYTES (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Annotates the function with the most samples. */
static void annotate(struct vms_recording *recording)
{
	const struct vms_code_mode mode = { .bits = 64 };
	size_t n;
	g_autoptr(vms_profile) profile =
		vms_recording_profile(recording, VMS_PROFILE_BY_ADDRESS, false, NULL);
	const struct vms_profile_function *functions = vms_profile_functions(profile, &n);
	const struct vms_label *label = n ? vms_profile_label(profile, functions[0].label) : NULL;
	if (!label || label->kind != VMS_LABEL_FUNCTION)
		return;
	g_autoptr(GPtrArray) found = vms_annotations_find(
		profile, vms_recording_symbolizer(recording), label->name, NULL);
	for (guint i = 0; found && i < found->len; i++) {
		struct vms_annotation *annotation = g_ptr_array_index(found, i);
		g_autofree uint8_t *code = g_malloc(VMS_ANNOTATION_LIMIT);
		if (annotation->size && vms_annotation_read_file(annotation, code))
			vms_annotation_decode(annotation, &vms_arch_x86_64, &mode, code,
					      annotation->size, NULL);
		else
			vms_annotation_list_hits(annotation);
		uint64_t hits = 0;
		for (guint j = 0; j < annotation->instructions->len; j++)
			hits += g_array_index(annotation->instructions,
					      struct vms_annotated_instruction, j)
					.hits;
		g_assert_cmpuint(hits, ==, annotation->hits);
	}
}

/* Reads the one sample of records that were just written. */
static void read_written(const GByteArray *bytes, struct vms_sample_record *ret)
{
	struct vms_fxt_reader *reader =
		vms_fxt_reader_new((struct vms_bytes) { bytes->data, bytes->len });
	struct vms_fxt_record record;
	struct vms_fxt_damage damage;
	bool found = false;
	enum vms_fxt_step step;
	while ((step = vms_fxt_reader_next(reader, &record, &damage)) == VMS_FXT_RECORD)
		found |= vms_records_get_sample(&record, ret);
	g_assert_cmpint(step, ==, VMS_FXT_END);
	g_assert_true(found);
	vms_fxt_reader_free(reader);
}

/* Compares all members, and no bytes between them. */
static void assert_same(const struct vms_sample_record *a, const struct vms_sample_record *b)
{
	g_assert_cmpmem(a, G_STRUCT_OFFSET(struct vms_sample_record, stack.frame), b,
			G_STRUCT_OFFSET(struct vms_sample_record, stack.frame));
	for (unsigned i = 0; i < a->stack.n; i++) {
		const struct vms_frame *x = &a->stack.frame[i], *y = &b->stack.frame[i];
		g_assert_true(x->pc == y->pc && x->is_return == y->is_return &&
			      x->is_user == y->is_user && x->code == y->code);
	}
}

/* What a session writes of a sample is what was read. */
static void write_again(const struct vms_fxt_record *record)
{
	g_autofree struct vms_sample_record *sample = g_new0(struct vms_sample_record, 2);
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	if (!vms_records_get_sample(record, &sample[0]))
		return;
	vms_records_put_start(bytes, VMS_RECORDS_HOST);
	vms_records_put_sample(bytes, &sample[0]);
	read_written(bytes, &sample[1]);
	assert_same(&sample[0], &sample[1]);
}

/* The same of the numbers of vCPUs. */
static void write_vcpu_again(const struct vms_fxt_record *record)
{
	struct vms_sample_stats read = { 0 }, written = { 0 };
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	if (vms_records_number(record, "number") != 0 || !vms_vcpu_records_get(record, &read, 1))
		return;
	vms_records_put_start(bytes, VMS_RECORDS_HOST);
	vms_vcpu_records_put(bytes, 1, 0, &read);
	struct vms_fxt_reader *reader =
		vms_fxt_reader_new((struct vms_bytes) { bytes->data, bytes->len });
	struct vms_fxt_record again;
	struct vms_fxt_damage damage;
	while (vms_fxt_reader_next(reader, &again, &damage) == VMS_FXT_RECORD)
		vms_vcpu_records_get(&again, &written, 1);
	g_assert_cmpmem(&read, sizeof(read), &written, sizeof(written));
	vms_fxt_reader_free(reader);
}

/* What is left out is among the damages, once. */
static void assert_told(const struct vms_recording *recording, const char *losses)
{
	size_t n, costly = 0;
	const struct vms_recording_damage *damages = vms_recording_damages(recording, &n);
	for (size_t i = 0; i < n; i++)
		costly += damages[i].is_costly;
	g_assert_cmpuint(costly, ==, losses ? 1 : 0);
}

static void write_all_again(struct vms_bytes bytes)
{
	struct vms_fxt_reader *reader = vms_fxt_reader_new(bytes);
	struct vms_fxt_record record;
	struct vms_fxt_damage damage;
	enum vms_fxt_step step;
	while ((step = vms_fxt_reader_next(reader, &record, &damage)) != VMS_FXT_END) {
		if (step != VMS_FXT_RECORD)
			continue;
		write_again(&record);
		write_vcpu_again(&record);
	}
	vms_fxt_reader_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint64_t magic = GUINT64_TO_LE(VMS_FXT_MAGIC);
	const int fd = memfd_create("recording", MFD_CLOEXEC);
	g_assert_cmpint(write(fd, &magic, sizeof(magic)), ==, sizeof(magic));
	g_assert_cmpint(write(fd, data, size), ==, size);
	/* Each second one has little, so that what is cut off is seen, too. */
	const struct vms_budget_options options = { .size = sizeof(options),
						    .processor_ns = size % 2 ? LITTLE_NS : 0,
						    .bytes = size % 2 ? LITTLE_BYTES : 0 };
	g_autoptr(vms_budget) budget = vms_budget_new(&options, NULL);
	g_autoptr(vms_recording) recording = vms_recording_load_fd(fd, "it", budget, NULL);
	g_assert_nonnull(recording);
	struct vms_recording_stats stats;
	vms_recording_get_stats(recording, &stats);
	g_autoptr(vms_profile) profile = vms_recording_profile(recording, 0, false, NULL);
	g_assert_cmpint(profile != NULL, ==, stats.samples > 0);
	g_autofree char *losses = vms_budget_describe_losses(budget);
	if (profile) {
		size_t n;
		g_assert_cmpuint(vms_profile_trees(profile, &n)->samples, ==, stats.samples);
		g_autoptr(vms_run_facts) facts = vms_recording_facts(recording);
		g_autoptr(GString) text = g_string_new(NULL);
		vms_export_text(vms_exporter_by_path("it.txt"), profile, facts, NULL, text, NULL);
		assert_told(recording, losses);
		g_assert_true(g_utf8_validate(text->str, (gssize)text->len, NULL));
		annotate(recording);
	}
	close(fd);
	write_all_again((struct vms_bytes) { data, size, budget });
	return 0;
}
