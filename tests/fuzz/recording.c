/* SPDX-License-Identifier: MIT */
/*
 * A recording, after the magic number: what was mapped where, names and samples.
 *
 * Covers: src/sample/recording.c, src/capture/sample_records.c.
 */
#include "capture/fxt.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vmscope/export.h>
#include <vmscope/recording.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
	}
	close(fd);
	return 0;
}
