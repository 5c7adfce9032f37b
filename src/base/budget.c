/* SPDX-License-Identifier: MIT */
#include "base/budget.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/text.h"
#include <string.h>
#include <time.h>

#define SLICE	      4096 /* steps between two looks */
#define PART	      4	   /* a part is one of so many */
#define LOSSES_LIMIT  8	   /* that are told */
#define PERCENT_LIMIT 100u
#define MUCH_MORE     2 /* times as long as usual */
#define HURRY_NS      (50 * UINT64_C(1000000))

/* ---- making ----------------------------------------------------------- */

static struct vms_budget *new_budget(struct vms_budget *whole, const char *source)
{
	struct vms_budget *budget = g_new0(struct vms_budget, 1);
	g_atomic_ref_count_init(&budget->refs);
	g_mutex_init(&budget->lock);
	budget->whole = whole ? vms_budget_ref(whole) : NULL;
	budget->root = whole ? whole->root : budget;
	budget->source = g_strdup(source);
	budget->begin_ns = vms_clock_now_ns();
	return budget;
}

struct vms_budget *vms_budget_new(const struct vms_budget_options *options, GError **error)
{
	struct vms_budget_options chosen;
	if (!vms_options_copy(options, &chosen, sizeof(chosen), "vms_budget_options", error))
		return NULL;
	if (chosen.percent > PERCENT_LIMIT) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "a budget of %u %% of a processor is more than %u %%", chosen.percent,
			    PERCENT_LIMIT);
		return NULL;
	}
	struct vms_budget *budget = new_budget(NULL, "all");
	budget->limit[VMS_BUDGET_STEPS] =
		(chosen.processor_ns ?: VMS_BUDGET_USUAL_NS) / VMS_BUDGET_STEP_NS;
	budget->limit[VMS_BUDGET_BYTES] = chosen.bytes ?: VMS_BUDGET_USUAL_BYTES;
	budget->limit[VMS_BUDGET_ITEMS] = chosen.items ?: VMS_BUDGET_USUAL_ITEMS;
	budget->limit[VMS_BUDGET_PRINTED] = chosen.printed ?: VMS_BUDGET_USUAL_PRINTED;
	budget->steps_per_ns = chosen.percent / 100.0 / VMS_BUDGET_STEP_NS;
	budget->jail = g_strdup(chosen.jail);
	return budget;
}

struct vms_budget *vms_budget_ref(struct vms_budget *budget)
{
	g_atomic_ref_count_inc(&budget->refs);
	return budget;
}

void vms_budget_unref(struct vms_budget *budget)
{
	if (!budget || !g_atomic_ref_count_dec(&budget->refs))
		return;
	if (budget->losses)
		g_ptr_array_unref(budget->losses);
	vms_budget_unref(budget->whole);
	g_mutex_clear(&budget->lock);
	g_free(budget->source);
	g_free(budget->jail);
	g_free(budget);
}

/* ---- amounts, under the lock of the root ------------------------------- */

static uint64_t get_limit(const struct vms_budget *budget, enum vms_budget_unit unit)
{
	if (unit != VMS_BUDGET_STEPS || budget->steps_per_ns == 0)
		return budget->limit[unit];
	const uint64_t passed_ns = vms_clock_now_ns() - budget->begin_ns;
	return budget->limit[unit] + (uint64_t)((double)passed_ns * budget->steps_per_ns);
}

static uint64_t get_own_left(const struct vms_budget *budget, enum vms_budget_unit unit)
{
	const uint64_t limit = get_limit(budget, unit);
	return limit - MIN(limit, budget->spent[unit]);
}

/* Returns what is left of a budget and of all that it is a part of. */
static uint64_t get_left(const struct vms_budget *budget, enum vms_budget_unit unit)
{
	uint64_t left = UINT64_MAX;
	for (; budget; budget = budget->whole)
		left = MIN(left, get_own_left(budget, unit));
	return left;
}

static void spend(struct vms_budget *budget, enum vms_budget_unit unit, uint64_t amount)
{
	for (; budget; budget = budget->whole)
		budget->spent[unit] += MIN(amount, UINT64_MAX - budget->spent[unit]);
}

/* Lowers the limit of the root, once, if it is to end soon. */
static void begin_hurry(struct vms_budget *root)
{
	if (root->has_hurried || !g_atomic_int_get(&root->hurries))
		return;
	root->has_hurried = true;
	root->limit[VMS_BUDGET_STEPS] =
		root->spent[VMS_BUDGET_STEPS] +
		MIN(get_own_left(root, VMS_BUDGET_STEPS), HURRY_NS / VMS_BUDGET_STEP_NS);
	root->steps_per_ns = 0;
}

/* Counts the steps that were taken since the last look. */
static void settle(struct vms_budget *budget)
{
	spend(budget, VMS_BUDGET_STEPS, budget->granted - budget->slice);
	budget->granted = budget->slice = 0;
}

/* Takes the text. */
static void add_loss(struct vms_budget *root, char *loss)
{
	if (!root->losses)
		root->losses = g_ptr_array_new_with_free_func(g_free);
	root->n_losses++;
	if (root->losses->len < LOSSES_LIMIT)
		g_ptr_array_add(root->losses, loss);
	else
		g_free(loss);
}

/* Returns the limit in words, newly allocated. */
static char *name_limit(const struct vms_budget *budget, enum vms_budget_unit unit)
{
	const uint64_t limit = get_limit(budget, unit);
	g_autofree char *bytes = vms_text_bytes(limit);
	switch (unit) {
	case VMS_BUDGET_STEPS:
		return g_strdup_printf("more than %.2f s of processor time",
				       (double)limit * VMS_BUDGET_STEP_NS / 1e9);
	case VMS_BUDGET_BYTES: return g_strdup_printf("more than %s of memory", bytes);
	case VMS_BUDGET_ITEMS:
		return g_strdup_printf("more than %" G_GUINT64_FORMAT " entries", limit);
	case VMS_BUDGET_PRINTED: return g_strdup_printf("more than %s of output", bytes);
	case VMS_BUDGET_N_UNITS: break;
	}
	g_assert_not_reached();
}

/* Notes, once, that a budget has been used up: the innermost one that has. */
static void note_used_up(struct vms_budget *budget, enum vms_budget_unit unit)
{
	while (budget->whole && get_own_left(budget, unit) > get_own_left(budget->whole, unit))
		budget = budget->whole;
	budget->used_up |= 1U << unit;
	if (budget->has_lost || budget->is_lent)
		return;
	budget->has_lost = true;
	g_autofree char *reason = name_limit(budget, unit);
	add_loss(budget->root, g_strdup_printf("%s: %s", budget->source, reason));
}

/* ---- spending --------------------------------------------------------- */

static struct vms_budget *new_share(struct vms_budget *whole, const char *source, unsigned share)
{
	if (!whole)
		return NULL;
	struct vms_budget *part = new_budget(whole, source);
	g_mutex_lock(&whole->root->lock);
	for (int unit = 0; unit < VMS_BUDGET_N_UNITS; unit++)
		part->limit[unit] = get_left(whole, unit) / share;
	part->steps_per_ns = whole->steps_per_ns / share;
	g_mutex_unlock(&whole->root->lock);
	return part;
}

struct vms_budget *vms_budget_new_part(struct vms_budget *whole, const char *source)
{
	return new_share(whole, source, PART);
}

struct vms_budget *vms_budget_new_first(struct vms_budget *whole, const char *source)
{
	return new_share(whole, source, 1);
}

bool vms_budget_look(struct vms_budget *budget, uint64_t steps)
{
	struct vms_budget *root = budget->root;
	g_mutex_lock(&root->lock);
	begin_hurry(root);
	settle(budget);
	const uint64_t left = get_left(budget, VMS_BUDGET_STEPS);
	const bool is_cancelled = g_atomic_int_get(&root->is_cancelled);
	const bool has_steps = steps <= left && !is_cancelled;
	if (has_steps) {
		spend(budget, VMS_BUDGET_STEPS, steps);
		budget->granted = budget->slice = MIN(left - steps, SLICE);
	} else if (!is_cancelled) {
		note_used_up(budget, VMS_BUDGET_STEPS);
	}
	budget->is_short[VMS_BUDGET_STEPS] = !has_steps;
	g_mutex_unlock(&root->lock);
	return has_steps;
}

/* Counts steps that were taken already: if there are not so many, nothing is left. */
static bool count_taken(struct vms_budget *budget, uint64_t steps)
{
	if (vms_budget_step(budget, steps))
		return true;
	vms_budget_step(budget, vms_budget_left(budget, VMS_BUDGET_STEPS));
	return false;
}

bool vms_budget_step_ns(struct vms_budget *budget, uint64_t thread_ns)
{
	return count_taken(budget, thread_ns / VMS_BUDGET_STEP_NS);
}

bool vms_budget_step_decompressed(struct vms_budget *budget, uint64_t n, uint64_t thread_ns)
{
	const uint64_t usual = VMS_STEPS_OF_DECOMPRESSING(n),
		       taken = thread_ns / VMS_BUDGET_STEP_NS;
	return count_taken(budget, taken > MUCH_MORE * usual ? taken : usual);
}

bool vms_budget_take(struct vms_budget *budget, enum vms_budget_unit unit, uint64_t amount)
{
	if (!budget)
		return true;
	g_mutex_lock(&budget->root->lock);
	const bool has_room = amount <= get_left(budget, unit);
	if (has_room)
		spend(budget, unit, amount);
	else
		note_used_up(budget, unit);
	budget->is_short[unit] = !has_room;
	g_mutex_unlock(&budget->root->lock);
	return has_room;
}

void vms_budget_give_back(struct vms_budget *budget, enum vms_budget_unit unit, uint64_t amount)
{
	struct vms_budget *root = budget ? budget->root : NULL;
	if (!budget)
		return;
	g_mutex_lock(&root->lock);
	for (; budget; budget = budget->whole)
		budget->spent[unit] -= MIN(amount, budget->spent[unit]);
	g_mutex_unlock(&root->lock);
}

/* ---- what is left ----------------------------------------------------- */

bool vms_budget_is_cancelled(const struct vms_budget *budget)
{
	return budget && g_atomic_int_get(&budget->root->is_cancelled);
}

void vms_budget_cancel(struct vms_budget *budget)
{
	g_atomic_int_set(&budget->root->is_cancelled, 1);
}

bool vms_budget_hurries(const struct vms_budget *budget)
{
	return vms_budget_is_cancelled(budget) ||
	       (budget && g_atomic_int_get(&budget->root->hurries));
}

void vms_budget_hurry(struct vms_budget *budget)
{
	g_atomic_int_set(&budget->root->hurries, 1);
}

const char *vms_budget_jail(const struct vms_budget *budget)
{
	return budget ? budget->root->jail : NULL;
}

bool vms_budget_has_left(struct vms_budget *budget)
{
	if (!budget)
		return true;
	if (vms_budget_is_cancelled(budget))
		return false;
	bool has_left = true;
	g_mutex_lock(&budget->root->lock);
	for (int unit = 0; unit < VMS_BUDGET_N_UNITS; unit++)
		has_left &= get_left(budget, unit) > 0 && !budget->is_short[unit];
	g_mutex_unlock(&budget->root->lock);
	return has_left;
}

uint64_t vms_budget_left(struct vms_budget *budget, enum vms_budget_unit unit)
{
	if (!budget)
		return UINT64_MAX;
	g_mutex_lock(&budget->root->lock);
	uint64_t left = get_left(budget, unit);
	if (unit == VMS_BUDGET_STEPS)
		left -= MIN(left, budget->granted - budget->slice);
	g_mutex_unlock(&budget->root->lock);
	return left;
}

uint64_t vms_budget_spent(struct vms_budget *budget, enum vms_budget_unit unit)
{
	if (!budget)
		return 0;
	g_mutex_lock(&budget->root->lock);
	uint64_t spent = budget->spent[unit];
	if (unit == VMS_BUDGET_STEPS)
		spent += budget->granted - budget->slice;
	g_mutex_unlock(&budget->root->lock);
	return spent;
}

void vms_budget_add_loss(struct vms_budget *budget, const char *loss)
{
	if (!budget)
		return;
	g_mutex_lock(&budget->root->lock);
	add_loss(budget->root, g_strdup(loss));
	g_mutex_unlock(&budget->root->lock);
}

void vms_budget_note_loss(struct vms_budget *budget, const char *source, const char *reason)
{
	g_autofree char *loss = g_strdup_printf("%s: %s", source, reason);
	vms_budget_add_loss(budget, loss);
}

char *vms_budget_get_loss(struct vms_budget *budget, guint number)
{
	struct vms_budget *root = budget->root;
	g_mutex_lock(&root->lock);
	const char *loss =
		root->losses && number < root->losses->len ? root->losses->pdata[number] : NULL;
	char *copy = g_strdup(loss);
	g_mutex_unlock(&root->lock);
	return copy;
}

void vms_budget_refill(struct vms_budget *budget, const uint64_t left[VMS_BUDGET_N_UNITS],
		       double steps_per_ns)
{
	g_mutex_lock(&budget->root->lock);
	settle(budget);
	for (int unit = 0; unit < VMS_BUDGET_N_UNITS; unit++)
		budget->limit[unit] = budget->spent[unit] + MIN(left[unit], UINT64_MAX / 2);
	budget->steps_per_ns = steps_per_ns;
	budget->begin_ns = vms_clock_now_ns();
	budget->is_lent = true;
	budget->used_up = 0;
	g_mutex_unlock(&budget->root->lock);
}

uint32_t vms_budget_used_up(struct vms_budget *budget)
{
	g_mutex_lock(&budget->root->lock);
	const uint32_t used_up = budget->used_up;
	g_mutex_unlock(&budget->root->lock);
	return used_up;
}

void vms_budget_note_used_up(struct vms_budget *budget, uint32_t used_up)
{
	if (!budget)
		return;
	g_mutex_lock(&budget->root->lock);
	for (enum vms_budget_unit unit = 0; unit < VMS_BUDGET_N_UNITS; unit++)
		if (used_up & 1U << unit)
			note_used_up(budget, unit);
	g_mutex_unlock(&budget->root->lock);
}

/* Of a budget that was lent: which of its limits was too low. It has no name here. */
static void append_used_up(GString *text, const struct vms_budget *root)
{
	for (enum vms_budget_unit unit = 0; unit < VMS_BUDGET_N_UNITS; unit++) {
		g_autofree char *reason =
			root->is_lent && root->used_up & 1U << unit ? name_limit(root, unit) : NULL;
		if (reason)
			g_string_append_printf(text, "%s%s", text->len ? "; " : "", reason);
	}
}

char *vms_budget_describe_losses(struct vms_budget *budget)
{
	struct vms_budget *root = budget->root;
	g_autoptr(GString) text = g_string_new(NULL);
	g_mutex_lock(&root->lock);
	for (guint i = 0; root->losses && i < root->losses->len; i++)
		g_string_append_printf(text, "%s%s", i ? "; " : "",
				       (const char *)root->losses->pdata[i]);
	if (root->losses && root->n_losses > root->losses->len)
		g_string_append_printf(text, "; and %u more", root->n_losses - root->losses->len);
	append_used_up(text, root);
	g_mutex_unlock(&root->lock);
	return text->len ? g_strdup(text->str) : NULL;
}

void vms_budget_set_error(struct vms_budget *budget, const char *action, GError **error)
{
	if (vms_budget_is_cancelled(budget)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_CANCELLED, "%s: it was cancelled", action);
		return;
	}
	g_autofree char *losses = vms_budget_describe_losses(budget);
	g_set_error(error, VMS_ERROR, VMS_ERROR_BUDGET,
		    "%s: it costs more than data of others may cost here%s%s%s", action,
		    losses ? " (" : "", losses ?: "", losses ? ")" : "");
}

uint64_t vms_budget_thread_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
