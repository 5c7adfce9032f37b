/* SPDX-License-Identifier: MIT */
/*
 * All that a gdb stub says, from the greeting to registers and memory. Input: a byte of flags, then
 * what it says.
 *
 * Covers: src/machine/gdb/gdb.c src/machine/gdb/memory.c src/machine/gdb/monitor.c
 * src/machine/gdb/packets.c src/machine/gdb/registers.c src/machine/gdb/target.c.
 */
#include "machine/gdb/gdb.h"
#include "machine/host/whose_stop.h"
#include "peer.h"

enum {
	INTERRUPTS = 1, /* requests stop a machine that runs, and a watchdog learns of it */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void talk(struct vms_gdb *gdb)
{
	struct vms_regs regs;
	struct vms_wide_regs wide;
	uint8_t buf[64];
	bool was_running;
	if (!vms_gdb_open(gdb, NULL))
		return;
	for (guint i = 0; i < gdb->threads->len && i < 4; i++)
		vms_gdb_regs(gdb, i, &regs, NULL);
	vms_gdb_forget_regs(gdb);
	vms_gdb_regs(gdb, 0, &regs, NULL);
	vms_gdb_read_phys(gdb, 0x1000, buf, sizeof(buf), NULL);
	if (!gdb->interrupts)
		vms_gdb_resume(gdb, NULL);
	vms_gdb_poll(gdb, NULL);
	vms_gdb_stop(gdb, NULL);
	vms_gdb_probe(gdb, &was_running, NULL);
	g_free(vms_gdb_monitor(gdb, "info mtree -f", NULL));
	vms_gdb_system_regs(gdb, 0, &regs, NULL);
	vms_gdb_interrupt(gdb, true, &was_running, NULL);
	vms_gdb_resync(gdb, NULL);
	vms_gdb_wide_regs(gdb, 0, &wide, NULL);
	vms_gdb_detach(gdb, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_gdb gdb = { 0 };
	struct vms_hold hold = { 0 };
	if (size == 0)
		return 0;
	if (data[0] & INTERRUPTS) {
		gdb.interrupts = true;
		gdb.hold = &hold;
		vms_hold_begin(&hold, VMS_HOLD_LOOKING, 0, UINT64_MAX);
	}
	int peer = fuzz_peer_start(&gdb.stream, data + 1, size - 1);
	talk(&gdb);
	vms_gdb_close(&gdb);
	fuzz_peer_stop(peer);
	return 0;
}
