/* SPDX-License-Identifier: MIT */
#include "symbol/binary_budget.h"
#include "base/clock.h"
#include "base/text.h"
#include <glib.h>
#include <time.h>
#include <vmscope/log.h>

#define BEGIN_NS (10 * UINT64_C(1000000000))
#define SHARE	 10 /* one part in so many of the time that passes */

struct vms_binary_budget {
	gatomicrefcount refs;
	size_t limit;
	uint64_t begin_ns;
	GMutex lock; /* guards all that follows */
	size_t bytes;
	uint64_t spent_ns;
	bool is_told;
};

struct vms_binary_budget *vms_binary_budget_new(size_t bytes)
{
	struct vms_binary_budget *budget = g_new0(struct vms_binary_budget, 1);
	g_atomic_ref_count_init(&budget->refs);
	g_mutex_init(&budget->lock);
	budget->limit = bytes;
	budget->begin_ns = vms_clock_now_ns();
	return budget;
}

struct vms_binary_budget *vms_binary_budget_ref(struct vms_binary_budget *budget)
{
	g_atomic_ref_count_inc(&budget->refs);
	return budget;
}

void vms_binary_budget_unref(struct vms_binary_budget *budget)
{
	if (!budget || !g_atomic_ref_count_dec(&budget->refs))
		return;
	g_mutex_clear(&budget->lock);
	g_free(budget);
}

/* Says what there is too much of. The caller holds the lock. */
static void tell_limit(struct vms_binary_budget *budget, bool is_memory)
{
	g_autofree char *limit = vms_text_bytes(budget->limit);
	if (budget->is_told)
		return;
	budget->is_told = true;
	vms_log(VMS_LOG_WARNING,
		"the symbols of the guest's programs take %s%s: some functions get no names",
		is_memory ? "more than " : "too long to read", is_memory ? limit : "");
}

bool vms_binary_budget_has_room(struct vms_binary_budget *budget)
{
	g_mutex_lock(&budget->lock);
	const uint64_t passed_ns = vms_clock_now_ns() - budget->begin_ns;
	const bool has_memory = budget->bytes < budget->limit;
	const bool has_time = budget->spent_ns < BEGIN_NS + passed_ns / SHARE;
	if (!has_memory || !has_time)
		tell_limit(budget, !has_memory);
	g_mutex_unlock(&budget->lock);
	return has_memory && has_time;
}

void vms_binary_budget_charge(struct vms_binary_budget *budget, size_t bytes, uint64_t thread_ns)
{
	g_mutex_lock(&budget->lock);
	budget->bytes += MIN(bytes, SIZE_MAX - budget->bytes);
	budget->spent_ns += thread_ns;
	g_mutex_unlock(&budget->lock);
}

uint64_t vms_binary_budget_thread_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
