/* SPDX-License-Identifier: MIT */
/*
 * All that a QMP peer says.
 *
 * Covers: src/machine/qemu/qmp.c.
 */
#include "machine/qemu/qmp.h"
#include "peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void talk(struct vms_qmp *qmp)
{
	if (!vms_qmp_open(qmp, NULL))
		return;
	g_free(vms_qmp_hmp(qmp, "info mtree -f", NULL));
	vms_autojson *answer = vms_qmp_execute(qmp, "query-cpus-fast", NULL, -1, NULL);
	uint64_t number;
	g_free(vms_qmp_hmp_vcpu(qmp, "info registers", 0, NULL));
	vms_json_uint(answer, "thread-id", G_MAXINT, &number);
	struct vms_qmp_command commands[] = { { .name = "stop" }, { .name = "cont" } };
	vms_qmp_execute_all(qmp, commands, G_N_ELEMENTS(commands), NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
		json_object_put(commands[i].answer);
	vms_qmp_poll(qmp);
	vms_qmp_paused_ns(qmp, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vms_qmp qmp = { 0 };
	int peer = fuzz_peer_start(&qmp.stream, data, size);
	talk(&qmp);
	vms_qmp_close(&qmp);
	fuzz_peer_stop(peer);
	return 0;
}
