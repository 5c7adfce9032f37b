/* SPDX-License-Identifier: MIT */
/*
 * Where does a guest spend its time? Samples the QEMU of a process for some seconds, and prints the
 * functions that were executed most, each with its share of the samples.
 *
 * cc sample.c -o sample $(pkg-config --cflags --libs vmscope); ./sample PID SECONDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <vmscope/vmscope.h>

#define INTERVAL_US 10000
#define FUNCTIONS   20

static void print_functions(const struct vms_profile *profile)
{
	size_t n;
	const struct vms_profile_function *functions = vms_profile_functions(profile, &n);
	uint64_t samples = 0;
	for (size_t i = 0; i < n; i++)
		samples += functions[i].self;
	for (size_t i = 0; i < MIN(n, FUNCTIONS); i++) {
		const struct vms_label *label = vms_profile_label(profile, functions[i].label);
		printf("%6.2f %%  %s", 100.0 * (double)functions[i].self / (double)samples,
		       label->name ? label->name : "?");
		printf(label->module ? " (%s)\n" : "\n", label->module);
	}
}

static bool sample(pid_t pid, uint64_t seconds, GError **error)
{
	g_autoptr(vms_machine) machine = vms_machine_open_pid(pid, error);
	if (!machine)
		return false;
	/* NULL: the report finds out itself which guest runs there. */
	g_autoptr(vms_sample_report) report =
		vms_sample_report_new(machine, NULL, INTERVAL_US, 0, error);
	if (!report ||
	    !vms_sample_report_start(report, seconds * G_USEC_PER_SEC * 1000, NULL, NULL, error))
		return false;
	vms_sample_report_wait(report, UINT64_MAX);
	g_autoptr(vms_profile) profile =
		vms_sample_report_profile(report, VMS_PROFILE_MERGE_VCPUS, error);
	if (profile)
		print_functions(profile);
	return profile;
}

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	if (argc != 3) {
		fprintf(stderr, "usage: %s PID SECONDS\n", argv[0]);
		return EXIT_FAILURE;
	}
	if (sample((pid_t)atoi(argv[1]), strtoull(argv[2], NULL, 10), &error))
		return EXIT_SUCCESS;
	fprintf(stderr, "%s\n", error->message);
	return EXIT_FAILURE;
}
