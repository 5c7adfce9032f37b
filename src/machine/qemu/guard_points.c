/* SPDX-License-Identifier: MIT */
#include "machine/qemu/guard_points.h"

#include "machine/qemu/guard_peer.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How many vCPUs a machine may have, and how long to wait for the end of a step. */
#define VCPUS_MAX 4096
#define STEP_MS	  20

/*
 * Precedes each row of packets. The stub tells of a stop, and ends a step, if an interrupt is the
 * byte that stops the machine. While an answer is left to be acknowledged, the first interrupt has
 * no effect.
 */
#define STOP_ANY "\003+\003"

/* The watchdog's own copy of the connection to QEMU's stub, and whether it has stopped QEMU. */
static int stub_fd = -1;
static bool stopped_by_clearing;
/* The holder's word, and what vms_guard_expect_stop has made of it; 0: nothing. */
static uint64_t word_before, word_expecting;
/* The holder's `seen_ns` when its breakpoints were removed last: it has not moved since. */
static uint64_t cleared_seen_ns;

bool vms_guard_receive_stub(const struct vms_guard *guard)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char byte;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(guard->holder_end, &message, MSG_DONTWAIT);
	const struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_type == SCM_RIGHTS) {
		if (stub_fd >= 0)
			close(stub_fd);
		memcpy(&stub_fd, CMSG_DATA(header), sizeof(stub_fd));
	}
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

bool vms_guard_has_stopped(void)
{
	return stopped_by_clearing;
}

void vms_guard_note_stop(void)
{
	stopped_by_clearing = true;
}

void vms_guard_forget_stop(void)
{
	stopped_by_clearing = false;
}

void vms_guard_expect_stop(struct vms_hold *hold)
{
	word_before = atomic_load(&hold->word);
	const uint64_t held = vms_hold_in_phase(word_before, VMS_HOLD_HELD);
	uint64_t word = word_before;
	if (!vms_hold_may_be_ours(vms_hold_phase(word)) &&
	    atomic_compare_exchange_strong(&hold->word, &word, held))
		word_expecting = held;
}

void vms_guard_settle_stop(struct vms_hold *hold)
{
	uint64_t word = word_expecting;
	const uint64_t owed = vms_hold_in_phase(word, VMS_HOLD_OWED);
	word_expecting = 0;
	if (word && atomic_compare_exchange_strong(&hold->word, &word,
						   stopped_by_clearing ? owed : word_before))
		return;
	if (stopped_by_clearing)
		vms_hold_change_unheld(hold, VMS_HOLD_OWED);
}

/* Appends a packet to a row of them. */
static void append_packet(char *row, size_t size, const char *payload)
{
	const size_t used = strlen(row);
	uint8_t sum = 0;
	for (const char *c = payload; *c; c++)
		sum += (uint8_t)*c;
	snprintf(row + used, size - used, "$%s#%02x", payload, sum);
}

/* Waits for the stub's answer to qC, which is the last of a row. */
static bool wait_for_current(const struct vms_guard *guard, int fd, int wait_ms)
{
	enum vms_peer_answer answer;
	do {
		answer = vms_peer_wait(fd, "$QC", false, VMS_GUARD_ANSWER_MS);
		wait_ms -= VMS_GUARD_ANSWER_MS;
	} while (answer == VMS_PEER_SILENT && !vms_guard_has_qemu_gone(guard) && wait_ms > 0);
	return answer == VMS_PEER_ANSWERED;
}

/* Drops what the stub has sent. If that tells that our bytes have stopped the machine, notes it. */
static void drop_received(void)
{
	stopped_by_clearing |= vms_peer_find(VMS_PEER_TOLD_STOP) != NULL;
	vms_peer_forget();
}

/*
 * Removes the breakpoints of one vCPU: a debugger that begins asks `?`, and QEMU forgets them then.
 * Under TCG each vCPU has a list of its own.
 */
static bool clear_vcpu(const struct vms_guard *guard, int fd, unsigned thread)
{
	char select[32], row[64] = STOP_ANY;
	snprintf(select, sizeof(select), "Hc%x", thread);
	append_packet(row, sizeof(row), select);
	append_packet(row, sizeof(row), "?");
	append_packet(row, sizeof(row), "qC");
	drop_received();
	return vms_peer_send(fd, row) && wait_for_current(guard, fd, G_MAXINT);
}

static unsigned last_thread(const struct vms_guard *guard)
{
	return (unsigned)MIN(atomic_load(&guard->record->hold.last_thread), VCPUS_MAX);
}

/* See vms_guard_clear_by. */
static bool clear_all_vcpus(const struct vms_guard *guard, int fd, int wait_ms)
{
	vms_hold_note_request(&guard->record->hold, g_get_real_time());
	if (!vms_peer_send(fd, STOP_ANY "#00$qC#b4") || !wait_for_current(guard, fd, wait_ms))
		return false;
	vms_hold_note_answer(&guard->record->hold);
	for (unsigned thread = 1; thread <= last_thread(guard); thread++)
		if (!clear_vcpu(guard, fd, thread))
			return false;
	return true;
}

bool vms_guard_clear_by(const struct vms_guard *guard, int fd, int wait_ms)
{
	/* What the holder has left unread: a request of its own may have stopped the machine. */
	vms_peer_forget();
	do
		drop_received();
	while (vms_peer_receive(fd, false) && vms_peer_size());
	const bool done = clear_all_vcpus(guard, fd, wait_ms);
	drop_received();
	return done;
}

void vms_guard_clear_breakpoints(const struct vms_guard *guard, bool is_running)
{
	struct vms_hold *hold = &guard->record->hold;
	const int fd = stub_fd >= 0 ? stub_fd : guard->stub;
	if (fd < 0)
		return;
	cleared_seen_ns = atomic_load(&hold->seen_ns);
	if (is_running)
		vms_guard_expect_stop(hold);
	/* Without an answer, the stop may still come. */
	const bool done = vms_guard_clear_by(guard, fd, G_MAXINT);
	if (done || stopped_by_clearing)
		vms_guard_settle_stop(hold);
	if (done)
		atomic_store(&hold->is_cleared, true);
}

bool vms_guard_may_have_points(const struct vms_hold *hold)
{
	return atomic_load(&hold->has_breakpoints) &&
	       !(atomic_load(&hold->is_cleared) && atomic_load(&hold->seen_ns) == cleared_seen_ns);
}

void vms_guard_end_lost_steps(const struct vms_guard *guard, int fd)
{
	for (unsigned thread = 1; thread <= last_thread(guard); thread++) {
		char select[32], step[32], first[64] = STOP_ANY, second[64] = "+";
		snprintf(select, sizeof(select), "Hc%x", thread);
		append_packet(first, sizeof(first), select);
		snprintf(step, sizeof(step), "vCont;s:%x", thread);
		append_packet(second, sizeof(second), step);
		vms_peer_forget();
		if (!vms_peer_send(fd, first) ||
		    vms_peer_wait(fd, "$OK#9a", false, VMS_GUARD_ANSWER_MS) != VMS_PEER_ANSWERED)
			return;
		vms_peer_forget();
		if (!vms_peer_send(fd, second))
			return;
		if (vms_peer_wait(fd, "$T", false, STEP_MS) != VMS_PEER_SILENT)
			continue;
		/* An instruction that waits for an interrupt gets none. The machine is `paused`
		 * then. */
		vms_guard_note_stop();
		if (!vms_peer_send(fd, "\003") ||
		    vms_peer_wait(fd, "$T", false, VMS_GUARD_ANSWER_MS) != VMS_PEER_ANSWERED)
			return;
	}
}
