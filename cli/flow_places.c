/* SPDX-License-Identifier: MIT */
#include "flow_places.h"
#include "base/clock.h"
#include <string.h>
#include <vmscope/log.h>

#define LOOK_NS UINT64_C(200000000) /* between looks at what is loaded */

/* A SPEC, and where its probes are now. */
struct asked {
	const char *text;
	GArray *vas;   /* uint64_t, sorted; NULL: nowhere */
	GArray *found; /* the same as last looked, to be taken over by a change */
	bool was_there;
	bool is_wanted; /* it is looked for again: code of modules comes and goes */
};

struct flow_places {
	struct session *session;
	struct vms_flow *flow;
	const struct flow_conditions *conditions;
	GArray *asked; /* struct asked */
	bool waits;
	uint64_t looked_ns;
};

static struct asked *get_asked(const struct flow_places *places, guint i)
{
	return &g_array_index(places->asked, struct asked, i);
}

static void free_vas(GArray **vas)
{
	if (*vas)
		g_array_unref(*vas);
	*vas = NULL;
}

static int compare_vas(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

static bool is_same(const GArray *a, const GArray *b)
{
	if (!a || !b)
		return a == b;
	return a->len == b->len && memcmp(a->data, b->data, a->len * sizeof(uint64_t)) == 0;
}

/* True if an address is in code that can go. */
static bool is_in_module(struct session *session, const GArray *vas)
{
	for (guint i = 0; vas && i < vas->len; i++) {
		struct vms_location location = { 0 };
		if (vms_guest_locate(session->guest, NULL, g_array_index(vas, uint64_t, i),
				     &location) &&
		    location.module && strcmp(location.module, "vmlinux") != 0)
			return true;
	}
	return false;
}

/* Looks where a SPEC's code is now. NULL: nowhere. */
static GArray *find(const struct flow_places *places, const struct asked *asked)
{
	GArray *vas = flow_spec_find(places->session, asked->text, places->conditions, NULL);
	if (vas)
		g_array_sort(vas, compare_vas);
	return vas;
}

/* Adds the places of a SPEC whose code is there. */
static bool add(struct flow_places *places, struct asked *asked, GError **error)
{
	if (!flow_spec_add(places->session, places->flow, asked->text, places->conditions, error))
		return false;
	asked->vas = find(places, asked);
	asked->was_there = true;
	asked->is_wanted = places->waits || is_in_module(places->session, asked->vas);
	return true;
}

/* True if the error only says that there is no such code yet. Takes the error then. */
static bool may_come(const struct flow_places *places, struct asked *asked, GError **failure)
{
	if (!places->waits || !g_error_matches(*failure, VMS_ERROR, VMS_ERROR_NOT_FOUND))
		return false;
	vms_log(VMS_LOG_INFO, "waiting for %s: %s", asked->text, (*failure)->message);
	g_clear_error(failure);
	asked->is_wanted = true;
	return true;
}

struct flow_places *flow_places_new(struct session *session, struct vms_flow *flow,
				    const struct flow_conditions *conditions, char *const *specs,
				    size_t n, bool waits, GError **error)
{
	struct flow_places *places = g_new0(struct flow_places, 1);
	places->session = session;
	places->flow = flow;
	places->conditions = conditions;
	places->asked = g_array_new(FALSE, TRUE, sizeof(struct asked));
	places->waits = waits;
	places->looked_ns = vms_clock_now_ns();
	for (size_t i = 0; i < n; i++) {
		GError *failure = NULL;
		struct asked asked = { .text = specs[i] };
		const bool added = add(places, &asked, &failure);
		if (added || may_come(places, &asked, &failure)) {
			g_array_append_val(places->asked, asked);
			continue;
		}
		g_propagate_error(error, failure);
		flow_places_free(places);
		return NULL;
	}
	return places;
}

void flow_places_free(struct flow_places *places)
{
	if (!places)
		return;
	for (guint i = 0; i < places->asked->len; i++) {
		free_vas(&get_asked(places, i)->vas);
		free_vas(&get_asked(places, i)->found);
	}
	g_array_unref(places->asked);
	g_free(places);
}

bool flow_places_is_empty(const struct flow_places *places)
{
	for (guint i = 0; i < places->asked->len; i++)
		if (get_asked(places, i)->vas)
			return false;
	return true;
}

bool flow_places_must_change(struct flow_places *places)
{
	bool is_wanted = false, changes = false;
	for (guint i = 0; i < places->asked->len; i++)
		is_wanted |= get_asked(places, i)->is_wanted;
	if (!is_wanted || vms_clock_now_ns() < places->looked_ns + LOOK_NS)
		return false;
	places->looked_ns = vms_clock_now_ns();
	/* What cannot be read now is read at the next look. */
	if (!vms_guest_refresh_modules(places->session->guest, NULL))
		return false;
	for (guint i = 0; i < places->asked->len; i++) {
		struct asked *asked = get_asked(places, i);
		free_vas(&asked->found);
		if (!asked->is_wanted)
			continue;
		asked->found = find(places, asked);
		changes |= !is_same(asked->vas, asked->found);
	}
	return changes;
}

static void tell_change(const struct asked *asked)
{
	if (!asked->found)
		vms_log(VMS_LOG_WARNING, "%s has gone: its module was unloaded", asked->text);
	else
		vms_log(VMS_LOG_INFO, "%s is there now: %u place%s", asked->text, asked->found->len,
			asked->found->len == 1 ? "" : "s");
}

bool flow_places_change(struct flow_places *places, GError **error)
{
	for (guint i = 0; i < places->asked->len; i++) {
		struct asked *asked = get_asked(places, i);
		if (!asked->is_wanted || is_same(asked->vas, asked->found))
			continue;
		tell_change(asked);
		if (asked->vas &&
		    !vms_flow_remove(places->flow, (const uint64_t *)(const void *)asked->vas->data,
				     asked->vas->len, error))
			return false;
		free_vas(&asked->vas);
		if (asked->found && !add(places, asked, error))
			return false;
	}
	return true;
}

void flow_places_warn(const struct flow_places *places)
{
	for (guint i = 0; i < places->asked->len; i++)
		if (!get_asked(places, i)->was_there)
			vms_log(VMS_LOG_WARNING, "%s never came: it was not probed",
				get_asked(places, i)->text);
}
