/* SPDX-License-Identifier: MIT */
/* Writes a flame graph of a report with names that XML and JSON have to escape, for svg.py. */
#include "fake_guest.h"
#include "fake_machine.h"
#include <stdio.h>
#include <stdlib.h>
#include <vmscope/export.h>
#include <vmscope/sample.h>

#define KERNEL	UINT64_C(0xffff800000001000)
#define SAMPLES 250 /* of each vCPU */

static const char *const names[] = { "do_syscall_64", "a<b>&\"c\"'d'\\", "]]></script>",
				     "caf\303\251",   "operator;new",	 "ksys_read",
				     "vfs_read",      "x\001y\033[0m" };

/* Random stacks of up to `depth` frames. */
static struct fake_sample *make_samples(struct vms_guest *guest, unsigned n, unsigned depth)
{
	const struct vms_process *process = fake_guest_add_process(guest, "sh <&>", 7, false);
	struct fake_sample *samples = g_new0(struct fake_sample, n);
	for (unsigned i = 0; i < n; i++) {
		unsigned frames = (unsigned)g_random_int_range(0, (int)depth + 1);
		samples[i].idle = frames == 0;
		samples[i].process = i % 3 ? process : NULL;
		samples[i].end = i % 4 ? VMS_WALK_ROOT : VMS_WALK_BAD_FRAME;
		for (unsigned j = 0; j < frames; j++)
			samples[i].frames[j] = (struct vms_frame) {
				.pc = KERNEL + (uint64_t)g_random_int_range(0, 10) * 16,
				.is_user = j >= frames / 2,
			};
	}
	return samples;
}

/* Goes on until every sample of both vCPUs was taken, however slow the machine is. */
static bool progress(int percent, void *data)
{
	bool done = true;
	struct vms_sample_stats stats;

	for (unsigned i = 0; percent != 100 && i < 2; i++)
		done &= vms_sample_report_stats(data, i, &stats) && stats.samples >= SAMPLES;
	return !done;
}

int main(int argc, char **argv)
{
	unsigned flags = argc > 1 ? VMS_SAMPLE_LEAF_FIRST : 0;
	g_autoptr(vms_machine) machine = fake_machine_new(&vms_arch_x86_64, 2);
	g_autoptr(vms_guest) guest = fake_guest_new(machine, VMS_GUEST_LINUX);
	g_autofree struct fake_sample *samples = make_samples(guest, 2 * SAMPLES, 11);

	(void)argv;
	for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
		fake_guest_add_symbol(guest, names[i], i == 6 ? "fs & <co>" : NULL, KERNEL + i * 16,
				      16);
	for (unsigned i = 0; i < 2; i++)
		fake_guest_set_samples(guest, i, samples + SAMPLES * i, SAMPLES);

	g_autoptr(vms_sample_report) report =
		vms_sample_report_new(machine, guest, 50, flags, NULL);
	if (!vms_sample_report_start(report, 0, progress, report, NULL))
		return EXIT_FAILURE;
	vms_sample_report_wait(report, UINT64_MAX);
	g_autoptr(vms_profile) profile = vms_sample_report_profile(report, 0, NULL);
	g_autoptr(vms_run_facts) facts = vms_sample_report_facts(report);
	GString *svg = g_string_new(NULL);
	if (!vms_export_text(vms_exporter_by_name("svg", NULL), profile, facts, NULL, svg, NULL))
		return EXIT_FAILURE;
	fwrite(svg->str, 1, svg->len, stdout);
	g_string_free(svg, TRUE);
	return EXIT_SUCCESS;
}
