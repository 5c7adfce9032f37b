/* SPDX-License-Identifier: MIT */
/*
 * The kernel log in rings laid out by hand, as kernel/printk/printk_ringbuffer.c and the printk.c
 * before it do, found by VMCOREINFO alone: the first in a kernel without BTF.
 */
#include "guest/linux/dmesg.h"
#include "fake_linux.h"

#define PRB	   UINT64_C(0xffff888000000000)
#define DESCS	   (PRB + 0x1000)
#define INFOS	   (PRB + 0x2000)
#define TEXT	   (PRB + 0x3000)
#define POINTER	   (PRB + 0x4000)
#define LOG_NUMBER (PRB + 0x4100)
#define COUNT_BITS 3
#define SIZE_BITS  8
#define SIZE	   (1u << SIZE_BITS)
#define DESC_SIZE  24
#define INFO_SIZE  88

enum { RESERVED, COMMITTED, FINALIZED, REUSABLE };

static const char ring_info[] =
	"OFFSET(printk_ringbuffer.desc_ring)=0\nOFFSET(printk_ringbuffer.text_data_ring)=64\n"
	"OFFSET(prb_desc_ring.count_bits)=0\nOFFSET(prb_desc_ring.descs)=8\n"
	"OFFSET(prb_desc_ring.infos)=16\nOFFSET(prb_desc_ring.head_id)=24\n"
	"OFFSET(prb_desc_ring.tail_id)=32\nSIZE(prb_desc)=24\nOFFSET(prb_desc.state_var)=0\n"
	"OFFSET(prb_desc.text_blk_lpos)=8\nOFFSET(prb_data_blk_lpos.begin)=0\n"
	"OFFSET(prb_data_blk_lpos.next)=8\nSIZE(printk_info)=88\nOFFSET(printk_info.ts_nsec)=8\n"
	"OFFSET(printk_info.text_len)=16\nOFFSET(prb_data_ring.size_bits)=0\n"
	"OFFSET(prb_data_ring.data)=8\n";
static const char large_info[] =
	"OFFSET(printk_ringbuffer.desc_ring)=0\nOFFSET(printk_ringbuffer.text_data_ring)=64\n"
	"OFFSET(prb_desc_ring.count_bits)=0\nOFFSET(prb_desc_ring.descs)=8\n"
	"OFFSET(prb_desc_ring.infos)=16\nOFFSET(prb_desc_ring.head_id)=24\n"
	"OFFSET(prb_desc_ring.tail_id)=32\nSIZE(prb_desc)=24\nOFFSET(prb_desc.state_var)=0\n"
	"OFFSET(prb_desc.text_blk_lpos)=8\nOFFSET(prb_data_blk_lpos.begin)=0\n"
	"OFFSET(prb_data_blk_lpos.next)=8\nSIZE(printk_info)=129\nOFFSET(printk_info.ts_nsec)=8\n"
	"OFFSET(printk_info.text_len)=16\nOFFSET(prb_data_ring.size_bits)=0\n"
	"OFFSET(prb_data_ring.data)=8\n";
static const char log_info[] =
	"SIZE(printk_log)=16\nOFFSET(printk_log.ts_nsec)=0\nOFFSET(printk_log.len)=8\n"
	"OFFSET(printk_log.text_len)=10\nOFFSET(printk_log.dict_len)=12\n";

struct fixture {
	struct vms_machine *machine;
	struct vms_linux *guest;
	uint64_t head_lpos;
};

static void write_u64(struct fixture *f, uint64_t va, uint64_t value)
{
	fake_machine_write_u64(f->machine, va, value);
}

static void setup(struct fixture *f, const void *data)
{
	static const struct fake_symbol symbols[] = { { "prb", POINTER },
						      { "log_buf", LOG_NUMBER },
						      { "log_buf_len", LOG_NUMBER + 8 },
						      { "log_first_idx", LOG_NUMBER + 16 },
						      { "log_next_idx", LOG_NUMBER + 24 },
						      { NULL, 0 } };
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(f->machine, PRB, 0x5000);
	f->guest = fake_linux_new(f->machine, symbols, NULL);
	f->guest->vmcoreinfo = g_strdup(data);
	f->head_lpos = 0;
	write_u64(f, POINTER, PRB);
	write_u64(f, PRB, COUNT_BITS);
	write_u64(f, PRB + 8, DESCS);
	write_u64(f, PRB + 16, INFOS);
	write_u64(f, PRB + 64, SIZE_BITS);
	write_u64(f, PRB + 72, TEXT);
	write_u64(f, LOG_NUMBER, TEXT);
	write_u64(f, LOG_NUMBER + 8, SIZE);
}

static void teardown(struct fixture *f, const void *data)
{
	(void)data;
	vms_linux_free(f->guest);
	vms_machine_unref(f->machine);
}

/* ---- the writer's side ------------------------------------------------ */

static void write_record(struct fixture *f, uint64_t id, unsigned state, uint64_t begin,
			 uint64_t next, unsigned level, size_t size)
{
	uint64_t index = id % (1 << COUNT_BITS);
	uint8_t *info = fake_machine_at(f->machine, INFOS + index * INFO_SIZE);
	const uint16_t length = GUINT16_TO_LE((uint16_t)size);
	write_u64(f, DESCS + index * DESC_SIZE, (uint64_t)state << 62 | id);
	write_u64(f, DESCS + index * DESC_SIZE + 8, begin);
	write_u64(f, DESCS + index * DESC_SIZE + 16, next);
	write_u64(f, INFOS + index * INFO_SIZE + 8, id * 1000);
	memcpy(info + 16, &length, sizeof(length));
	info[18] = 0xff; /* facility */
	info[19] = (uint8_t)(level << 5 | 0x1f);
	write_u64(f, PRB + 24, id); /* the head */
}

/* As data_alloc(): a block does not wrap, it begins anew at the begin of the ring. */
static void log_text(struct fixture *f, uint64_t id, unsigned level, const char *text)
{
	uint64_t begin = f->head_lpos, size = (8 + strlen(text) + 7) & ~UINT64_C(7);
	uint64_t next = begin + size, at = begin % SIZE;
	if (begin / SIZE != next / SIZE) {
		next = next / SIZE * SIZE + size;
		at = 0;
	}
	write_u64(f, TEXT + at, id);
	memcpy(fake_machine_at(f->machine, TEXT + at + 8), text, strlen(text));
	write_record(f, id, FINALIZED, begin, next, level, strlen(text));
	f->head_lpos = next;
}

/* ---- the reader's side ------------------------------------------------ */

static void add_line(uint64_t time_ns, unsigned level, const char *text, void *data)
{
	g_string_append_printf(data, "%u %u %s|", (unsigned)(time_ns / 1000), level, text);
}

static void assert_log(struct fixture *f, const char *expected)
{
	g_autoptr(GString) log = g_string_new(NULL);
	GError *error = NULL;
	g_assert_true(vms_linux_dmesg(f->guest, add_line, log, &error));
	g_assert_no_error(error);
	g_assert_cmpstr(log->str, ==, expected);
}

static void assert_fails(struct fixture *f, int code)
{
	g_autoptr(GString) log = g_string_new(NULL);
	g_autoptr(GError) error = NULL;
	g_assert_false(vms_linux_dmesg(f->guest, add_line, log, &error));
	g_assert_error(error, VMS_ERROR, code);
}

/* Some records are damaged, and that is said; `expected` are the others. */
static void assert_damaged(struct fixture *f, const char *count, const char *expected)
{
	g_autoptr(GString) log = g_string_new(NULL);
	g_autoptr(GError) error = NULL;
	g_assert_false(vms_linux_dmesg(f->guest, add_line, log, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
	g_assert_nonnull(strstr(error->message, count));
	g_assert_cmpstr(log->str, ==, expected);
}

static void test_ring(struct fixture *f, const void *data)
{
	(void)data;
	write_u64(f, PRB + 32, 1);
	log_text(f, 1, 5, "first");
	log_text(f, 2, 0, "two\nlines\tand \033[31m");
	write_record(f, 3, FINALIZED, 3, 3, 6, 0); /* an empty line */
	write_record(f, 4, FINALIZED, 1, 1, 6, 5); /* its text did not fit */
	write_record(f, 5, RESERVED, 0, 16, 6, 5); /* still being written */
	write_record(f, 6, REUSABLE, 0, 16, 6, 5);
	log_text(f, 7, 7, "last");
	assert_log(f, "1 5 first|2 0 two\nlines\tand ?[31m|3 6 |7 7 last|");
}

/* The tail moves along, text and descriptors are overwritten several times. */
static void test_wrapping(struct fixture *f, const void *data)
{
	(void)data;
	for (uint64_t id = 1; id < 200; id++) {
		g_autofree char *text = g_strnfill(id % 20 + 1, 'x');
		log_text(f, id, 4, text);
		uint64_t tail = id > 4 ? id - 4 : 1;
		write_u64(f, PRB + 32, tail);
		g_autoptr(GString) expected = g_string_new(NULL);
		for (uint64_t i = tail; i <= id; i++) {
			g_autofree char *line = g_strnfill(i % 20 + 1, 'x');
			g_string_append_printf(expected, "%u 4 %s|", (unsigned)i, line);
		}
		assert_log(f, expected->str);
	}
}

/* Ids count in 62 bits. */
static void test_last_ids(struct fixture *f, const void *data)
{
	(void)data;
	uint64_t last = (UINT64_C(1) << 62) - 1;
	write_u64(f, PRB + 32, last);
	log_text(f, last, 1, "before");
	log_text(f, 0, 1, "after");
	g_autoptr(GString) log = g_string_new(NULL);
	g_assert_true(vms_linux_dmesg(f->guest, add_line, log, NULL));
	g_assert_nonnull(strstr(log->str, "before|0 1 after|"));
}

/* Positions that lead anywhere: such records are left out, the others stay. */
static void test_hostile_positions(struct fixture *f, const void *data)
{
	static const uint64_t positions[][2] = {
		{ 0, 0 },	   { 0, 8 },
		{ 16, 0 },	   { 0, SIZE },
		{ 248, 256 },	   { 250, 1000 },
		{ 0, UINT64_MAX }, { UINT64_MAX - 1, 16 },
		{ 0, 1 },	   { 0, UINT64_C(1) << 63 },
	};
	(void)data;
	for (size_t i = 0; i < G_N_ELEMENTS(positions); i++) {
		write_u64(f, PRB + 32, 1);
		f->head_lpos = 0;
		log_text(f, 1, 5, "good");
		write_record(f, 2, FINALIZED, positions[i][0], positions[i][1], 6, 0xffff);
		assert_damaged(f, "1 of 2 records", "1 5 good|");
	}
	write_record(f, 3, FINALIZED, 0, 16, 6, 0xffff); /* another record's text */
	assert_damaged(f, "2 of 3 records", "1 5 good|");
	write_record(f, 2, FINALIZED, 1, 1, 6, 5); /* its text was lost: the kernel says so */
	assert_log(f, "1 5 good|");
	/* More text than the block has: as much as it has, cleaned of what it ends with. */
	write_record(f, 1, FINALIZED, 0, 16, 5, 0xffff);
	assert_log(f, "1 5 good|");
}

static void test_hostile_sizes(struct fixture *f, const void *data)
{
	(void)data;
	log_text(f, 1, 5, "text");
	write_u64(f, PRB + 32, 2); /* the tail is beyond the head: 2^62 records */
	assert_damaged(f, "8 of 8 records", "");
	write_u64(f, PRB, 32);
	assert_fails(f, VMS_ERROR_MALFORMED);
	write_u64(f, PRB, 21);
	assert_fails(f, VMS_ERROR_MALFORMED);
	write_u64(f, PRB, COUNT_BITS);
	write_u64(f, PRB + 64, 63);
	assert_fails(f, VMS_ERROR_MALFORMED);
	write_u64(f, PRB + 64, 20); /* reaches beyond memory */
	assert_fails(f, VMS_ERROR_UNREADABLE);
	write_u64(f, POINTER, UINT64_MAX - 3);
	assert_fails(f, VMS_ERROR_UNREADABLE);
}

static void add_size(uint64_t time_ns, unsigned level, const char *text, void *data)
{
	(void)time_ns, (void)level;
	*(size_t *)data += strlen(text);
}

/*
 * Every record claims all of the text that follows it, with ids that are text themselves: records
 * of a kernel never overlap, so that no more is given than the ring holds.
 */
static void test_overlapping_records(struct fixture *f, const void *data)
{
	(void)data;
	const uint64_t first = UINT64_C(0x2020202020202020);
	g_autoptr(GError) error = NULL;
	size_t size = 0;
	memset(fake_machine_at(f->machine, TEXT), 'x', SIZE);
	write_u64(f, PRB + 32, first);
	for (uint64_t i = 0; i < 1 << COUNT_BITS; i++) {
		write_u64(f, TEXT + i * 8, first + i);
		write_record(f, first + i, FINALIZED, i * 8, SIZE, 6, SIZE);
	}
	g_assert_false(vms_linux_dmesg(f->guest, add_size, &size, &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_MALFORMED);
	g_assert_cmpuint(size, >, 0);
	g_assert_cmpuint(size, <=, SIZE);
}

/* Records larger than a kernel's are no records. */
static void test_large_records(struct fixture *f, const void *data)
{
	(void)data;
	assert_fails(f, VMS_ERROR_UNSUPPORTED);
}

static void test_no_layout(struct fixture *f, const void *data)
{
	(void)data;
	g_clear_pointer(&f->guest->vmcoreinfo, g_free);
	assert_fails(f, VMS_ERROR_UNSUPPORTED);
}

/* ---- before 5.10 ------------------------------------------------------ */

static unsigned log_old(struct fixture *f, unsigned at, unsigned level, unsigned size,
			const char *text)
{
	uint8_t *record = fake_machine_at(f->machine, TEXT + at);
	const uint64_t time = GUINT64_TO_LE(at * 1000);
	const uint16_t sizes[2] = { GUINT16_TO_LE((uint16_t)size),
				    GUINT16_TO_LE((uint16_t)strlen(text)) };
	memcpy(record, &time, sizeof(time));
	memcpy(record + 8, sizes, sizeof(sizes));
	record[15] = (uint8_t)(level << 5);
	memcpy(record + 16, text, strlen(text));
	return at + size;
}

static void set_old(struct fixture *f, unsigned first, unsigned next)
{
	write_u64(f, LOG_NUMBER + 16, first);
	write_u64(f, LOG_NUMBER + 24, next);
}

static void test_old(struct fixture *f, const void *data)
{
	(void)data;
	unsigned at = log_old(f, 0, 3, 24, "one");
	at = log_old(f, at, 6, 40, "two\nlines");
	set_old(f, 0, at);
	assert_log(f, "0 3 one|24 6 two\nlines|");
	/* At the end there was no room: a record of size 0 says so. */
	log_old(f, 200, 1, 32, "last");
	log_old(f, 232, 0, 0, "");
	set_old(f, 200, 24);
	assert_log(f, "200 1 last|0 3 one|");
	set_old(f, 5, 5);
	assert_log(f, "");
}

static void test_old_hostile(struct fixture *f, const void *data)
{
	(void)data;
	log_old(f, 0, 3, 8, "too small");
	set_old(f, 0, 24);
	assert_fails(f, VMS_ERROR_MALFORMED);
	log_old(f, 0, 3, 24, "one");
	set_old(f, 0, 1); /* never reached */
	log_old(f, 24, 0, 0, "");
	g_autoptr(GString) log = g_string_new(NULL);
	vms_linux_dmesg(f->guest, add_line, log, NULL);
	g_assert_cmpuint(log->len, <, 1000);
	log_old(f, 0, 3, 24, "text that reaches into the next record");
	set_old(f, 0, 24);
	assert_fails(f, VMS_ERROR_MALFORMED);
	set_old(f, SIZE, 0);
	assert_fails(f, VMS_ERROR_MALFORMED);
	write_u64(f, LOG_NUMBER + 8, UINT32_MAX);
	assert_fails(f, VMS_ERROR_UNREADABLE);
}

/* As large a log as a kernel can have, and a larger one. */
static void test_old_size(struct fixture *f, const void *data)
{
	const uint64_t place = PRB + 0x100000, most = 1 << 25;
	(void)data;
	fake_machine_add_ram(f->machine, place, most + 8);
	write_u64(f, LOG_NUMBER, place);
	set_old(f, 0, 0);
	write_u64(f, LOG_NUMBER + 8, most);
	assert_log(f, "");
	write_u64(f, LOG_NUMBER + 8, most + 8);
	assert_fails(f, VMS_ERROR_UNREADABLE);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(path, info, test) g_test_add(path, struct fixture, info, setup, test, teardown)
	ADD("/dmesg/ring", ring_info, test_ring);
	ADD("/dmesg/wrapping", ring_info, test_wrapping);
	ADD("/dmesg/last-ids", ring_info, test_last_ids);
	ADD("/dmesg/hostile-positions", ring_info, test_hostile_positions);
	ADD("/dmesg/hostile-sizes", ring_info, test_hostile_sizes);
	ADD("/dmesg/overlapping-records", ring_info, test_overlapping_records);
	ADD("/dmesg/large-records", large_info, test_large_records);
	ADD("/dmesg/no-layout", ring_info, test_no_layout);
	ADD("/dmesg/old", log_info, test_old);
	ADD("/dmesg/old-size", log_info, test_old_size);
	ADD("/dmesg/old-hostile", log_info, test_old_hostile);
	return g_test_run();
}
