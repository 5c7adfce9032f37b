/* SPDX-License-Identifier: MIT */
#include "flow_places.h"
#include "base/clock.h"
#include "conditions.h"
#include <string.h>
#include <vmscope/log.h>

#define POLL_INTERVAL_NS UINT64_C(200000000) /* between checks for changes */
/*
 * Polls after which functions of a process are looked for again though it maps the same as before:
 * pages of its files with their names may have been read.
 */
#define POLLS_UNTIL_RETRY 20

/* A SPEC of the user, and the addresses of its probes. */
struct spec_places {
	const char *text;
	GArray *vas;   /* uint64_t, sorted; NULL if there are none */
	GArray *found; /* the same at the last check; flow_places_change makes them `vas` */
	bool was_there;
	bool is_watched; /* checked again, because its code can be loaded or unloaded */
	bool in_process; /* its code is, or would be, in the programs of the process */
};

struct flow_places {
	struct session *session;
	struct vms_flow *flow;
	const struct flow_places_request *request;
	struct flow_process process; /* of --task */
	char *at_place, *at_return;  /* conditions of all places, or NULL */
	struct flow_conditions conditions;
	GArray *specs;	/* struct spec_places */
	bool is_other;	/* the process is another one than that of the places */
	unsigned polls; /* without a change of the process */
	uint64_t checked_ns;
};

static struct spec_places *get_spec(const struct flow_places *places, guint i)
{
	return &g_array_index(places->specs, struct spec_places, i);
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

/* True if an address lies in a module, which can be unloaded. */
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

/* ---- the process ------------------------------------------------------------------------ */

/* True if there is a process, or none is needed. */
static bool has_process(const struct flow_places *places)
{
	return !places->request->task || places->process.is_there ||
	       (!places->process.name && places->process.pid);
}

/* Makes the conditions for the present process. Errors: usage. */
static bool make_conditions(struct flow_places *places, GError **error)
{
	const struct flow_places_request *request = places->request;
	g_autofree char *pid =
		request->task ? g_strdup_printf("%" G_GUINT64_FORMAT, places->process.pid) : NULL;
	g_clear_pointer(&places->at_place, g_free);
	g_clear_pointer(&places->at_return, g_free);
	if (!conditions_join("--if", pid, request->conditions, &places->at_place, error) ||
	    !conditions_join("--if-return", NULL, request->return_conditions, &places->at_return,
			     error))
		return false;
	if (places->process.space) /* the last one still names places of its hits */
		places->session->process = places->process.space;
	places->conditions = (struct flow_conditions) {
		.at_place = places->at_place,
		.at_return = places->at_return,
		.adds_up = request->adds_up,
		.has_process = request->task,
		.task = places->process.is_there ? &places->process.task : NULL,
	};
	return true;
}

/* Finds the process of --task. One that is given by its pid need not be there. */
static bool find_process(struct flow_places *places, GError **error)
{
	const struct flow_places_request *request = places->request;
	GError *failure = NULL;
	if (!request->task)
		return true;
	if (!flow_process_parse(request->task, &places->process, error))
		return false;
	if (flow_process_find(places->session, &places->process, &failure))
		return true;
	if (places->process.name && !request->waits) {
		g_propagate_error(error, failure);
		return false;
	}
	vms_log(request->waits ? VMS_LOG_INFO : VMS_LOG_WARNING, "--task: %s", failure->message);
	g_error_free(failure);
	return true;
}

/* ---- places of a SPEC ------------------------------------------------------------------- */

/* Finds the addresses of a SPEC. NULL without an error: its process is waited for. */
static GArray *find_addresses(const struct flow_places *places, struct spec_places *spec,
			      GError **error)
{
	GArray *vas = has_process(places)
			      ? flow_spec_find(places->session, spec->text, &places->conditions,
					       &spec->in_process, error)
			      : NULL;
	if (vas)
		g_array_sort(vas, compare_vas);
	return vas;
}

/* Adds the places of a SPEC at the addresses that were found. */
static bool add_spec(struct flow_places *places, struct spec_places *spec, GError **error)
{
	if (!flow_spec_add(places->session, places->flow, spec->text, &places->conditions,
			   spec->found, error))
		return false;
	spec->vas = g_steal_pointer(&spec->found);
	spec->was_there = true;
	spec->is_watched = places->request->waits || is_in_module(places->session, spec->vas);
	return true;
}

/* Adds a SPEC, or with --pending waits for its code. */
static bool begin_spec(struct flow_places *places, const char *text, GError **error)
{
	struct spec_places spec = { .text = text, .is_watched = places->request->waits };
	GError *failure = NULL;
	spec.found = find_addresses(places, &spec, &failure);
	if (spec.found && !add_spec(places, &spec, &failure))
		g_clear_pointer(&spec.found, g_array_unref);
	else if (places->request->waits &&
		 g_error_matches(failure, VMS_ERROR, VMS_ERROR_NOT_FOUND)) {
		vms_log(VMS_LOG_INFO, "waiting for %s: %s", text, failure->message);
		g_clear_error(&failure);
	}
	if (failure) {
		g_propagate_error(error, failure);
		return false;
	}
	g_array_append_val(places->specs, spec);
	return true;
}

struct flow_places *flow_places_new(struct session *session, struct vms_flow *flow,
				    const struct flow_places_request *request, GError **error)
{
	struct flow_places *places = g_new0(struct flow_places, 1);
	places->session = session;
	places->flow = flow;
	places->request = request;
	places->specs = g_array_new(FALSE, TRUE, sizeof(struct spec_places));
	places->checked_ns = vms_clock_now_ns();
	bool done = find_process(places, error) && make_conditions(places, error);
	for (size_t i = 0; done && i < request->n_specs; i++)
		done = begin_spec(places, request->specs[i], error);
	if (done)
		return places;
	flow_places_free(places);
	return NULL;
}

void flow_places_free(struct flow_places *places)
{
	if (!places)
		return;
	for (guint i = 0; i < places->specs->len; i++) {
		free_vas(&get_spec(places, i)->vas);
		free_vas(&get_spec(places, i)->found);
	}
	g_array_unref(places->specs);
	g_free(places->at_place);
	g_free(places->at_return);
	g_free(places);
}

bool flow_places_is_empty(const struct flow_places *places)
{
	for (guint i = 0; i < places->specs->len; i++)
		if (get_spec(places, i)->vas)
			return false;
	return true;
}

/* ---- changes ------------------------------------------------------------------------------ */

/*
 * Finds the addresses of a SPEC again. Functions of a process are only looked for if the process
 * has changed, because that reads the tables of its files.
 */
static GArray *find_again(const struct flow_places *places, struct spec_places *spec,
			  bool process_changed)
{
	const bool in_process = spec->in_process;
	if (!in_process || process_changed)
		return find_addresses(places, spec, NULL);
	const struct flow_conditions *usual = &places->conditions;
	struct flow_conditions of_kernel = *usual;
	of_kernel.task = NULL;
	GArray *vas = spec->vas || strchr(spec->text, ':')
			      ? NULL
			      : flow_spec_find(places->session, spec->text, &of_kernel,
					       &spec->in_process, NULL);
	if (vas)
		return vas;
	spec->in_process = in_process;
	return spec->vas ? g_array_ref(spec->vas) : NULL;
}

/* Checks the process. True if functions in its programs have to be looked for. */
static bool check_process(struct flow_places *places)
{
	bool is_other = false;
	if (!places->request->task || !places->request->waits)
		return false;
	const bool changed = flow_process_check(places->session, &places->process, &is_other);
	places->is_other |= is_other;
	places->conditions.task = places->process.is_there ? &places->process.task : NULL;
	places->polls = changed ? 0 : places->polls + 1;
	return changed || places->polls % POLLS_UNTIL_RETRY == 0;
}

bool flow_places_must_change(struct flow_places *places)
{
	bool is_watched = false, changes = false;
	for (guint i = 0; i < places->specs->len; i++)
		is_watched |= get_spec(places, i)->is_watched;
	if (!is_watched || vms_clock_now_ns() < places->checked_ns + POLL_INTERVAL_NS)
		return false;
	places->checked_ns = vms_clock_now_ns();
	/* If the list cannot be read now, the next check reads it. */
	if (!vms_guest_refresh_modules(places->session->guest, NULL))
		return false;
	const bool process_changed = check_process(places);
	for (guint i = 0; i < places->specs->len; i++) {
		struct spec_places *spec = get_spec(places, i);
		free_vas(&spec->found);
		if (!spec->is_watched)
			continue;
		spec->found = find_again(places, spec, process_changed);
		changes |= !is_same(spec->vas, spec->found);
	}
	return changes || places->is_other;
}

static void report_change(const struct flow_places *places, const struct spec_places *spec)
{
	const bool has_ended = places->request->task && !places->process.is_there;
	if (!spec->found)
		vms_log(VMS_LOG_WARNING, "%s is not there any more: %s", spec->text,
			has_ended	   ? "its process has ended"
			: spec->in_process ? "its process has unmapped it"
					   : "its module was unloaded");
	else
		vms_log(VMS_LOG_INFO, "%s is there now: %u place%s", spec->text, spec->found->len,
			spec->found->len == 1 ? "" : "s");
}

static bool change_spec(struct flow_places *places, struct spec_places *spec, GError **error)
{
	if (!is_same(spec->vas, spec->found))
		report_change(places, spec);
	if (spec->vas &&
	    !vms_flow_remove(places->flow, (const uint64_t *)(const void *)spec->vas->data,
			     spec->vas->len, error))
		return false;
	free_vas(&spec->vas);
	return !spec->found || add_spec(places, spec, error);
}

bool flow_places_change(struct flow_places *places, GError **error)
{
	const bool is_other = places->is_other;
	places->is_other = false;
	if (is_other && !make_conditions(places, error))
		return false;
	for (guint i = 0; i < places->specs->len; i++) {
		struct spec_places *spec = get_spec(places, i);
		/* All places have the condition that it is the process. */
		if (spec->is_watched && (is_other || !is_same(spec->vas, spec->found)) &&
		    !change_spec(places, spec, error))
			return false;
	}
	return true;
}

void flow_places_warn(const struct flow_places *places)
{
	for (guint i = 0; i < places->specs->len; i++)
		if (!get_spec(places, i)->was_there)
			vms_log(VMS_LOG_WARNING, "%s was not probed: its code was never loaded%s",
				get_spec(places, i)->text,
				places->request->waits ? ", or not for long enough" : "");
}
