/* SPDX-License-Identifier: MIT */
/*
 * The kernel's log in memory of any content (words.h), of which BTF tells: a ring of records, as
 * kernels before 5.10 have it, or the newer ring, of which dmesg.c fills more.
 *
 * Covers: src/guest/linux/dmesg.c.
 */
#include "guest/linux/dmesg.h"
#include "words.h"

enum {
	NEW_RING = 1,
	NO_MEMBERS = 2, /* something is missing */
	NO_LENGTH = 4,	/* how long the log is is not told */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct encoder_member lpos[] = { { "begin", 0, 8 }, { "next", 8, 8 }, { 0 } };

static const struct words_structure structures[] = {
	{ "printk_log",
	  { 0, NO_MEMBERS },
	  { { "ts_nsec", 0, 8 }, { "len", 8, 2 }, { "text_len", 10, 2 }, { "dict_len", 12, 2 } } },
	{ "printk_ringbuffer",
	  { NEW_RING, 0 },
	  { { "desc_ring", 0, 48 }, { "text_data_ring", 48, 16 } } },
	{ "prb_desc_ring",
	  { NEW_RING, 0 },
	  { { "count_bits", 0, 4 },
	    { "descs", 8, 8 },
	    { "infos", 16, 8 },
	    { "head_id", 24, 8 },
	    { "tail_id", 32, 8 } } },
	{ "prb_data_ring", { NEW_RING, 0 }, { { "size_bits", 0, 4 }, { "data", 8, 8 } } },
	{ "prb_desc",
	  { NEW_RING, 0 },
	  { { "state_var", 0, 8 }, { "text_blk_lpos", 8, 16, lpos } } },
	{ "prb_data_blk_lpos", { NEW_RING, 0 }, { { "begin", 0, 8 }, { "next", 8, 8 } } },
	{ "printk_info", { NEW_RING, 0 }, { { "ts_nsec", 0, 8 }, { "text_len", 8, 2 } } },
	{ 0 },
};

static const struct words_symbol symbols[] = {
	{ "prb", WORDS_RAM + 0x18, { 0, 0 } },
	{ "log_buf", WORDS_RAM, { 0, 0 } },
	{ "log_buf_len", WORDS_RAM + 8, { 0, NO_LENGTH } },
	{ "log_first_idx", WORDS_RAM + 0x10, { 0, 0 } },
	{ "log_next_idx", WORDS_RAM + 0x14, { 0, 0 } },
	{ 0 },
};

static void check_record(uint64_t time_ns, unsigned level, const char *text, void *data)
{
	(void)time_ns, (void)data;
	g_assert_cmpuint(level, <, 8);
	g_assert_true(g_utf8_validate(text, -1, NULL));
	g_assert_null(strchr(text, '\033'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct words_kernel kernel = { &vms_arch_x86_64, symbols, structures, { 0 } };
	struct vms_linux *guest = words_linux_new(&kernel, data, size);
	vms_linux_dmesg(guest, check_record, NULL, NULL);
	words_linux_free(guest);
	return 0;
}
