/* SPDX-License-Identifier: MIT */
#include "guest/follower.h"
#include "base/clock.h"

#define INTERVAL_NS UINT64_C(1000000000) /* how often modules are looked at */
#define MAX_LOOKS   6 /* at a guest that was recognised in part, after ever longer times */

/* Other modules give another number. */
static uint64_t hash_modules(const struct vms_guest *guest)
{
	const GPtrArray *modules = vms_guest_modules(guest);
	uint64_t hash = modules ? modules->len : 0;

	for (guint i = 0; modules && i < modules->len; i++) {
		const struct vms_module *module = modules->pdata[i];
		hash = hash * 31 + module->text + g_str_hash(module->name);
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
	follower->was_reset = true;
	follower->is_settled = false;
	follower->n_looks = 0;
	return true;
}

static bool refresh(struct vms_guest_follower *follower)
{
	enum vms_guest_news news = vms_guest_refresh(follower->guest, NULL);

	if (news == VMS_GUEST_NEW_KERNEL)
		follower->is_settled = vms_guest_is_complete(follower->guest);
	return news != VMS_GUEST_NO_NEWS;
}

/*
 * A kernel that was recognised while it booted may lack what it did not have then: modules, on some
 * architectures the page tables that it uses in the end. After a reset what is left in memory of
 * the last kernel may be taken for it, until it runs programs. All this takes its time.
 */
static bool look_anew(struct vms_guest_follower *follower, unsigned signs)
{
	struct vms_machine *machine = vms_guest_machine(follower->guest);
	g_autoptr(vms_guest) anew = vms_guest_detect(machine, NULL);

	follower->next_look_ns = vms_clock_now_ns() + (INTERVAL_NS << follower->n_looks);
	if (!anew || !is_recognised(anew))
		return false;
	follower->is_settled = ++follower->n_looks == MAX_LOOKS ||
			       (signs & VMS_GUEST_RUNS_PROGRAMS && vms_guest_modules(anew) != NULL);
	g_mutex_lock(follower->lock);
	vms_guest_exchange(follower->guest, anew);
	g_mutex_unlock(follower->lock);
	return true;
}

static bool look_as_asked(struct vms_guest_follower *follower, unsigned signs)
{
	return is_recognised(follower->guest) && !follower->is_settled ? look_anew(follower, signs)
								       : refresh(follower);
}

/* Is it time to look at all of a guest again, in which something was recognised? */
static bool is_due(const struct vms_guest_follower *follower, unsigned signs, uint64_t now_ns)
{
	return !follower->is_settled && (signs & VMS_GUEST_RUNS_PROGRAMS || follower->was_reset) &&
	       now_ns >= follower->next_look_ns;
}

static bool look_now_and_then(struct vms_guest_follower *follower, unsigned signs)
{
	const uint64_t now_ns = vms_clock_now_ns();

	if (!is_recognised(follower->guest))
		return refresh(follower);
	if (is_due(follower, signs, now_ns))
		return look_anew(follower, signs);
	/* After a reset, memory holds what is left of another kernel's modules. */
	if (now_ns - follower->refreshed_ns < INTERVAL_NS ||
	    (follower->was_reset && !follower->is_settled))
		return false;
	follower->refreshed_ns = now_ns;
	return refresh(follower);
}

/* After a reset, when the guest asks is too early: its memory still holds the last kernel. */
bool vms_guest_follow(struct vms_guest_follower *follower, unsigned signs)
{
	if (is_recognised(follower->guest) && !follower->is_settled)
		vms_guest_follow_tables(follower->guest, NULL);
	if (signs & VMS_GUEST_ASKS && !follower->was_reset)
		return look_as_asked(follower, signs);
	return (signs & VMS_GUEST_GOES_ON || follower->was_reset) &&
	       look_now_and_then(follower, signs);
}
