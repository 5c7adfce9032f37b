/* SPDX-License-Identifier: MIT */
/*
 * Memory of a child process, mapped in every way that a QEMU may map it. The child writes into
 * some pages; what is read must be that, and finding it must not touch the pages that nobody has
 * written to.
 */
#include "machine/host/ram.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES	  1024U
#define HOLE_MAX  (128U << 10) /* that may count as data */
#define REGION_PA UINT64_C(0x40000000)

/* Memory that is mapped here and in the child, and what the child has there. */
struct region {
	uint8_t *memory;  /* the same address in both */
	uint8_t *content; /* as the child sees it */
	bool written[PAGES];
	size_t page, size;
	pid_t child;
	struct vms_host_identity process; /* the child */
	int fd;				  /* of its file, or -1 */
	struct vms_ram ram;
};

/* What the child does before it waits for its end. */
typedef void (*action)(struct region *region);

static void write_page(struct region *region, uint8_t *where, unsigned page)
{
	for (size_t i = 0; i < region->page; i++)
		where[page * region->page + i] = (uint8_t)(page * 7 + i % 251 + 1);
}

static void write_pages(struct region *region)
{
	for (unsigned page = 0; page < PAGES; page++) {
		if (region->written[page])
			write_page(region, region->memory, page);
	}
}

static void region_map(struct region *region, int fd, int flags)
{
	*region = (struct region) { .page = (size_t)sysconf(_SC_PAGESIZE), .fd = fd };
	region->size = PAGES * region->page;
	region->content = g_malloc0(region->size);
	if (fd >= 0)
		g_assert_cmpint(ftruncate(fd, (off_t)region->size), ==, 0);
	region->memory = mmap(NULL, region->size, PROT_READ | PROT_WRITE, flags, fd, 0);
	g_assert_true(region->memory != MAP_FAILED);
	/* One page that is written to must not bring its neighbours along. */
	madvise(region->memory, region->size, MADV_NOHUGEPAGE);
}

/* Starts the child, and waits until it has done its part. */
static void region_start(struct region *region, action act)
{
	int ends[2];
	uint8_t done = 0;
	pid_t parent = getpid();
	g_assert_cmpint(pipe(ends), ==, 0);
	region->child = fork();
	g_assert_cmpint(region->child, >=, 0);
	if (region->child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		act(region);
		done = 1;
		if (write(ends[1], &done, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	g_assert_cmpint(read(ends[0], &done, 1), ==, 1);
	close(ends[0]);
	for (unsigned page = 0; page < PAGES; page++) {
		if (region->written[page])
			write_page(region, region->content, page);
	}
	struct vms_ram_place place = { REGION_PA, region->size,
				       (uint64_t)(uintptr_t)region->memory };
	g_assert_true(vms_host_identity_open(&region->process, region->child, NULL));
	vms_ram_open(&region->ram, &region->process, &place, 1);
}

static void region_end(struct region *region)
{
	vms_ram_close(&region->ram);
	vms_host_identity_close(&region->process);
	kill(region->child, SIGKILL);
	g_assert_cmpint(waitpid(region->child, NULL, 0), ==, region->child);
	munmap(region->memory, region->size);
	if (region->fd >= 0)
		close(region->fd);
	g_free(region->content);
}

/* Pages that the child has, and blocks of memory that the region's file has. */
static uint64_t allocated(const struct region *region)
{
	const uint64_t there = UINT64_C(3) << 62; /* in memory, or in the swap */
	g_autofree char *path = g_strdup_printf("/proc/%d/pagemap", (int)region->child);
	uint64_t entries[PAGES], sum = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t offset = (off_t)((uintptr_t)region->memory / region->page * sizeof(*entries));
	struct stat stat;
	g_assert_cmpint(pread(fd, entries, sizeof(entries), offset), ==, sizeof(entries));
	close(fd);
	for (unsigned page = 0; page < PAGES; page++)
		sum += (entries[page] & there) != 0;
	/* Those of a disk change when they are written back. Memory's files have seals. */
	if (region->fd >= 0 && fcntl(region->fd, F_GET_SEALS) >= 0) {
		g_assert_cmpint(fstat(region->fd, &stat), ==, 0);
		sum += (uint64_t)stat.st_blocks;
	}
	return sum;
}

static void check_bytes(const struct region *region)
{
	g_autofree uint8_t *buf = g_malloc(region->size);
	g_assert_true(vms_ram_read(&region->ram, REGION_PA, buf, region->size));
	g_assert_cmpmem(buf, region->size, region->content, region->size);
	for (int i = 0; i < 500; i++) {
		size_t offset = (size_t)g_test_rand_int_range(0, (int)region->size);
		size_t size = (size_t)g_test_rand_int_range(0, 5 * (int)region->page);
		size = MIN(size, region->size - offset);
		g_assert_true(vms_ram_read(&region->ram, REGION_PA + offset, buf, size));
		g_assert_cmpmem(buf, size, region->content + offset, size);
	}
}

/* What is read in one go is what is read one by one; files' pages are left for that. */
static void check_parts(const struct region *region)
{
	enum vms_ram_kind kind = g_array_index(region->ram.parts, struct vms_ram_part, 0).kind;
	struct vms_phys_part parts[10];
	uint8_t bytes[10][100];
	for (size_t i = 0; i < 10; i++)
		parts[i] = (struct vms_phys_part) { REGION_PA + i * 3 * region->page + 8 * i,
						    sizeof(bytes[i]), bytes[i] };
	size_t n = vms_ram_read_parts(&region->ram, parts, 10);
	g_assert_cmpuint(n, ==, kind == VMS_RAM_ANONYMOUS ? 10 : 0);
	for (size_t i = 0; i < n; i++)
		g_assert_cmpmem(bytes[i], 100, region->content + (parts[i].pa - REGION_PA), 100);
	parts[4].pa = REGION_PA + region->size - 50;
	g_assert_cmpuint(vms_ram_read_parts(&region->ram, parts, 10), ==, MIN(n, 4));
	parts[2].pa = 0;
	g_assert_cmpuint(vms_ram_read_parts(&region->ram, parts, 10), ==, MIN(n, 2));
	g_assert_cmpuint(vms_ram_read_parts(&region->ram, parts, 0), ==, 0);
}

/* By libc's comparison, as hundreds of megabytes are looked at. */
static bool are_zeros(const uint8_t *bytes, size_t n)
{
	return n == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0);
}

/* No byte that is not zero is left out of [from, end); holes are, beyond a limit. */
static void check_stretches(const struct region *region, uint64_t from, uint64_t end)
{
	const uint8_t *content = region->content - REGION_PA;
	uint64_t begin, stop;
	for (uint64_t pa = from; pa < end; pa = stop) {
		vms_ram_next_data(&region->ram, pa, end, &begin, &stop);
		g_assert_cmphex(begin, >=, pa);
		g_assert_true(are_zeros(content + pa, begin - pa));
		if (begin == end)
			return;
		g_assert_cmphex(begin, <, stop);
		g_assert_cmphex(stop, <=, end);
		g_assert_true(region->written[(begin - REGION_PA) / region->page]);
		uint64_t last = begin;
		for (uint64_t byte = begin; byte < stop; byte += region->page) {
			if (region->written[(byte - REGION_PA) / region->page])
				last = byte;
			g_assert_cmphex(byte - last, <=, HOLE_MAX);
		}
	}
}

static void check_holes(const struct region *region)
{
	uint64_t before = allocated(region), end = REGION_PA + region->size;
	check_stretches(region, REGION_PA, end);
	for (int i = 0; i < 200; i++) {
		uint64_t from = (uint64_t)g_test_rand_int_range(0, (int)region->size - 1);
		uint64_t size = (uint64_t)g_test_rand_int_range(1, (int)region->size);
		check_stretches(region, REGION_PA + from, MIN(end, REGION_PA + from + size));
	}
	g_assert_cmpuint(allocated(region), ==, before);
}

/* Pages alone, joined, at both ends, and long stretches. */
static void choose_pages(struct region *region)
{
	static const struct {
		unsigned first, n;
	} runs[] = { { 0, 2 }, { 10, 1 }, { 40, 1 }, { 200, 150 }, { 366, 1 }, { PAGES - 1, 1 } };
	for (size_t i = 0; i < G_N_ELEMENTS(runs); i++) {
		for (unsigned page = 0; page < runs[i].n; page++)
			region->written[runs[i].first + page] = true;
	}
}

static enum vms_ram_kind kind_of(const struct region *region)
{
	g_assert_cmpuint(region->ram.parts->len, ==, 1);
	return g_array_index(region->ram.parts, struct vms_ram_part, 0).kind;
}

static int open_memfd(void)
{
	int fd = memfd_create("ram", MFD_CLOEXEC);
	g_assert_cmpint(fd, >=, 0);
	return fd;
}

static int open_file(void)
{
	g_autofree char *path = NULL;
	int fd = g_file_open_tmp("vmscope-ram-XXXXXX", &path, NULL);
	g_assert_cmpint(fd, >=, 0);
	g_unlink(path);
	return fd;
}

static void test_anonymous(void)
{
	struct region region;
	region_map(&region, -1, MAP_PRIVATE | MAP_ANONYMOUS);
	choose_pages(&region);
	region_start(&region, write_pages);
	g_assert_cmpint((int)kind_of(&region), ==, VMS_RAM_ANONYMOUS);
	check_holes(&region);
	check_bytes(&region);
	check_parts(&region);
	region_end(&region);
}

static void test_nothing_written(void)
{
	struct region region;
	uint64_t begin, stop, end;
	region_map(&region, -1, MAP_PRIVATE | MAP_ANONYMOUS);
	region_start(&region, write_pages);
	end = REGION_PA + region.size;
	vms_ram_next_data(&region.ram, REGION_PA, end, &begin, &stop);
	g_assert_cmphex(begin, ==, end);
	region_end(&region);
}

/* Reading a file's holes is harmless too. */
static void check_file(int fd)
{
	struct region region;
	region_map(&region, fd, MAP_SHARED);
	choose_pages(&region);
	region_start(&region, write_pages);
	g_assert_cmpint((int)kind_of(&region), ==, VMS_RAM_FILE);
	if (g_array_index(region.ram.parts, struct vms_ram_part, 0).file->knows_holes)
		check_holes(&region);
	else
		g_test_message("this file system's holes are not relied on");
	uint64_t before = allocated(&region);
	check_bytes(&region);
	check_parts(&region);
	g_assert_cmpuint(allocated(&region), ==, before);
	region_end(&region);
}

static void test_memfd(void)
{
	check_file(open_memfd());
}

static void test_file(void)
{
	check_file(open_file());
}

static void punch_hole(struct region *region)
{
	write_pages(region);
	memset(region->memory + 600 * region->page, 1, 100 * region->page);
	madvise(region->memory + 600 * region->page, 100 * region->page, MADV_REMOVE);
}

/* What a guest has given back is a hole again. */
static void test_given_back(void)
{
	struct region region;
	region_map(&region, open_memfd(), MAP_SHARED);
	choose_pages(&region);
	region_start(&region, punch_hole);
	check_holes(&region);
	check_bytes(&region);
	check_parts(&region);
	region_end(&region);
}

static void copy_some(struct region *region)
{
	write_page(region, region->memory, 5);	 /* where the file has another page */
	write_page(region, region->memory, 300); /* where it has a hole */
}

/* A private mapping: the file's pages but where the process has its own. */
static void test_copy(void)
{
	struct region region;
	int fd = open_memfd();
	region_map(&region, fd, MAP_PRIVATE);
	g_autofree uint8_t *others = g_malloc(region.page);
	memset(others, 0xa5, region.page);
	g_assert_cmpint(pwrite(fd, others, region.page, 5 * (off_t)region.page), ==, region.page);
	g_assert_cmpint(pwrite(fd, others, region.page, 700 * (off_t)region.page), ==, region.page);
	region.written[5] = region.written[300] = true;
	region_start(&region, copy_some);
	memcpy(region.content + 700 * region.page, others, region.page);
	region.written[700] = true;
	g_assert_cmpint((int)kind_of(&region), ==, VMS_RAM_COPY);
	check_holes(&region);
	uint64_t before = allocated(&region);
	check_bytes(&region);
	check_parts(&region);
	g_assert_cmpuint(allocated(&region), ==, before);
	region_end(&region);
}

/* Shared memory without a name: whichever way it is read, the bytes are right. */
static void test_shared_anonymous(void)
{
	struct region region;
	region_map(&region, -1, MAP_SHARED | MAP_ANONYMOUS);
	choose_pages(&region);
	region_start(&region, write_pages);
	check_bytes(&region);
	check_parts(&region);
	if (kind_of(&region) == VMS_RAM_FILE)
		check_holes(&region);
	region_end(&region);
}

static void split_mapping(struct region *region)
{
	write_pages(region);
	madvise(region->memory + 300 * region->page, 50 * region->page, MADV_DONTDUMP);
	munmap(region->memory + 800 * region->page, 10 * region->page);
}

/* Several lines of /proc/PID/maps; and what is not mapped at all is not zeros. */
static void test_split(void)
{
	struct region region;
	uint64_t begin, stop;
	uint8_t buf[16];
	region_map(&region, open_memfd(), MAP_SHARED);
	choose_pages(&region);
	region_start(&region, split_mapping);
	size_t page = region.page;
	g_assert_cmpuint(region.ram.parts->len, ==, 2);
	g_autofree uint8_t *content = g_malloc(800 * page);
	g_assert_true(vms_ram_read(&region.ram, REGION_PA, content, 800 * page));
	g_assert_cmpmem(content, 800 * page, region.content, 800 * page);
	uint64_t gap = REGION_PA + 800 * page, gap_end = gap + 10 * page;
	g_assert_false(vms_ram_read(&region.ram, gap - 8, buf, sizeof(buf)));
	g_assert_false(vms_ram_read(&region.ram, gap_end - 8, buf, sizeof(buf)));
	g_assert_true(vms_ram_read(&region.ram, gap_end, buf, sizeof(buf)));
	g_assert_true(vms_ram_covers(&region.ram, REGION_PA, 800 * page));
	g_assert_false(vms_ram_covers(&region.ram, REGION_PA, 800 * page + 1));
	vms_ram_next_data(&region.ram, gap - page, gap_end + page, &begin, &stop);
	g_assert_cmphex(begin, ==, gap);
	g_assert_cmphex(stop, ==, gap_end);
	vms_ram_next_data(&region.ram, gap_end, REGION_PA + region.size + 5 * page, &begin, &stop);
	g_assert_cmphex(begin, ==, REGION_PA + region.size - page);
	vms_ram_next_data(&region.ram, 0, REGION_PA, &begin, &stop);
	g_assert_cmphex(begin, ==, 0);
	g_assert_cmphex(stop, ==, REGION_PA);
	region_end(&region);
}

static void open_userfaultfd(struct region *region)
{
	const int user_mode_only = 1;
	write_pages(region);
	if (syscall(SYS_userfaultfd, O_CLOEXEC | user_mode_only) < 0)
		kill(getpid(), SIGKILL);
}

/* Where pages that are not there may come from elsewhere, nothing is known to be zeros. */
static void test_userfaultfd(void)
{
	struct region region;
	uint64_t begin, stop;
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
	if (fd < 0) {
		g_test_skip("this kernel has no userfaultfd for us");
		return;
	}
	close(fd);
	region_map(&region, open_memfd(), MAP_SHARED);
	choose_pages(&region);
	region_start(&region, open_userfaultfd);
	g_assert_cmpint((int)kind_of(&region), ==, VMS_RAM_OPAQUE);
	vms_ram_next_data(&region.ram, REGION_PA, REGION_PA + region.size, &begin, &stop);
	g_assert_cmphex(begin, ==, REGION_PA);
	g_assert_cmphex(stop, ==, REGION_PA + region.size);
	check_bytes(&region);
	check_parts(&region);
	region_end(&region);
}

/* Of a process that has ended nothing is read, however much is asked for. */
static void test_ended(void)
{
	struct region region;
	uint8_t bytes[8192];
	region_map(&region, -1, MAP_PRIVATE | MAP_ANONYMOUS);
	choose_pages(&region);
	region_start(&region, write_pages);
	g_assert_true(vms_ram_read(&region.ram, REGION_PA, bytes, 1));
	g_assert_true(vms_ram_read(&region.ram, REGION_PA, bytes, sizeof(bytes)));
	kill(region.child, SIGKILL);
	siginfo_t info;
	g_assert_cmpint(waitid(P_PID, (id_t)region.child, &info, WEXITED | WNOWAIT), ==, 0);
	g_assert_false(vms_ram_read(&region.ram, REGION_PA, bytes, 1));
	g_assert_false(vms_ram_read(&region.ram, REGION_PA, bytes, sizeof(bytes)));
	region_end(&region);
}

#define OTHER_PROGRAM "--other-program"
#define OTHER_SIZE    8192
#define OTHER_BYTE    0xee

/* This program, executed once more by a child, that has something else at the same address. */
static int be_other_program(const char *address)
{
	void *at = (void *)(uintptr_t)g_ascii_strtoull(address, NULL, 16);
	void *memory = mmap(at, OTHER_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (memory != at)
		return 1;
	memset(memory, OTHER_BYTE, OTHER_SIZE);
	for (;;)
		pause();
}

static char other_address[32];

static void execute_other_program(int number)
{
	(void)number;
	char *const argv[] = { (char[]) { "ram" }, (char[]) { OTHER_PROGRAM }, other_address,
			       NULL };
	execv("/proc/self/exe", argv);
	_exit(1);
}

static void wait_for_signal(struct region *region)
{
	write_pages(region);
	signal(SIGUSR1, execute_other_program);
}

/* Nothing is read of another program that the process executes. */
static void test_other_program(void)
{
	struct region region;
	uint8_t bytes[OTHER_SIZE] = { 0 };
	region_map(&region, -1, MAP_PRIVATE | MAP_ANONYMOUS);
	choose_pages(&region);
	g_snprintf(other_address, sizeof(other_address), "%p", (void *)region.memory);
	region_start(&region, wait_for_signal);
	struct vms_phys_part part = { REGION_PA, sizeof(bytes), bytes };
	g_assert_true(vms_ram_read(&region.ram, REGION_PA, bytes, sizeof(bytes)));
	g_assert_cmpuint(vms_ram_read_parts(&region.ram, &part, 1), ==, 1);
	kill(region.child, SIGUSR1);
	struct iovec local = { bytes, sizeof(bytes) }, remote = { region.memory, sizeof(bytes) };
	while (process_vm_readv(region.child, &local, 1, &remote, 1, 0) < OTHER_SIZE ||
	       bytes[OTHER_SIZE - 1] != OTHER_BYTE) {
		g_assert_cmpint(waitpid(region.child, NULL, WNOHANG), ==, 0);
		g_usleep(1000);
	}
	g_assert_false(vms_ram_read(&region.ram, REGION_PA, bytes, 1));
	g_assert_false(vms_ram_read(&region.ram, REGION_PA, bytes, sizeof(bytes)));
	g_assert_cmpuint(vms_ram_read_parts(&region.ram, &part, 1), ==, 0);
	region_end(&region);
}

/* Another process that has the pid now is not read. */
static void test_reused_pid(void)
{
	struct region region;
	uint8_t byte;
	struct vms_phys_part part = { REGION_PA, 1, &byte };
	region_map(&region, -1, MAP_PRIVATE | MAP_ANONYMOUS);
	choose_pages(&region);
	region_start(&region, write_pages);
	g_assert_true(vms_ram_read(&region.ram, REGION_PA, &byte, 1));
	struct vms_host_identity before = region.process;
	before.pidfd = -1;
	before.start_time--;
	region.ram.process = &before;
	/* Without /proc/PID/mem, which stays that of the process before. */
	close(region.ram.mem);
	region.ram.mem = -1;
	g_assert_false(vms_ram_read(&region.ram, REGION_PA, &byte, 1));
	g_assert_cmpuint(vms_ram_read_parts(&region.ram, &part, 1), ==, 0);
	vms_ram_close(&region.ram);
	struct vms_ram_place place = { REGION_PA, region.size, (uintptr_t)region.memory };
	vms_ram_open(&region.ram, &before, &place, 1);
	g_assert_cmpuint(region.ram.parts->len, ==, 0);
	region_end(&region);
}

/* A descriptor leads now to the file, now to a pipe, of which opening it for reading would wait. */
static gpointer swap_files(gpointer data)
{
	const struct region *region = data;
	g_autofree char *folder = g_dir_make_tmp("vmscope-ram-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(folder, "pipe", NULL);
	int file = dup(region->fd);
	int pipe = mkfifo(path, 0600) == 0 ? open(path, O_RDONLY | O_NONBLOCK) : -1;
	g_unlink(path);
	g_rmdir(folder);
	if (pipe < 0 || file < 0)
		kill(getpid(), SIGKILL);
	for (;;) {
		dup2(pipe, region->fd);
		dup2(file, region->fd);
	}
	return NULL;
}

static void write_and_swap(struct region *region)
{
	write_pages(region);
	g_thread_new("swap", swap_files, region);
}

/* Root finds the file by the mapping itself; nobody has to look through descriptors. */
static void become_nobody(void)
{
	if (getuid() == 0 && setresuid(65534, 65534, 65534) < 0)
		_exit(1);
	prctl(PR_SET_DUMPABLE, 1);
}

static void open_many_times(void)
{
	struct region region;
	become_nobody();
	region_map(&region, open_memfd(), MAP_SHARED);
	choose_pages(&region);
	region_start(&region, write_and_swap);
	struct vms_ram_place place = { REGION_PA, region.size, (uintptr_t)region.memory };
	for (int i = 0; i < 3000; i++) {
		vms_ram_close(&region.ram);
		vms_ram_open(&region.ram, &region.process, &place, 1);
		g_assert_cmpint((int)kind_of(&region), ==, VMS_RAM_FILE);
	}
	check_bytes(&region);
	region_end(&region);
}

static void test_swapped_file(void)
{
	if (g_test_subprocess()) {
		open_many_times();
		return;
	}
	g_test_trap_subprocess(NULL, 100 * G_USEC_PER_SEC, G_TEST_SUBPROCESS_DEFAULT);
	g_test_trap_assert_passed();
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], OTHER_PROGRAM) == 0)
		return be_other_program(argv[2]);
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/ram/anonymous", test_anonymous);
	g_test_add_func("/ram/nothing-written", test_nothing_written);
	g_test_add_func("/ram/memfd", test_memfd);
	g_test_add_func("/ram/file", test_file);
	g_test_add_func("/ram/given-back", test_given_back);
	g_test_add_func("/ram/copy", test_copy);
	g_test_add_func("/ram/shared-anonymous", test_shared_anonymous);
	g_test_add_func("/ram/split", test_split);
	g_test_add_func("/ram/userfaultfd", test_userfaultfd);
	g_test_add_func("/ram/ended", test_ended);
	g_test_add_func("/ram/other-program", test_other_program);
	g_test_add_func("/ram/reused-pid", test_reused_pid);
	g_test_add_func("/ram/swapped-file", test_swapped_file);
	return g_test_run();
}
