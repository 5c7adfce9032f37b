/* SPDX-License-Identifier: MIT */
/*
 * The ring of the kernel log with any content. Input: the head of the ring (bits of the number of
 * records and of text, ids of head and tail, 18 bytes), then descriptors, infos and text.
 *
 * Covers: src/guest/linux/dmesg.c.
 */
#include "guest/linux/dmesg.h"
#include "../unit/fake_linux.h"

#define PRB	  UINT64_C(0xffff888000000000)
#define POINTER	  (PRB + 0x80)
#define ARRAYS	  (PRB + 0x1000)
#define RAM_SIZE  0x4000
#define HEAD_SIZE 18

static const char vmcoreinfo[] =
	"OFFSET(printk_ringbuffer.desc_ring)=0\nOFFSET(printk_ringbuffer.text_data_ring)=64\n"
	"OFFSET(prb_desc_ring.count_bits)=0\nOFFSET(prb_desc_ring.descs)=8\n"
	"OFFSET(prb_desc_ring.infos)=16\nOFFSET(prb_desc_ring.head_id)=24\n"
	"OFFSET(prb_desc_ring.tail_id)=32\nSIZE(prb_desc)=24\nOFFSET(prb_desc.state_var)=0\n"
	"OFFSET(prb_desc.text_blk_lpos)=8\nOFFSET(prb_data_blk_lpos.begin)=0\n"
	"OFFSET(prb_data_blk_lpos.next)=8\nSIZE(printk_info)=24\nOFFSET(printk_info.ts_nsec)=8\n"
	"OFFSET(printk_info.text_len)=16\nOFFSET(prb_data_ring.size_bits)=0\n"
	"OFFSET(prb_data_ring.data)=8\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_record(uint64_t time_ns, unsigned level, const char *text, void *data)
{
	unsigned *n = data;

	(void)time_ns;
	g_assert_cmpuint(level, <, 8);
	g_assert_true(g_utf8_validate(text, -1, NULL));
	g_assert_null(strchr(text, '\033'));
	++*n;
}

static void fill(struct vms_machine *machine, const uint8_t *data, size_t size)
{
	uint64_t n = UINT64_C(1) << (data[0] % 8), infos = ARRAYS + n * 24;

	fake_machine_write_u64(machine, POINTER, PRB);
	fake_machine_write_u64(machine, PRB, data[0]);
	fake_machine_write_u64(machine, PRB + 8, ARRAYS);
	fake_machine_write_u64(machine, PRB + 16, infos);
	memcpy(fake_machine_at(machine, PRB + 24), data + 2, 16);
	fake_machine_write_u64(machine, PRB + 64, data[1]);
	fake_machine_write_u64(machine, PRB + 72, infos + n * 24);
	memcpy(fake_machine_at(machine, ARRAYS), data + HEAD_SIZE,
	       MIN(size - HEAD_SIZE, RAM_SIZE - 0x1000));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fake_symbol symbols[] = { { "prb", POINTER }, { NULL, 0 } };
	unsigned n = 0;

	if (size < HEAD_SIZE)
		return 0;
	struct vms_machine *machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(machine, PRB, RAM_SIZE);
	fill(machine, data, size);
	struct vms_linux *guest = fake_linux_new(machine, symbols, NULL);
	guest->vmcoreinfo = g_strdup(vmcoreinfo);
	vms_linux_dmesg(guest, check_record, &n, NULL);
	g_assert_cmpuint(n, <=, 256);
	vms_linux_free(guest);
	vms_machine_unref(machine);
	return 0;
}
