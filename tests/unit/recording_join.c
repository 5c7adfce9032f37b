/* SPDX-License-Identifier: MIT */
/*
 * Recordings of a host and a guest: which samples of a machine's threads get the guest's stack. The
 * file is written here, sample by sample; what is expected of it is written beside.
 */
#include "capture/fxt_writer.h"
#include "capture/sample_records.h"
#include <string.h>
#include <unistd.h>
#include <vmscope/export.h>
#include <vmscope/recording.h>
#include <vmscope/sample.h>

#define PERIOD	UINT64_C(1000000)
#define MACHINE 100 /* the process; its threads follow */
#define VCPU_0	101
#define VCPU_1	102
#define WORKER	103

static void put_session(GByteArray *out, enum vms_records_system of)
{
	struct vms_fxt_record event = vms_records_event("session", 1, 0);
	vms_records_put_start(out, of);
	vms_records_add_text(&event, "engine", of == VMS_RECORDS_GUEST ? "guest" : "host");
	vms_records_add_text(&event, "guest", "box");
	vms_records_add_number(&event, "period", PERIOD);
	vms_records_add_number(&event, "cpus", 2);
	vms_fxt_write(out, &event);
}

/* Ends the session of the current system, with a number of lost samples. */
static void put_end(GByteArray *out, uint64_t lost)
{
	struct vms_fxt_record event = vms_records_event("end", 2, 0);
	vms_records_add_number(&event, "lost", lost);
	vms_fxt_write(out, &event);
}

static void put_process(GByteArray *out, uint32_t pid, const char *comm)
{
	struct vms_fxt_record event = vms_records_event("process", 1, pid);
	vms_records_add_text(&event, "comm", comm);
	vms_fxt_write(out, &event);
}

static void put_mapping(GByteArray *out, uint32_t pid, uint32_t file, const char *path,
			uint64_t start)
{
	struct vms_fxt_record event = vms_records_event("file", 1, 0);
	vms_records_add_number(&event, "number", file);
	vms_records_add_text(&event, "path", path);
	vms_fxt_write(out, &event);
	event = vms_records_event("mapping", 1, pid);
	vms_records_add_number(&event, "start", start);
	vms_records_add_number(&event, "end", start + 0x1000);
	vms_records_add_number(&event, "offset", 0);
	vms_records_add_number(&event, "file", file);
	vms_fxt_write(out, &event);
}

static void put_symbols(GByteArray *out, const char *name, const char *text)
{
	const struct vms_fxt_record record = { .type = VMS_FXT_LARGE_BLOB,
					       .kind = VMS_FXT_BLOB_ATTACHMENT,
					       .category = vms_fxt_inline(VMS_RECORDS_CATEGORY),
					       .name = vms_fxt_inline(name),
					       .payload = text,
					       .payload_size = strlen(text) };
	g_assert_true(vms_fxt_write(out, &record));
}

static void put_vcpu_thread(GByteArray *out, unsigned vcpu, uint32_t tid)
{
	struct vms_fxt_record event = vms_records_event("vcpu thread", 1, 0);
	vms_records_add_number(&event, "number", vcpu);
	vms_records_add_number(&event, "process", MACHINE);
	vms_records_add_number(&event, "thread", tid);
	vms_fxt_write(out, &event);
}

/*
 * What is the same in all files: both systems have a process 100, and a kernel at one address.
 * `lost` are samples of the host.
 */
static GByteArray *begin_file(uint64_t lost)
{
	GByteArray *out = g_byte_array_new();
	put_session(out, VMS_RECORDS_HOST);
	put_process(out, MACHINE, "qemu");
	put_mapping(out, MACHINE, 1, "/bin/qemu", 0x10000);
	put_mapping(out, MACHINE, 2, "[anon]", 0x20000);
	put_symbols(out, VMS_RECORDS_SYMBOLS, "1\n10 10 cpu_loop\n20 10 store\n30 10 helper_div\n");
	put_symbols(out, VMS_RECORDS_KERNEL,
		    "ffff0010 10 kvm_vcpu_ioctl\nffff0020 10 vmx_vcpu_run.isra.0\n"
		    "ffff0030 10 handle_exit\n");
	vms_records_put_thread(out, MACHINE, MACHINE, "qemu");
	vms_records_put_thread(out, MACHINE, WORKER, "IO disk");
	put_end(out, lost);
	put_session(out, VMS_RECORDS_GUEST);
	put_process(out, MACHINE, "init");
	put_mapping(out, MACHINE, 1, "/sbin/init", 0x10000);
	put_symbols(out, VMS_RECORDS_SYMBOLS, "1\n10 10 work\n20 10 rest\n");
	put_symbols(out, VMS_RECORDS_KERNEL, "ffff0010 10 do_syscall\n");
	put_vcpu_thread(out, 0, VCPU_0);
	put_vcpu_thread(out, 1, VCPU_1);
	put_end(out, 5);
	return out;
}

/* Adds a sample with at most three frames, leaf first, of which `n_kernel` are the kernel's. */
static void put_sample(GByteArray *out, enum vms_records_system of, uint32_t vcpu, uint32_t tid,
		       uint64_t time_ns, unsigned n_kernel, const uint64_t pcs[3])
{
	g_autofree struct vms_sample_record *sample = g_new0(struct vms_sample_record, 1);
	sample->time_ns = time_ns;
	sample->vcpu = vcpu;
	sample->pid = MACHINE;
	sample->tid = tid;
	for (; sample->stack.n < 3 && pcs[sample->stack.n]; sample->stack.n++)
		sample->stack.frame[sample->stack.n].pc = pcs[sample->stack.n];
	sample->stack.n_kernel = n_kernel;
	sample->in_guest = of == VMS_RECORDS_HOST && sample->stack.n == 0;
	sample->idle = of == VMS_RECORDS_GUEST && sample->stack.n == 0;
	vms_records_put_start(out, of);
	vms_records_put_sample(out, sample);
}

static const uint64_t nothing[3], translated[3] = { 0x20010, 0x1234 },
				  store[3] = { 0x10024, 0x20011 }, divide[3] = { 0x10034, 0x10014 },
				  qemu[3] = { 0x10024, 0x10014 },
				  emulated[3] = { 0xffff0038, 0xffff0024, 0xffff0014 },
				  exited[3] = { 0xffff0034, 0xffff0014 }, work[3] = { 0x10014 },
				  call[3] = { 0xffff0014, 0x10024 };

static void put_host(GByteArray *out, uint32_t tid, uint64_t time_ns, unsigned n_kernel,
		     const uint64_t pcs[3])
{
	put_sample(out, VMS_RECORDS_HOST, 0, tid, time_ns, n_kernel, pcs);
}

static void put_guest(GByteArray *out, uint32_t vcpu, uint64_t time_ns, unsigned n_kernel,
		      const uint64_t pcs[3])
{
	put_sample(out, VMS_RECORDS_GUEST, vcpu, 100, time_ns, n_kernel, pcs);
}

static struct vms_recording *load(const GByteArray *bytes)
{
	g_autofree char *path = NULL;
	const int fd = g_file_open_tmp("join-XXXXXX", &path, NULL);
	g_assert_cmpint(write(fd, bytes->data, bytes->len), ==, (ssize_t)bytes->len);
	close(fd);
	struct vms_recording *recording = vms_recording_load(path, NULL);
	unlink(path);
	g_assert_nonnull(recording);
	return recording;
}

/* Compares with the lines of folded stacks, in any order. */
static void assert_stacks(struct vms_recording *recording, unsigned flags, const char *const *lines)
{
	g_autoptr(GString) text = g_string_new(NULL);
	g_autoptr(vms_profile) profile = vms_recording_profile(recording, flags, false, NULL);
	g_autoptr(vms_run_facts) facts = vms_recording_facts(recording);
	g_assert_true(vms_export_text(vms_exporter_by_name("folded", NULL), profile, facts, NULL,
				      text, NULL));
	g_auto(GStrv) found = g_strsplit(text->str, "\n", -1);
	size_t n = 0, n_found = 0;
	for (; lines[n]; n++)
		if (!g_strv_contains((const char *const *)found, lines[n]))
			g_error("no line \"%s\" in:\n%s", lines[n], text->str);
	for (size_t i = 0; found[i]; i++)
		n_found += found[i][0] && found[i][0] != '#';
	g_assert_cmpuint(n_found, ==, n);
}

/* Where the host's stack says that the guest executed, and what is shown of it. */
static void test_entries(void)
{
	g_autoptr(GByteArray) out = begin_file(3);
	for (unsigned i = 1; i <= 7; i++)
		put_guest(out, 0, i * PERIOD, 0, work);
	put_host(out, VCPU_0, 1 * PERIOD, 0, nothing);
	put_host(out, VCPU_0, 2 * PERIOD, 0, translated);
	put_host(out, VCPU_0, 3 * PERIOD, 0, store);
	put_host(out, VCPU_0, 4 * PERIOD, 3, emulated);
	put_host(out, VCPU_0, 5 * PERIOD, 2, exited);
	put_host(out, VCPU_0, 6 * PERIOD, 0, qemu);
	put_host(out, VCPU_0, 7 * PERIOD, 0, divide);
	put_host(out, MACHINE, 1 * PERIOD, 0, translated); /* no vCPU's thread */
	put_host(out, WORKER, 1 * PERIOD, 0, qemu);
	g_autoptr(vms_recording) recording = load(out);
	static const char *const lines[] = {
		"qemu (100);[vCPU 0];[guest];init (100);work 4",
		"qemu (100);[vCPU 0];kvm_vcpu_ioctl;vmx_vcpu_run.isra.0;[guest];init (100);work 1",
		"qemu (100);[vCPU 0];kvm_vcpu_ioctl;handle_exit 1",
		"qemu (100);[vCPU 0];cpu_loop;store 1",
		"qemu (100);[main loop];0x1234;[anon]+0x10 1",
		"qemu (100);[I/O thread disk];cpu_loop;store 1",
		NULL
	};
	assert_stacks(recording, 0, lines);
	struct vms_recording_stats stats;
	vms_recording_get_stats(recording, &stats);
	g_assert_cmpuint(stats.samples, ==, 9);
	g_assert_cmpuint(stats.guest_samples, ==, 7);
	g_assert_cmpuint(stats.in_guest, ==, 5);
	g_assert_cmpuint(stats.joined, ==, 5);
}

/* The nearest sample of that vCPU, at most half a period away, and none of a halted one. */
static void test_nearest(void)
{
	g_autoptr(GByteArray) out = begin_file(3);
	put_guest(out, 1, 10 * PERIOD, 0, work);
	put_guest(out, 1, 11 * PERIOD, 1, call);
	put_guest(out, 1, 20 * PERIOD, 0, nothing);
	put_guest(out, 1, 21 * PERIOD, 0, work);
	put_guest(out, 0, 30 * PERIOD, 0, work);
	put_host(out, VCPU_1, 9 * PERIOD + PERIOD / 10, 0, nothing); /* too far */
	put_host(out, VCPU_1, 9 * PERIOD + 6 * PERIOD / 10, 0, nothing);
	put_host(out, VCPU_1, 10 * PERIOD + 4 * PERIOD / 10, 0, nothing);
	put_host(out, VCPU_1, 10 * PERIOD + 6 * PERIOD / 10, 0, nothing);
	put_host(out, VCPU_1, 11 * PERIOD + 9 * PERIOD / 10, 0, nothing); /* too far */
	put_host(out, VCPU_1, 20 * PERIOD, 0, nothing);			  /* it was halted */
	put_host(out, VCPU_1, 20 * PERIOD + 6 * PERIOD / 10, 0, nothing);
	put_host(out, VCPU_1, 30 * PERIOD, 0, nothing); /* that was another one */
	g_autoptr(vms_recording) recording = load(out);
	static const char *const lines[] = {
		"qemu (100);[vCPU 1];[guest];init (100);work 3",
		"qemu (100);[vCPU 1];[guest];init (100);rest;do_syscall 1",
		"qemu (100);[vCPU 1];[guest: not known] 4", NULL
	};
	assert_stacks(recording, 0, lines);
	static const char *const names[] = { "[vCPU 1];[guest];work 3",
					     "[vCPU 1];[guest];rest;do_syscall 1",
					     "[vCPU 1];[guest: not known] 4", NULL };
	assert_stacks(recording, VMS_PROFILE_WITHOUT_PROCESSES, names);
	struct vms_recording_stats stats;
	vms_recording_get_stats(recording, &stats);
	g_assert_cmpuint(stats.in_guest, ==, 8);
	g_assert_cmpuint(stats.joined, ==, 4);
	g_assert_true(stats.is_complete);
	g_assert_cmpuint(stats.session.lost, ==, 3);
	g_assert_cmpuint(stats.guest_session.lost, ==, 5);
}

/* Appends samples of vCPU 0 and its thread, which are further apart than half a period. */
static void put_distant(GByteArray *out)
{
	put_guest(out, 0, 10 * PERIOD, 0, work);
	put_guest(out, 0, 20 * PERIOD, 1, call);
	put_guest(out, 0, 30 * PERIOD, 0, nothing);
	put_guest(out, 0, 40 * PERIOD, 0, work);
	put_host(out, VCPU_0, 13 * PERIOD, 0, nothing); /* it has run at 12 and at 17 */
	put_host(out, VCPU_0, 12 * PERIOD, 0, nothing); /* as at 10 */
	put_host(out, VCPU_1, 11 * PERIOD, 0, nothing); /* that was another one */
	put_host(out, VCPU_0, 17 * PERIOD, 0, nothing); /* as at 20 */
	put_host(out, VCPU_0, 25 * PERIOD, 0, nothing); /* as at 20 */
	put_host(out, VCPU_0, 28 * PERIOD, 0, nothing); /* it has run at 25, and was halted at 30 */
	put_host(out, VCPU_0, 33 * PERIOD, 0, nothing); /* it has run at 36 */
	put_host(out, VCPU_0, 36 * PERIOD, 0, nothing); /* as at 40 */
}

/* A thread without a sample in between has hardly run. If samples are lost, nobody knows that. */
static void test_distant(void)
{
	g_autoptr(GByteArray) out = begin_file(0), lossy = begin_file(1);
	put_distant(out);
	put_distant(lossy);
	g_autoptr(vms_recording) recording = load(out), less = load(lossy);
	static const char *const lines[] = { "qemu (100);[vCPU 0];[guest];init (100);work 2",
					     "qemu (100);[vCPU 0];[guest];init "
					     "(100);rest;do_syscall 2",
					     "qemu (100);[vCPU 0];[guest: not known] 3",
					     "qemu (100);[vCPU 1];[guest: not known] 1", NULL };
	assert_stacks(recording, 0, lines);
	static const char *const few[] = { "qemu (100);[vCPU 0];[guest: not known] 7",
					   "qemu (100);[vCPU 1];[guest: not known] 1", NULL };
	assert_stacks(less, 0, few);
}

/* One thread that executes all vCPUs, as of TCG without threads: which one it was is not known. */
static void test_shared_thread(void)
{
	g_autoptr(GByteArray) out = begin_file(0);
	put_vcpu_thread(out, 1, VCPU_0);
	put_guest(out, 0, PERIOD, 0, work);
	put_guest(out, 1, PERIOD, 1, call);
	put_host(out, VCPU_0, PERIOD, 0, translated);
	put_host(out, VCPU_0, PERIOD, 0, qemu);
	g_autoptr(vms_recording) recording = load(out);
	static const char *const lines[] = { "qemu (100);[all vCPUs];[guest: not known] 1",
					     "qemu (100);[all vCPUs];cpu_loop;store 1", NULL };
	assert_stacks(recording, 0, lines);
}

/* A guest alone, in a file from before there were two providers. */
static void test_guest_alone(void)
{
	g_autoptr(GByteArray) out = g_byte_array_new();
	put_session(out, VMS_RECORDS_GUEST);
	put_process(out, MACHINE, "init");
	put_guest(out, 0, PERIOD, 0, work);
	for (guint i = 0; i + 16 <= out->len; i++) /* the number in each record of a provider */
		if (memcmp(out->data + i, "\x10\x00\x04\x46\x78\x54\x16\x00", 8) == 0) {
			g_assert_cmphex(out->data[i + 8 + 2], ==, 0x21);
			out->data[i + 8 + 2] = 0x11;
		}
	g_autoptr(vms_recording) recording = load(out);
	g_autoptr(vms_run_facts) facts = vms_recording_facts(recording);
	g_assert_false(facts->is_host);
	static const char *const lines[] = { "init (100);0x10014 1", NULL };
	assert_stacks(recording, 0, lines);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/recording-join/entries", test_entries);
	g_test_add_func("/recording-join/nearest", test_nearest);
	g_test_add_func("/recording-join/distant", test_distant);
	g_test_add_func("/recording-join/shared-thread", test_shared_thread);
	g_test_add_func("/recording-join/guest-alone", test_guest_alone);
	return g_test_run();
}
