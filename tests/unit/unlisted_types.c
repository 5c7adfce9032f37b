/* SPDX-License-Identifier: MIT */
#include "unlisted_types.h"

struct basic {
	uint32_t u32, u64, head;
};

static struct basic put_basic(struct encoder *e)
{
	struct basic basic;
	basic.u32 = put_type(e, "u32", INT, 0, false, 4);
	put(e, 32);
	basic.u64 = put_type(e, "u64", INT, 0, false, 8);
	put(e, 64);
	basic.head = put_type(e, "list_head", STRUCT, 2, false, 16);
	put_member(e, "next", basic.u64, 0);
	put_member(e, "prev", basic.u64, 64);
	return basic;
}

static void put_module(struct encoder *e, struct basic basic)
{
	const uint32_t object = put_type(e, "module_kobject", STRUCT, 1, false, 16);
	put_member(e, "mod", basic.u64, 64);
	put_type(e, "module", STRUCT, 2, false, 0x80);
	put_member(e, "list", basic.head, MODULE_LIST * 8);
	put_member(e, "mkobj", object, (MODULE_SELF - 8) * 8);
}

static void put_clocks(struct encoder *e, struct basic basic)
{
	put_type(e, "clocksource", STRUCT, 6, false, 48);
	put_member(e, "mask", basic.u64, SOURCE_MASK * 8);
	put_member(e, "mult", basic.u32, SOURCE_MULT * 8);
	put_member(e, "shift", basic.u32, SOURCE_SHIFT * 8);
	put_member(e, "name", basic.u64, SOURCE_NAME * 8);
	put_member(e, "list", basic.head, SOURCE_LIST * 8);
	put_member(e, "rating", basic.u32, SOURCE_RATING * 8);
	const uint32_t base = put_type(e, "tk_read_base", STRUCT, 4, false, 24);
	put_member(e, "clock", basic.u64, READ_CLOCK * 8);
	put_member(e, "mask", basic.u64, READ_MASK * 8);
	put_member(e, "mult", basic.u32, READ_MULT * 8);
	put_member(e, "shift", basic.u32, READ_SHIFT * 8);
	put_type(e, "timekeeper", STRUCT, 4, false, 64);
	put_member(e, "tkr_mono", base, KEEPER_MONO * 8);
	put_member(e, "tkr_raw", base, KEEPER_RAW * 8);
	put_member(e, "cycle_interval", basic.u64, KEEPER_CYCLES * 8);
	put_member(e, "raw_interval", basic.u64, KEEPER_SHIFTED_NS * 8);
}

static void put_percpu(struct encoder *e, struct basic basic)
{
	const uint32_t number = put_variable(e, "cpu_number", basic.u32);
	const uint32_t stat = put_variable(e, "kstat", basic.u64);
	const uint32_t bases = put_variable(e, "hrtimer_bases", basic.u64);
	const uint32_t device = put_variable(e, "tick_cpu_device", basic.u64);
	put_type(e, ".data..percpu", DATASEC, 4, false, 0x200);
	put_place(e, number, PERCPU_CPU_NUMBER, 4);
	put_place(e, stat, PERCPU_KSTAT, 8);
	put_place(e, bases, PERCPU_HRTIMER_BASES, 8);
	put_place(e, device, PERCPU_TICK_CPU_DEVICE, 8);
}

GByteArray *unlisted_types(void)
{
	struct encoder encoder = encoder_new();
	const struct basic basic = put_basic(&encoder);
	put_module(&encoder, basic);
	put_clocks(&encoder, basic);
	put_percpu(&encoder, basic);
	return finish(&encoder);
}
