/* SPDX-License-Identifier: MIT */
/*
 * Does to a machine what the lines of standard input say, and answers each with
 * one line: "ok …" or "error CODE MESSAGE". For tests that kill it midway.
 *
 *   machine pid|qmp|gdb|core ADDRESS
 *   machine kvm PID,PA:SIZE@VA,…
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vmscope/dump.h>
#include <vmscope/guest.h>
#include <vmscope/log.h>
#include <vmscope/sample.h>

static void on_log(enum vms_log_level level, const char *message, void *data)
{
	(void)data;
	fprintf(stderr, "%d %s\n", (int)level, message);
}

#define PLACES_MAX 8

static struct vms_machine *open_kvm(const char *address, GError **error)
{
	struct vms_ram_place places[PLACES_MAX];
	size_t n = 0;
	int pid = atoi(address);
	while (n < PLACES_MAX && (address = strchr(address, ','))) {
		if (sscanf(++address,
			   "%" G_GINT64_MODIFIER "i:%" G_GINT64_MODIFIER "i@%" G_GINT64_MODIFIER
			   "i",
			   (gint64 *)&places[n].pa, (gint64 *)&places[n].size,
			   (gint64 *)&places[n].hva) == 3)
			n++;
	}
	return vms_machine_open_kvm(pid, places, n, error);
}

static struct vms_machine *open_machine(const char *how, const char *address, GError **error)
{
	if (strcmp(how, "pid") == 0)
		return vms_machine_open_pid(atoi(address), error);
	if (strcmp(how, "qmp") == 0)
		return vms_machine_open_qmp(address, error);
	if (strcmp(how, "kvm") == 0)
		return open_kvm(address, error);
	if (strcmp(how, "core") == 0)
		return vms_machine_open_core(address, error);
	return vms_machine_open_gdb(address, error);
}

static void print_regs(struct vms_machine *machine, unsigned vcpu, GError **error)
{
	const struct vms_arch *arch = vms_machine_arch(machine);
	struct vms_regs regs;
	if (!vms_machine_regs(machine, vcpu, &regs, error))
		return;
	printf("ok");
	for (unsigned i = 0; i < arch->n_regs; i++) {
		if (vms_regs_have(&regs, i))
			printf(" %s=%#" G_GINT64_MODIFIER "x", arch->regs[i].name, regs.value[i]);
	}
	printf("\n");
}

static void print_memory(struct vms_machine *machine, uint64_t pa, size_t size)
{
	g_autofree uint8_t *buf = g_malloc(size);
	if (!vms_machine_read_phys(machine, pa, buf, size)) {
		printf("ok unreadable\n");
		return;
	}
	printf("ok ");
	for (size_t i = 0; i < size; i++)
		printf("%02x", buf[i]);
	printf("\n");
}

static void print_facts(struct vms_machine *machine)
{
	const struct vms_machine_info *info = vms_machine_info(machine);
	size_t n;
	vms_machine_ranges(machine, &n);
	printf("ok name=%s engine=%s pid=%d accelerator=%s vcpus=%u thread=%d ranges=%zu "
	       "description=%s\n",
	       info->name, info->engine, (int)info->pid,
	       info->accelerator ? info->accelerator : "none", vms_machine_vcpus(machine),
	       (int)vms_machine_vcpu_thread(machine, 0), n, info->description);
}

static void print_ranges(struct vms_machine *machine)
{
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n);
	printf("ok");
	for (size_t i = 0; i < n; i++)
		printf(" %#" G_GINT64_MODIFIER "x:%#" G_GINT64_MODIFIER "x:%d:%s", ranges[i].pa,
		       ranges[i].size, (int)ranges[i].kind, ranges[i].name);
	printf("\n");
}

/* How much of all memory may be anything but zeros. */
static void print_data(struct vms_machine *machine)
{
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n);
	uint64_t begin, stop, sum = 0, count = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t end = ranges[i].pa + ranges[i].size;
		if (ranges[i].kind == VMS_RANGE_MMIO)
			continue;
		for (uint64_t pa = ranges[i].pa;
		     vms_machine_next_data(machine, pa, end, &begin, &stop); pa = stop) {
			sum += stop - begin;
			count++;
		}
	}
	printf("ok stretches=%" G_GUINT64_FORMAT " bytes=%" G_GUINT64_FORMAT "\n", count, sum);
}

/* All memory into a file, where an offset is an address; holes are not read. */
static void save_memory(struct vms_machine *machine, const char *path)
{
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(machine, &n);
	const size_t block = 1 << 20;
	g_autofree uint8_t *buf = g_malloc(block);
	FILE *file = fopen(path, "wbe");
	bool saved = file != NULL;
	for (size_t i = 0; saved && i < n; i++) {
		uint64_t end = ranges[i].pa + ranges[i].size, begin, stop;
		if (ranges[i].kind == VMS_RANGE_MMIO)
			continue;
		for (uint64_t pa = ranges[i].pa;
		     saved && vms_machine_next_data(machine, pa, end, &begin, &stop); pa = stop) {
			stop = MIN(stop, begin + block);
			saved = vms_machine_read_phys(machine, begin, buf, stop - begin) &&
				fseeko(file, (off_t)begin, SEEK_SET) == 0 &&
				fwrite(buf, 1, stop - begin, file) == stop - begin;
		}
	}
	if (file)
		saved &= fclose(file) == 0;
	printf(saved ? "ok\n" : "not saved\n");
}

static void dump(struct vms_machine *machine, const char *path, GError **error)
{
	const struct vms_dump_options options = { .size = sizeof(options), .overwrite = true };
	g_auto(vms_dump_result) result = { 0 };
	g_autoptr(vms_guest) guest = vms_guest_detect(machine, error);
	g_autoptr(vms_dump) job =
		guest ? vms_dump_start(machine, guest, path, &options, error) : NULL;
	if (job && vms_dump_finish(job, &result, error))
		printf("ok %" G_GUINT64_FORMAT " bytes\n", result.memory);
}

static void print_item(struct vms_machine *machine, const char *name, GError **error)
{
	g_autofree char *text = vms_machine_item_text(machine, name, error);
	if (text)
		printf("ok %zu bytes\n", strlen(text));
}

static struct vms_sample_report *report; /* of the machine, once it was sampled */

/* Samples for so many ms, by the same report each time, with the guest that was found first. */
static void sample(struct vms_machine *machine, uint64_t ms, GError **error)
{
	if (!report) {
		g_autoptr(vms_guest) guest = vms_guest_detect(machine, error);
		report = guest ? vms_sample_report_new(machine, guest, 10000, 0, error) : NULL;
	}
	if (!report || !vms_sample_report_start(report, ms * 1000000, NULL, NULL, error))
		return;
	vms_sample_report_wait(report, UINT64_MAX);
	uint64_t samples = 0;
	struct vms_sample_stats stats;
	for (unsigned i = 0; vms_sample_report_stats(report, i, &stats); i++)
		samples += stats.samples;
	printf("ok samples=%" G_GUINT64_FORMAT " guest=%s end=%s\n", samples,
	       vms_guest_kind(vms_sample_report_guest(report)) == VMS_GUEST_LINUX ? "Linux"
										  : "none",
	       vms_sample_end_text(vms_sample_report_end(report)));
}

static void execute(struct vms_machine *machine, char **words, GError **error)
{
	const char *verb = words[0];
	uint64_t a = words[1] ? g_ascii_strtoull(words[1], NULL, 0) : 0;
	uint64_t b = words[1] && words[2] ? g_ascii_strtoull(words[2], NULL, 0) : 0;
	int vcpu = words[1] ? (int)a : VMS_ALL_VCPUS;
	if (strcmp(verb, "hold") == 0) {
		if (vms_machine_hold(machine, vcpu, error))
			printf("ok\n");
	} else if (strcmp(verb, "release") == 0) {
		if (vms_machine_release(machine, vcpu, error))
			printf("ok\n");
	} else if (strcmp(verb, "regs") == 0) {
		print_regs(machine, (unsigned)a, error);
	} else if (strcmp(verb, "read") == 0) {
		print_memory(machine, a, b);
	} else if (strcmp(verb, "facts") == 0) {
		print_facts(machine);
	} else if (strcmp(verb, "ranges") == 0) {
		print_ranges(machine);
	} else if (strcmp(verb, "data") == 0) {
		print_data(machine);
	} else if (strcmp(verb, "save") == 0) {
		save_memory(machine, words[1]);
	} else if (strcmp(verb, "dump") == 0) {
		dump(machine, words[1], error);
	} else if (strcmp(verb, "item") == 0) {
		print_item(machine, words[1], error);
	} else if (strcmp(verb, "limit") == 0) {
		vms_machine_set_hold_limit(machine, strtoull(words[1], NULL, 0));
		printf("ok\n");
	} else if (strcmp(verb, "paused") == 0) {
		printf("ok %d\n", vms_machine_is_paused(machine));
	} else if (strcmp(verb, "ended") == 0) {
		printf("ok %d\n", (int)vms_machine_ended(machine));
	} else if (strcmp(verb, "resets") == 0) {
		printf("ok %" G_GUINT64_FORMAT "\n", vms_machine_resets(machine));
	} else if (strcmp(verb, "sample") == 0) {
		sample(machine, a, error);
	} else if (strcmp(verb, "epoch") == 0) {
		printf("ok %" G_GUINT64_FORMAT "\n", vms_machine_epoch(machine, VMS_ALL_VCPUS));
	} else {
		printf("what? %s\n", verb);
	}
}

static void print_error(GError *error)
{
	if (error)
		printf("error %d %s\n", error->code, error->message);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	vms_log_set_handler(on_log, NULL, VMS_LOG_INFO);
	g_autoptr(GError) error = NULL;
	g_autoptr(vms_machine) machine = open_machine(argv[1], argv[2], &error);
	if (machine)
		printf("ok pid %d\n", (int)getpid());
	print_error(error);
	/* The tests have a monitor of their own. */
	if (machine)
		vms_machine_allow_stop(machine, true);
	char line[256];
	while (machine && fgets(line, sizeof(line), stdin)) {
		g_autoptr(GError) failure = NULL;
		g_auto(GStrv) words = g_strsplit(g_strstrip(line), " ", -1);
		if (words[0])
			execute(machine, words, &failure);
		print_error(failure);
	}
	bool opened = machine != NULL;
	g_clear_pointer(&report, vms_sample_report_unref);
	g_clear_pointer(&machine, vms_machine_unref);
	vms_log_set_handler(NULL, NULL, VMS_LOG_INFO);
	return opened ? 0 : 1;
}
