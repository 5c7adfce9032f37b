/* SPDX-License-Identifier: MIT */
#include "guest/follower.h"
#include "base/clock.h"
#include "base/keyed_hash.h"
#include "guest/guest-private.h"

/* Time between two readings of the modules. */
#define INTERVAL_NS UINT64_C(1000000000)
/* How often a guest is detected anew. The time between two detections doubles each time. */
#define MAX_LOOKS 6

/* Returns a number that differs for other modules. */
static uint64_t hash_modules(const struct vms_guest *guest)
{
	size_t n;
	const struct vms_module *const *modules = vms_guest_modules(guest, &n);
	uint64_t hash = n;

	for (size_t i = 0; i < n; i++) {
		const struct vms_module *module = modules[i];
		hash = hash * 31 + module->text + vms_hash_text(module->name);
		hash = hash * 31 + module->init_text;
	}
	return hash;
}

static bool is_recognised(const struct vms_guest *guest)
{
	return vms_guest_kind(guest) != VMS_GUEST_NONE;
}

enum vms_guest_news vms_guest_refresh(struct vms_guest *guest, GError **error)
{
	if (!is_recognised(guest))
		return vms_guest_detect_again(guest, error) ? VMS_GUEST_NEW_KERNEL
							    : VMS_GUEST_NO_NEWS;
	uint64_t before = hash_modules(guest);
	bool is_other = vms_guest_refresh_modules(guest, error) && hash_modules(guest) != before;
	return is_other ? VMS_GUEST_NEW_CODE : VMS_GUEST_NO_NEWS;
}

/* ---- from one kernel to the next --------------------------------------- */

void vms_guest_follower_init(struct vms_guest_follower *follower, struct vms_guest *guest,
			     GMutex *lock)
{
	*follower = (struct vms_guest_follower) {
		.guest = guest,
		.lock = lock,
		.is_settled = is_recognised(guest),
	};
	if (is_recognised(guest))
		vms_guest_refresh_modules(guest, NULL);
}

bool vms_guest_follower_was_reset(struct vms_guest_follower *follower)
{
	if (!vms_guest_take_reset(follower->guest))
		return false;
	follower->was_reset = follower->is_void = true;
	follower->is_settled = false;
	follower->n_looks = 0;
	g_mutex_lock(follower->lock);
	follower->runs_programs = false;
	g_mutex_unlock(follower->lock);
	return true;
}

static bool is_running_programs(const struct vms_guest_follower *follower)
{
	g_mutex_lock(follower->lock);
	bool runs = follower->runs_programs;
	g_mutex_unlock(follower->lock);
	return runs;
}

static bool refresh_guest(struct vms_guest_follower *follower)
{
	enum vms_guest_news news = vms_guest_refresh(follower->guest, NULL);

	if (news == VMS_GUEST_NEW_KERNEL)
		follower->is_settled = vms_guest_is_complete(follower->guest);
	return news != VMS_GUEST_NO_NEWS;
}

/*
 * Detects the guest anew, and takes what was found if a kernel was recognised.
 *
 * A kernel that was recognised while it booted may lack what it set up later: modules and, on some
 * architectures, its final page tables. After a reset, memory still holds the last kernel, which
 * may be taken for the new one until that runs programs. `runs_programs` is asked after the
 * detection, because the kernel may begin to run programs during it.
 */
static bool detect_anew(struct vms_guest_follower *follower)
{
	g_autoptr(vms_guest) anew = vms_guest_detect_other(follower->guest, NULL);
	size_t n_modules;

	follower->next_look_ns = vms_clock_now_ns() + (INTERVAL_NS << follower->n_looks);
	if (!anew || !is_recognised(anew))
		return false;
	follower->is_settled =
		++follower->n_looks == MAX_LOOKS ||
		(is_running_programs(follower) && vms_guest_modules(anew, &n_modules) != NULL);
	g_mutex_lock(follower->lock);
	vms_guest_exchange(follower->guest, anew);
	g_mutex_unlock(follower->lock);
	follower->is_void = false;
	return true;
}

static bool detect_on_request(struct vms_guest_follower *follower)
{
	return is_recognised(follower->guest) && !follower->is_settled ? detect_anew(follower)
								       : refresh_guest(follower);
}

/* True if it is time to detect a recognised guest anew. */
static bool is_detection_due(const struct vms_guest_follower *follower, uint64_t now_ns)
{
	return !follower->is_settled && (is_running_programs(follower) || follower->was_reset) &&
	       now_ns >= follower->next_look_ns;
}

static bool detect_at_intervals(struct vms_guest_follower *follower)
{
	const uint64_t now_ns = vms_clock_now_ns();

	if (!is_recognised(follower->guest))
		return refresh_guest(follower);
	if (is_detection_due(follower, now_ns))
		return detect_anew(follower);
	/* After a reset, memory still holds modules of the last kernel. */
	if (now_ns - follower->refreshed_ns < INTERVAL_NS ||
	    (follower->was_reset && !follower->is_settled))
		return false;
	follower->refreshed_ns = now_ns;
	return refresh_guest(follower);
}

bool vms_guest_follow(struct vms_guest_follower *follower, unsigned signs)
{
	if (is_recognised(follower->guest) && !follower->is_settled && !follower->is_void)
		vms_guest_follow_tables(follower->guest, NULL);
	/* After a reset, the guest asks too early: its memory still holds the last kernel. */
	if (signs & VMS_GUEST_ASKS && (!follower->was_reset || follower->is_settled))
		return detect_on_request(follower);
	return (signs & VMS_GUEST_GOES_ON || follower->was_reset) && detect_at_intervals(follower);
}
