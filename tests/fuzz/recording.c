/* SPDX-License-Identifier: MIT */
/*
 * A recording, after the magic number: what was mapped where, names, code and samples.
 *
 * Covers: src/sample/recording.c, src/sample/recording_code.c, src/sample/annotation.c,
 * src/capture/sample_records.c.
 */
#include "capture/fxt.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vmscope/export.h>
#include <vmscope/recording.h>
#include <vmscope/sample.h>

#include "sample/annotation.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint64_t magic = GUINT64_TO_LE(VMS_FXT_MAGIC);
	const int fd = memfd_create("recording", MFD_CLOEXEC);
	g_assert_cmpint(write(fd, &magic, sizeof(magic)), ==, sizeof(magic));
	g_assert_cmpint(write(fd, data, size), ==, size);
	g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
	g_autoptr(vms_recording) recording = vms_recording_load(path, NULL);
	g_assert_nonnull(recording);
	struct vms_recording_stats stats;
	vms_recording_get_stats(recording, &stats);
	g_autoptr(vms_profile) profile = vms_recording_profile(recording, 0, false, NULL);
	g_assert_cmpint(profile != NULL, ==, stats.samples > 0);
	if (profile) {
		size_t n;
		g_assert_cmpuint(vms_profile_trees(profile, &n)->samples, ==, stats.samples);
		g_autoptr(vms_run_facts) facts = vms_recording_facts(recording);
		g_autoptr(GString) text = g_string_new(NULL);
		vms_export_text(vms_exporter_by_path("it.txt"), profile, facts, NULL, text, NULL);
		g_assert_true(g_utf8_validate(text->str, (gssize)text->len, NULL));
		annotate(recording);
	}
	close(fd);
	return 0;
}
