/* SPDX-License-Identifier: MIT */
#include "fake_qemu.h"

#include "agent/calls/instrument.h"
#include "agent/coverage/instrument.h"
#include "agent/period/instrument.h"
#include "agent/probes/instrument.h"
#include "agent/probes/visit.h"
#include "agent/qemu/internals.h"
#include "agent/qemu/kick.h"
#include "agent/qemu/retranslate.h"
#include "agent/tasks/hooks.h"
#include <string.h>

struct job {
	void (*function)(void *data);
	void *data;
};

static struct {
	GMutex lock;
	GQueue jobs; /* struct job */
	_Atomic bool needs_code;
} fake = { .jobs = G_QUEUE_INIT };

void fake_qemu_set_needs_code(bool needs_code)
{
	fake.needs_code = needs_code;
}

void fake_qemu_run(void)
{
	struct job *job;
	g_mutex_lock(&fake.lock);
	while ((job = g_queue_pop_head(&fake.jobs))) {
		g_mutex_unlock(&fake.lock);
		job->function(job->data);
		g_free(job);
		g_mutex_lock(&fake.lock);
	}
	g_mutex_unlock(&fake.lock);
}

/* ---- retranslate.h ----------------------------------------------------------------- */

void retranslate_code(void (*done)(void *data), void *data)
{
	if (!done)
		return;
	struct job *job = g_new(struct job, 1);
	*job = (struct job) { done, data };
	g_mutex_lock(&fake.lock);
	g_queue_push_tail(&fake.jobs, job);
	g_mutex_unlock(&fake.lock);
	if (!fake.needs_code)
		fake_qemu_run();
}

/* ---- kick.h, internals.h -------------------------------------------------------- */

bool kick_needs_code(void)
{
	return fake.needs_code;
}

void kick_begin_wait(void)
{
}

void kick_end_wait(void)
{
}

void kick_vcpu(unsigned index)
{
	g_assert_cmpuint(index, <, vcpus_max());
}

bool internals_read_ram(uint64_t address, void *buf, size_t size)
{
	if (address % 2)
		return false;
	memset(buf, (int)(address & 0xff), size);
	return true;
}

void *internals_vcpu(__attribute__((unused)) unsigned index)
{
	return NULL; /* its registers are read as plugins read them */
}

void internals_find_registers(__attribute__((unused)) void *qemu_vcpu,
			      __attribute__((unused)) const char *const *names,
			      __attribute__((unused)) unsigned n,
			      __attribute__((unused)) int *numbers)
{
	g_assert_not_reached();
}

void internals_each_register(__attribute__((unused)) void *qemu_vcpu,
			     __attribute__((unused)) void (*each)(const char *name, int number,
								  void *data),
			     __attribute__((unused)) void *data)
{
	g_assert_not_reached();
}

void internals_read_register(__attribute__((unused)) void *qemu_vcpu,
			     __attribute__((unused)) int number,
			     __attribute__((unused)) GByteArray *bytes)
{
	g_assert_not_reached();
}

struct internals_state internals_find_state(__attribute__((unused)) const char *table,
					    __attribute__((unused)) const char *name)
{
	g_assert_not_reached();
}

uint64_t internals_read_state(__attribute__((unused)) const void *qemu_vcpu,
			      __attribute__((unused)) struct internals_state state)
{
	g_assert_not_reached();
}

/* ---- instrument.h --------------------------------------------------------------- */

void instrument_block(__attribute__((unused)) struct qemu_plugin_tb *tb)
{
}

void probes_instrument(__attribute__((unused)) struct qemu_plugin_tb *tb)
{
}

bool coverage_instrument_init(void)
{
	return true;
}

void coverage_instrument(__attribute__((unused)) struct coverage *coverage,
			 __attribute__((unused)) struct qemu_plugin_tb *tb,
			 __attribute__((unused)) const struct coverage_callbacks *callbacks)
{
}

struct outcome outcome_of(__attribute__((unused)) struct vcpu *vcpu, const struct pending *pending,
			  uint64_t pc)
{
	return (struct outcome) { .end = pc == pending->va ? NOT_EXECUTED : EXECUTED };
}

/* ---- period/instrument.h ------------------------------------------------------------ */

bool period_instrument_init(void)
{
	return true;
}

void period_count_anew(__attribute__((unused)) unsigned vcpu)
{
}

void period_instrument(__attribute__((unused)) struct qemu_plugin_tb *tb,
		       __attribute__((unused)) uint64_t instructions,
		       __attribute__((unused)) qemu_plugin_vcpu_udata_cb turn)
{
}

/* ---- hooks.h ---------------------------------------------------------------------- */

void tasks_hook(__attribute__((unused)) struct qemu_plugin_tb *tb)
{
}

/* ---- QEMU's own ------------------------------------------------------------------- */

struct qemu_plugin_scoreboard {
	uint64_t value[VMS_AGENT_MAX_VCPUS];
};

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(__attribute__((unused)) size_t size)
{
	return g_new0(struct qemu_plugin_scoreboard, 1);
}

void qemu_plugin_u64_set(qemu_plugin_u64 entry, unsigned vcpu, uint64_t value)
{
	entry.score->value[vcpu] = value;
}

uint64_t qemu_plugin_u64_get(qemu_plugin_u64 entry, unsigned vcpu)
{
	return ++entry.score->value[vcpu];
}

GArray *qemu_plugin_get_registers(void)
{
	static const qemu_plugin_reg_descriptor regs[] = { { (void *)1, "pc", NULL },
							   { (void *)2, "sp", NULL } };
	GArray *found = g_array_new(FALSE, FALSE, sizeof(regs[0]));
	g_array_append_vals(found, regs, G_N_ELEMENTS(regs));
	return found;
}

void qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *bytes)
{
	const uint64_t value = (uintptr_t)handle;
	g_byte_array_append(bytes, (const uint8_t *)&value, sizeof(value));
}

/* Each byte is that of its address. */
bool qemu_plugin_read_memory_vaddr(uint64_t va, GByteArray *bytes, size_t size)
{
	g_byte_array_set_size(bytes, (guint)size);
	for (size_t i = 0; i < size; i++)
		bytes->data[i] = (uint8_t)(va + i);
	return va >> 63;
}
