/* SPDX-License-Identifier: MIT */
/*
 * Whether a hold of a QEMU's stub has to end: its limit has passed, or something has begun that
 * must not be disturbed, as a migration. QEMU is asked for that without waiting for its answer, so
 * that the thread which reads the guest never waits for it.
 */
#include "base/clock.h"
#include "machine/qemu/stub-private.h"
#include <string.h>

/* When to look for the answer to a question. */
#define ANSWER_NS UINT64_C(500000)

void vms_stub_set_check(struct vms_qemu_stub *stub)
{
	stub->question_ns = 0;
	stub->check_ns = vms_clock_now_ns() + VMS_STUB_CHECK_NS;
	vms_timer_set(stub->timer, VMS_STUB_CHECK_NS);
}

/* ---- questions ---------------------------------------------------------- */

static void ask_migration(struct vms_qemu_stub *stub)
{
	const uint64_t now_ns = vms_clock_now_ns();
	stub->question_ns = vms_qmp_ask(&stub->qemu.qmp, "query-migrate") ? now_ns : 0;
}

bool vms_stub_has_no_migration(const char *migration)
{
	return !strstr(migration, "tatus:");
}

/*
 * The answer is from after the stop. This thread may have read it late, so the time is that of
 * QEMU's event, by the clock of this host.
 */
void vms_stub_note_migration(struct vms_qemu_stub *stub, const char *migration)
{
	struct vms_qmp *qmp = &stub->qemu.qmp;
	if (!stub->asked_ns || !stub->qemu.process.pid || !vms_qemu_knows_no_job(&stub->qemu) ||
	    !vms_stub_has_no_migration(migration) || qmp->resumes != stub->resumes)
		return;
	const int64_t ago_us = g_get_real_time() - qmp->last_stop_us;
	if (qmp->stops != stub->stops && ago_us >= 0)
		stub->asked_ns = MAX(stub->asked_ns, vms_clock_now_ns() - (uint64_t)ago_us * 1000);
}

void vms_stub_take_answer(struct vms_qemu_stub *stub, struct vms_qemu_condition *ret)
{
	*ret = (struct vms_qemu_condition) { .state = VMS_RUN_UNKNOWN };
	if (!stub->question_ns || !vms_qemu_take_migration(&stub->qemu, ret))
		return;
	if (*ret->busy)
		stub->asked_ns = 0;
	else if (stub->asked_ns)
		stub->asked_ns = MAX(stub->asked_ns, stub->question_ns);
	stub->question_ns = 0;
}

/*
 * Fills in what is under way, as far as QEMU has told. Where a job has begun or ended, all is asked
 * for at once.
 */
static void learn_condition(struct vms_qemu_stub *stub, struct vms_qemu_condition *ret)
{
	if (!vms_qemu_knows_no_job(&stub->qemu)) {
		if (!vms_qemu_ask_condition(&stub->qemu, ret, NULL))
			*ret->busy = '\0';
		return;
	}
	vms_stub_take_answer(stub, ret);
	if (!*ret->busy && !stub->question_ns)
		ask_migration(stub);
}

/* ---- the timer ---------------------------------------------------------- */

/* Why the hold has to end, newly allocated; NULL: it may go on. */
static char *find_reason_to_end(struct vms_qemu_stub *stub)
{
	struct vms_qemu_condition now;
	const struct vms_hold *hold = vms_stub_hold(stub);
	const uint64_t limit_ns = atomic_load(&hold->limit_ns);
	if (vms_clock_now_ns() > atomic_load(&hold->begin_ns) + limit_ns)
		return g_strdup_printf("was released after %.1f s, the limit of a hold,",
				       (double)limit_ns / 1e9);
	learn_condition(stub, &now);
	return *now.busy ? g_strdup_printf("was released for %s", now.busy) : NULL;
}

/* Ends a hold of ours if it has to end. */
static void check_own_hold(struct vms_qemu_stub *stub)
{
	/* The timer expired before the stop, and was set anew since. */
	if (vms_clock_now_ns() < stub->check_ns)
		return;
	char *reason = find_reason_to_end(stub);
	if (!reason) {
		vms_timer_set(stub->timer, stub->question_ns ? ANSWER_NS : VMS_STUB_CHECK_NS);
		return;
	}
	vms_stub_take_probes_away(stub, reason);
	vms_stub_release_stop(stub, NULL);
	g_free(stub->ended_by);
	stub->ended_by = reason;
}

bool vms_stub_has_failed_stub(struct vms_qemu_stub *stub)
{
	return stub->gdb.broken && stub->connected && !vms_stub_is_ours(stub);
}

void vms_stub_check_hold(void *data)
{
	struct vms_qemu_stub *stub = data;
	vms_machine_hurry_holder(&stub->qemu.machine);
	G_GNUC_UNUSED g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&stub->qemu.machine.lock);
	atomic_store(&vms_stub_hold(stub)->seen_ns, vms_clock_now_ns());
	if (vms_stub_is_owed(stub) || vms_stub_has_failed_stub(stub)) {
		if (!vms_stub_settle_release(stub, NULL))
			vms_timer_set(stub->timer, VMS_STUB_RETRY_NS);
		else if (vms_stub_may_have_points(stub))
			vms_timer_set(stub->timer, VMS_STUB_CHECK_NS);
	} else if (vms_stub_is_ours(stub)) {
		check_own_hold(stub);
	} else {
		vms_stub_check_probes(stub);
	}
}
