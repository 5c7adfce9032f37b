/* SPDX-License-Identifier: MIT */
/*
 * A KVM monitor of the tests' own: vCPUs with the guest of tests/guests/vcpus.c, and the ways in
 * which monitors differ. Without a name for its memory, without a socket, as the smallest of them
 * are.
 *
 *   kvm-monitor [OPTION…] ELF MODE…      one vCPU for each MODE, a number of vcpus.h, or "-" for
 * one that is made and not started
 *
 *   --low MIB, --high MIB   memory at 0 and at 4 GiB; --high 0: none
 *   --memfd                 both in one shared file, else private and anonymous, one mapping each
 *   --one                   with the file's or mapping's parts in one piece, low and high behind it
 *   --reversed              the same, with the high part first
 *   --duplicate             each vCPU's descriptor twice, as Firecracker has it, and the machine's,
 * as crosvm has it
 *   --seccomp               threads of vCPUs may not call restart_syscall(2), as Cloud Hypervisor's
 *   --userfaultfd           memory is registered with a userfaultfd that nobody serves; untouched
 * pages
 *   --saved FILE            memory is this file's, by guest-physical address, instead of a guest of
 * ours; vCPUs are paused from the beginning, and their pages say what the lines `VCPU REGISTER
 * VALUE` of FILE.regs say: as if they had just been kicked
 *   --second                another machine in the same process, with vCPU 100, which never runs
 *   --no-capabilities       it gives up its capabilities: others without any may trace it
 *   --user-halt             HLT comes to the monitor, which lets the thread wait; else the kernel
 * waits
 *
 * Lines of standard input, each answered by "ok" and what is said here: `threads` (ids of the
 * vCPUs' threads); `pause` and `resume` all vCPUs, by a signal (microseconds that took); `add MODE`
 * a vCPU; `rounds` (as the guest has counted); `places` (PA:SIZE@VA of memory); `valid`
 * (kvm_valid_regs of each vCPU); `end N` the thread of a vCPU; `forget` (from then on
 * kvm_valid_regs of all vCPUs is cleared again and again, as by another vmscope that ends);
 * `undump` (the process may not be traced without capabilities from then on); `exec` (it becomes
 * sleep(1)). It ends with its input.
 */
#include "../guests/vcpus.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIGH_PA	   (UINT64_C(1) << 32)
#define TABLES_PA  0x1000  /* page tables of the guest, below its code */
#define STACK_SIZE 0x4000  /* of a vCPU */
#define LOW_STACKS 0x80000 /* end of the stacks of even vCPUs */
#define HIGH_STACKS                                                                                \
	0x100000 /* the same of odd ones, behind the begin of high memory, if there is any */

struct vcpu {
	int fd;
	unsigned number;
	int mode; /* -1: not started */
	struct kvm_run *run;
	pthread_t thread;
	_Atomic pid_t tid;
	atomic_bool is_paused, is_ending;
};

static struct {
	int low, high;
	gboolean memfd, one, reversed, duplicate, seccomp, userfaultfd, user_halt, second,
		no_capabilities;
	char *saved;
	int kvm, vm;
	uint8_t *low_at, *high_at;
	uint64_t entry, rounds_pa;
	struct vcpu vcpus[VCPUS_MAX];
	unsigned n;
	_Atomic uint32_t pause; /* 1: vCPUs are to wait; a futex */
} monitor;

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "kvm-monitor: %s: %s\n", what, strerror(errno));
	_exit(1);
}

/* ---- memory ------------------------------------------------------------------------ */

static uint64_t mib(int n)
{
	return (uint64_t)n << 20;
}

/* Keeps what is mapped before and after apart: as the guard pages of some monitors. */
static void map_guard(void)
{
	mmap(NULL, 0x200000, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static uint8_t *map(uint64_t size, int fd, uint64_t offset)
{
	map_guard();
	int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, (off_t)offset);
	require(at != MAP_FAILED, "mmap");
	return at;
}

/* As a monitor that restores a snapshot has it: a private mapping of the file. */
static void map_saved(void)
{
	int fd = open(monitor.saved, O_RDONLY | O_CLOEXEC);
	struct stat status;
	require(fd >= 0 && fstat(fd, &status) == 0, monitor.saved);
	monitor.low = (int)(status.st_size >> 20);
	monitor.high = 0;
	map_guard();
	void *at = mmap(NULL, mib(monitor.low), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	require(at != MAP_FAILED, "mmap");
	monitor.low_at = at;
	map_guard();
}

static void map_memory(void)
{
	uint64_t low = mib(monitor.low), high = mib(monitor.high);
	int fd = -1;
	if (monitor.saved) {
		map_saved();
		return;
	}
	if (monitor.memfd) {
		fd = memfd_create("guest_mem", MFD_CLOEXEC);
		require(fd >= 0 && ftruncate(fd, (off_t)(low + high)) == 0, "memfd");
	}
	if (monitor.one || monitor.reversed) {
		uint8_t *at = map(low + high, fd, 0);
		monitor.low_at = monitor.reversed ? at + high : at;
		monitor.high_at = monitor.reversed ? at : at + low;
		return;
	}
	monitor.low_at = map(low, fd, 0);
	monitor.high_at = high ? map(high, fd, low) : NULL;
	map_guard();
}

static void add_slot(uint32_t slot, uint64_t pa, uint8_t *at, uint64_t size)
{
	struct kvm_userspace_memory_region region = { .slot = slot,
						      .guest_phys_addr = pa,
						      .memory_size = size,
						      .userspace_addr = (uintptr_t)at };
	require(ioctl(monitor.vm, KVM_SET_USER_MEMORY_REGION, &region) == 0, "memory slot");
}

/* The upper half of low memory: what the guest does not use. */
static void register_userfaultfd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { (uintptr_t)monitor.low_at + mib(monitor.low) / 2, mib(monitor.low) / 2 },
		.mode = UFFDIO_REGISTER_MODE_MISSING
	};
	require(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 &&
			ioctl(fd, UFFDIO_REGISTER, &range) == 0,
		"userfaultfd");
}

/* 2 MiB pages, identity: all of low memory, and the first GiB of high memory. */
static void make_page_tables(void)
{
	uint64_t *top = (uint64_t *)(void *)(monitor.low_at + TABLES_PA);
	uint64_t *upper = top + 512, *middle = top + 1024;
	top[0] = (TABLES_PA + 0x1000) | 3;
	for (unsigned gib = 0; gib < 5; gib++) {
		upper[gib] = (TABLES_PA + 0x2000 + gib * 0x1000) | 3;
		for (unsigned i = 0; i < 512; i++)
			middle[gib * 512 + i] = ((uint64_t)gib << 30 | (uint64_t)i << 21) | 0x83;
	}
}

static void load_guest(const char *path)
{
	g_autofree char *file = NULL;
	gsize size;
	require(g_file_get_contents(path, &file, &size, NULL), path);
	const Elf64_Ehdr *header = (const void *)file;
	for (unsigned i = 0; i < header->e_phnum; i++) {
		const Elf64_Phdr *segment =
			(const void *)(file + header->e_phoff + i * sizeof(Elf64_Phdr));
		if (segment->p_type == PT_LOAD)
			memcpy(monitor.low_at + segment->p_paddr, file + segment->p_offset,
			       segment->p_filesz);
	}
	monitor.entry = header->e_entry;
	for (unsigned i = 0; i < header->e_shnum; i++) {
		const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
		if (sections[i].sh_type != SHT_SYMTAB)
			continue;
		const char *names = file + sections[sections[i].sh_link].sh_offset;
		const Elf64_Sym *symbols = (const void *)(file + sections[i].sh_offset);
		for (size_t j = 0; j < sections[i].sh_size / sizeof(*symbols); j++)
			if (strcmp(names + symbols[j].st_name, "rounds") == 0)
				monitor.rounds_pa = symbols[j].st_value;
	}
}

/* ---- vCPUs ------------------------------------------------------------------------- */

static void forbid_restart(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { G_N_ELEMENTS(code), code };
	require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
			prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
		"seccomp");
}

static void wait_while_paused(struct vcpu *vcpu)
{
	while (atomic_load(&monitor.pause)) {
		atomic_store(&vcpu->is_paused, true);
		syscall(SYS_futex, &monitor.pause, FUTEX_WAIT, 1, NULL, NULL, 0);
	}
	atomic_store(&vcpu->is_paused, false);
}

static void emulate_exit(struct vcpu *vcpu)
{
	const struct kvm_run *run = vcpu->run;
	static _Atomic uint32_t never;
	if (run->exit_reason == KVM_EXIT_HLT) {
		while (!atomic_load(&vcpu->is_ending) && !atomic_load(&monitor.pause))
			syscall(SYS_futex, &never, FUTEX_WAIT, 0, NULL, NULL, 0);
	} else if (run->exit_reason == KVM_EXIT_IO) {
		if (run->io.port == VCPUS_SLEEP_PORT)
			nanosleep(&(struct timespec) { .tv_nsec = 2000000 }, NULL);
		for (volatile unsigned i = 0; i < 2000; i++)
			;
	} else {
		fprintf(stderr, "kvm-monitor: vCPU %u: exit %u\n", vcpu->number, run->exit_reason);
		_exit(2);
	}
}

/* What a monitor does whose KVM_RUN fails: it ends. */
static void *run_vcpu_thread(void *data)
{
	struct vcpu *vcpu = data;
	char name[16];
	snprintf(name, sizeof(name), "vcpu %u", vcpu->number);
	pthread_setname_np(pthread_self(), name);
	if (monitor.seccomp)
		forbid_restart();
	atomic_store(&vcpu->tid, (pid_t)syscall(SYS_gettid));
	for (;;) {
		/* First: a kick that comes after the looks at what it is for is not lost. */
		__atomic_store_n(&vcpu->run->immediate_exit, 0, __ATOMIC_SEQ_CST);
		if (atomic_load(&vcpu->is_ending))
			break;
		wait_while_paused(vcpu);
		if (ioctl(vcpu->fd, KVM_RUN, 0) == 0)
			emulate_exit(vcpu);
		else if (errno != EINTR)
			require(false, "KVM_RUN");
	}
	return NULL;
}

static void set_registers(const struct vcpu *vcpu)
{
	struct kvm_sregs sregs;
	bool is_high = vcpu->number % 2 && monitor.high;
	struct kvm_regs regs = {
		.rip = monitor.entry,
		.rflags = 2,
		.rdi = vcpu->number,
		.rsi = (uint64_t)vcpu->mode,
		.rsp = (is_high ? HIGH_PA + HIGH_STACKS : LOW_STACKS) - vcpu->number * STACK_SIZE,
	};
	require(ioctl(vcpu->fd, KVM_GET_SREGS, &sregs) == 0, "KVM_GET_SREGS");
	struct kvm_segment code = {
		.limit = 0xffffffff, .selector = 8, .type = 11, .present = 1, .s = 1, .l = 1, .g = 1
	};
	struct kvm_segment data = { .limit = 0xffffffff,
				    .selector = 16,
				    .type = 3,
				    .present = 1,
				    .s = 1,
				    .db = 1,
				    .g = 1 };
	sregs.cs = code;
	sregs.ds = sregs.es = sregs.ss = sregs.fs = sregs.gs = data;
	sregs.cr3 = TABLES_PA;
	sregs.cr4 = 0x20;
	sregs.cr0 = 0x80000011;
	sregs.efer = 0x500;
	require(ioctl(vcpu->fd, KVM_SET_SREGS, &sregs) == 0, "KVM_SET_SREGS");
	require(ioctl(vcpu->fd, KVM_SET_REGS, &regs) == 0, "KVM_SET_REGS");
	struct kvm_mp_state state = { KVM_MP_STATE_RUNNABLE };
	if (!monitor.user_halt)
		require(ioctl(vcpu->fd, KVM_SET_MP_STATE, &state) == 0, "KVM_SET_MP_STATE");
}

/* Where the value of a register of x86-64 goes; NULL: nowhere. */
static uint64_t *place_of(struct kvm_run *run, const char *name)
{
	struct kvm_regs *regs = &run->s.regs.regs;
	struct kvm_sregs *sregs = &run->s.regs.sregs;
	const struct {
		const char *name;
		void *at;
	} places[] = {
		{ "rax", &regs->rax },
		{ "rbx", &regs->rbx },
		{ "rcx", &regs->rcx },
		{ "rdx", &regs->rdx },
		{ "rsi", &regs->rsi },
		{ "rdi", &regs->rdi },
		{ "rbp", &regs->rbp },
		{ "rsp", &regs->rsp },
		{ "r8", &regs->r8 },
		{ "r9", &regs->r9 },
		{ "r10", &regs->r10 },
		{ "r11", &regs->r11 },
		{ "r12", &regs->r12 },
		{ "r13", &regs->r13 },
		{ "r14", &regs->r14 },
		{ "r15", &regs->r15 },
		{ "rip", &regs->rip },
		{ "eflags", &regs->rflags },
		{ "fs_base", &sregs->fs.base },
		{ "gs_base", &sregs->gs.base },
		{ "cr0", &sregs->cr0 },
		{ "cr2", &sregs->cr2 },
		{ "cr3", &sregs->cr3 },
		{ "cr4", &sregs->cr4 },
		{ "efer", &sregs->efer },
		{ "idtr_base", &sregs->idt.base },
		{ "gdtr_base", &sregs->gdt.base },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(places); i++)
		if (strcmp(places[i].name, name) == 0)
			return places[i].at;
	return NULL;
}

/* Fills in the page of a vCPU that never runs, as the kernel does at an exit. */
static void set_saved_registers(const struct vcpu *vcpu)
{
	g_autofree char *path = g_strconcat(monitor.saved, ".regs", NULL);
	FILE *file = fopen(path, "re");
	struct kvm_sregs *sregs = &vcpu->run->s.regs.sregs;
	unsigned number;
	char name[32];
	unsigned long long value;
	require(file != NULL, path);
	while (fscanf(file, "%u %31s %llx", &number, name, &value) == 3) {
		uint64_t *place = place_of(vcpu->run, name);
		if (number == vcpu->number && place)
			*place = value;
		else if (number == vcpu->number && strcmp(name, "cs") == 0)
			sregs->cs.selector = (uint16_t)value;
		else if (number == vcpu->number && strcmp(name, "ss") == 0)
			sregs->ss.selector = (uint16_t)value;
	}
	fclose(file);
	sregs->idt.limit = sregs->gdt.limit = 0xfff;
	sregs->cs.dpl = sregs->ss.dpl = sregs->cs.selector & 3;
	sregs->cs.l = sregs->cs.present = sregs->cs.s = 1;
	sregs->cs.type = 11;
	vcpu->run->kvm_valid_regs = KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS;
}

static void add_second_machine(void)
{
	const int vm = ioctl(monitor.kvm, KVM_CREATE_VM, 0);
	const size_t size = (size_t)ioctl(monitor.kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	const int fd = ioctl(vm, KVM_CREATE_VCPU, 100UL);
	require(vm >= 0 && fd >= 0 &&
			mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED,
		"second machine");
}

static void add_vcpu(int mode)
{
	struct vcpu *vcpu = &monitor.vcpus[monitor.n];
	vcpu->number = monitor.n++;
	vcpu->mode = mode;
	vcpu->fd = ioctl(monitor.vm, KVM_CREATE_VCPU, (unsigned long)vcpu->number);
	require(vcpu->fd >= 0, "KVM_CREATE_VCPU");
	if (monitor.duplicate)
		require(fcntl(vcpu->fd, F_DUPFD_CLOEXEC, 0) >= 0, "dup");
	size_t size = (size_t)ioctl(monitor.kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	vcpu->run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu->fd, 0);
	require(vcpu->run != MAP_FAILED, "kvm_run");
	if (monitor.saved)
		set_saved_registers(vcpu);
	else if (mode >= 0)
		set_registers(vcpu);
	require(pthread_create(&vcpu->thread, NULL, run_vcpu_thread, vcpu) == 0, "thread");
	while (!atomic_load(&vcpu->tid))
		usleep(100);
}

/* ---- commands ---------------------------------------------------------------------- */

static uint64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void kick(struct vcpu *vcpu)
{
	vcpu->run->immediate_exit = 1;
	pthread_kill(vcpu->thread, SIGUSR1);
}

/* As monitors do: a signal to each vCPU, until each has said that it waits. */
static void pause_vcpus(void)
{
	uint64_t begin = now_us();
	atomic_store(&monitor.pause, 1);
	for (unsigned i = 0; i < monitor.n; i++)
		kick(&monitor.vcpus[i]);
	for (unsigned i = 0; i < monitor.n; i++)
		while (!atomic_load(&monitor.vcpus[i].is_paused))
			usleep(10);
	printf("ok %" G_GUINT64_FORMAT "\n", now_us() - begin);
}

static void resume_vcpus(void)
{
	atomic_store(&monitor.pause, 0);
	syscall(SYS_futex, &monitor.pause, FUTEX_WAKE, VCPUS_MAX, NULL, NULL, 0);
	for (unsigned i = 0; i < monitor.n; i++)
		while (atomic_load(&monitor.vcpus[i].is_paused))
			usleep(10);
	printf("ok\n");
}

static void end_vcpu(unsigned n)
{
	struct vcpu *vcpu = &monitor.vcpus[n];
	atomic_store(&vcpu->is_ending, true);
	kick(vcpu);
	pthread_join(vcpu->thread, NULL);
	printf("ok\n");
}

static void print_places(void)
{
	printf("ok 0:%#" G_GINT64_MODIFIER "x@%p", mib(monitor.low), (void *)monitor.low_at);
	if (monitor.high)
		printf(" %#" G_GINT64_MODIFIER "x:%#" G_GINT64_MODIFIER "x@%p", HIGH_PA,
		       mib(monitor.high), (void *)monitor.high_at);
	printf("\n");
}

static void print_of_each(const char *what)
{
	const uint64_t *rounds = (const void *)(monitor.low_at + monitor.rounds_pa);
	printf("ok");
	for (unsigned i = 0; i < monitor.n; i++) {
		const struct vcpu *vcpu = &monitor.vcpus[i];
		uint64_t value = strcmp(what, "threads") == 0  ? (uint64_t)vcpu->tid
				 : strcmp(what, "rounds") == 0 ? rounds[i]
							       : vcpu->run->kvm_valid_regs;
		printf(" %" G_GUINT64_FORMAT, value);
	}
	printf("\n");
}

static void *clear_valid_regs(void *data)
{
	for (;;) {
		for (unsigned i = 0; i < monitor.n; i++)
			monitor.vcpus[i].run->kvm_valid_regs = 0;
		usleep(100);
	}
	return data;
}

static void forget(void)
{
	pthread_t thread;
	require(pthread_create(&thread, NULL, clear_valid_regs, NULL) == 0, "thread");
	printf("ok\n");
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[2] = { { 0 } };
	require(syscall(SYS_capset, &header, none) == 0, "capset");
}

static void obey(const char *line)
{
	if (strcmp(line, "pause") == 0) {
		pause_vcpus();
	} else if (strcmp(line, "resume") == 0) {
		resume_vcpus();
	} else if (strncmp(line, "add ", 4) == 0) {
		add_vcpu(atoi(line + 4));
		printf("ok\n");
	} else if (strncmp(line, "end ", 4) == 0) {
		end_vcpu((unsigned)atoi(line + 4));
	} else if (strcmp(line, "places") == 0) {
		print_places();
	} else if (strcmp(line, "forget") == 0) {
		forget();
	} else if (strcmp(line, "undump") == 0) {
		require(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "prctl");
		printf("ok\n");
	} else if (strcmp(line, "exec") == 0) {
		printf("ok\n");
		execlp("sleep", "sleep", "60", NULL);
		require(false, "exec");
	} else {
		print_of_each(line);
	}
}

static void ignore_signal(int number)
{
	(void)number;
}

static void parse_options(int *argc, char ***argv)
{
	const GOptionEntry entries[] = {
		{ "low", 0, 0, G_OPTION_ARG_INT, &monitor.low, NULL, NULL },
		{ "high", 0, 0, G_OPTION_ARG_INT, &monitor.high, NULL, NULL },
		{ "memfd", 0, 0, G_OPTION_ARG_NONE, &monitor.memfd, NULL, NULL },
		{ "one", 0, 0, G_OPTION_ARG_NONE, &monitor.one, NULL, NULL },
		{ "reversed", 0, 0, G_OPTION_ARG_NONE, &monitor.reversed, NULL, NULL },
		{ "duplicate", 0, 0, G_OPTION_ARG_NONE, &monitor.duplicate, NULL, NULL },
		{ "seccomp", 0, 0, G_OPTION_ARG_NONE, &monitor.seccomp, NULL, NULL },
		{ "userfaultfd", 0, 0, G_OPTION_ARG_NONE, &monitor.userfaultfd, NULL, NULL },
		{ "saved", 0, 0, G_OPTION_ARG_FILENAME, &monitor.saved, NULL, NULL },
		{ "second", 0, 0, G_OPTION_ARG_NONE, &monitor.second, NULL, NULL },
		{ "user-halt", 0, 0, G_OPTION_ARG_NONE, &monitor.user_halt, NULL, NULL },
		{ "no-capabilities", 0, 0, G_OPTION_ARG_NONE, &monitor.no_capabilities, NULL,
		  NULL },
		{ NULL }
	};
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GError) error = NULL;
	g_option_context_add_main_entries(context, entries, NULL);
	if (!g_option_context_parse(context, argc, argv, &error) || *argc < 3 ||
	    *argc - 2 > VCPUS_MAX) {
		fprintf(stderr, "kvm-monitor: %s\n", error ? error->message : "arguments");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	char line[64];
	monitor.low = 16;
	monitor.high = 8;
	parse_options(&argc, &argv);
	atomic_store(&monitor.pause, monitor.saved != NULL);
	sigaction(SIGUSR1, &(struct sigaction) { .sa_handler = ignore_signal }, NULL);
	monitor.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	require(monitor.kvm >= 0, "/dev/kvm");
	monitor.vm = ioctl(monitor.kvm, KVM_CREATE_VM, 0);
	require(monitor.vm >= 0, "KVM_CREATE_VM");
	if (!monitor.user_halt)
		require(ioctl(monitor.vm, KVM_CREATE_IRQCHIP, 0) == 0, "KVM_CREATE_IRQCHIP");
	if (monitor.no_capabilities)
		drop_capabilities();
	map_memory();
	add_slot(0, 0, monitor.low_at, mib(monitor.low));
	if (monitor.high)
		add_slot(1, HIGH_PA, monitor.high_at, mib(monitor.high));
	if (!monitor.saved) {
		make_page_tables();
		load_guest(argv[1]);
	}
	if (monitor.userfaultfd)
		register_userfaultfd();
	if (monitor.duplicate)
		require(fcntl(monitor.vm, F_DUPFD_CLOEXEC, 0) >= 0, "dup");
	if (monitor.second)
		add_second_machine();
	for (int i = 2; i < argc; i++)
		add_vcpu(strcmp(argv[i], "none") == 0 ? -1 : atoi(argv[i]));
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ok %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		obey(line);
	}
	return 0;
}
