/* SPDX-License-Identifier: MIT */
#include "calls/trace.h"

#include "calls/functions.h"
#include "calls/stacks.h"
#include "guest/processes.h"
#include "machine/engine.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/log.h>

#define RING_SIZE (16u << 20) /* bytes per vCPU: at most this much was seen in 100 ms */

bool vms_calls_trace_open(struct vms_calls_trace *trace, struct vms_machine *machine,
			  GError **error)
{
	const struct vms_machine_info *info = vms_machine_info(machine);
	*trace = (struct vms_calls_trace) {
		.abi = vms_calls_abi_of(vms_machine_arch(machine)),
		.woken = -1,
	};
	if (!trace->abi || !info->agent) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED, "cannot trace calls of %s: %s",
			    info->name,
			    trace->abi ? "its QEMU has no agent; start it with vmscope run"
				       : "its architecture is not supported");
		return false;
	}
	trace->link = vms_agent_link_open(info->agent, info->pid, error);
	if (!trace->link || !vms_agent_link_require(trace->link, VMS_AGENT_CAN_TRACE_CALLS, error))
		return false;
	trace->link->stream.give_up_ns = &machine->give_up_ns;
	return true;
}

void vms_calls_trace_close(struct vms_calls_trace *trace)
{
	if (trace->memory)
		munmap(trace->memory, trace->size);
	if (trace->link && trace->woken >= 0)
		close(trace->woken);
	vms_agent_link_close(trace->link);
	if (trace->functions)
		g_array_unref(trace->functions);
	*trace = (struct vms_calls_trace) { .woken = -1 };
}

/* ---- requests --------------------------------------------------------- */

/* Sends a table as a file with a copy of the data. */
static bool send_table(struct vms_calls_trace *trace, enum vms_agent_kind kind, const void *data,
		       size_t size, GError **error)
{
	struct vms_agent_table table = { .message = { .kind = kind }, .size = size };
	int fd = vms_agent_make_file(data, size, error);
	bool sent = fd >= 0 && vms_agent_request(trace->link, &table.message, sizeof(table), fd,
						 NULL, 0, error);
	if (fd < 0)
		g_prefix_error_literal(error, "cannot trace calls: ");
	if (fd >= 0)
		close(fd);
	return sent;
}

/* Lists the functions with the flags of filters; without these flags while `trace` waits. */
static GArray *find_functions(const struct vms_calls_trace *trace, struct vms_guest *guest,
			      const struct vms_calls_options *options, GError **error)
{
	const struct vms_calls_options none = { 0 };
	return vms_calls_list_functions(guest, trace->abi, trace->waits ? &none : options, error);
}

/* Finds what the agent needs to tell tasks apart. All members are 0 if that is not known. */
static struct vms_agent_tasks find_tasks(const struct vms_calls_trace *trace,
					 struct vms_guest *guest)
{
	struct vms_agent_tasks tasks = { .message = { .kind = VMS_AGENT_TASKS } };
	struct vms_task_layout layout;
	if (!vms_guest_task_layout(guest, &layout))
		return tasks;
	tasks.tid = layout.tid;
	tasks.pid = layout.pid;
	tasks.mm = layout.mm;
	tasks.name = layout.comm;
	vms_calls_find_function(guest, trace->abi->task_function, &tasks.switch_function);
	vms_calls_find_function(guest, "exit_mmap", &tasks.space_end_function);
	return tasks;
}

/* Sends the tables for the next START: tasks and functions. Takes ownership of `functions`. */
static bool send_tables(struct vms_calls_trace *trace, GArray *functions,
			const struct vms_agent_tasks *tasks, const struct vms_agent_calls *start,
			GError **error)
{
	struct vms_agent_tasks message = *tasks;
	bool takes_tasks = vms_agent_link_require(trace->link, VMS_AGENT_CAN_TRACK_TASKS, NULL);
	if (trace->functions)
		g_array_unref(trace->functions);
	trace->functions = functions;
	trace->start = *start;
	trace->tasks = *tasks;
	return (!takes_tasks || vms_agent_request(trace->link, &message.message, sizeof(message),
						  -1, NULL, 0, error)) &&
	       send_table(trace, VMS_AGENT_CALLS_FUNCTIONS, functions->data,
			  functions->len * sizeof(struct vms_agent_function), error);
}

/* True if all this was sent to the agent before. */
static bool agent_is_up_to_date(const struct vms_calls_trace *trace, const GArray *functions,
				const struct vms_agent_tasks *tasks,
				const struct vms_agent_calls *start)
{
	const GArray *known = trace->functions;
	return known && known->len == functions->len &&
	       memcmp(known->data, functions->data,
		      known->len * sizeof(struct vms_agent_function)) == 0 &&
	       memcmp(&trace->tasks, tasks, sizeof(*tasks)) == 0 &&
	       memcmp(&trace->start, start, sizeof(*start)) == 0;
}

static enum vms_agent_by convert_by(enum vms_calls_by by)
{
	switch (by) {
	case VMS_CALLS_BY_LEVEL: return VMS_AGENT_BY_LEVEL;
	case VMS_CALLS_BY_TASK: return VMS_AGENT_BY_TASK;
	case VMS_CALLS_BY_VCPU:
	default: return VMS_AGENT_BY_VCPU;
	}
}

static bool has_names(const char *const *names)
{
	return names && names[0];
}

/* Fills the START request. False if the guest is not known well enough for filters by process. */
static bool fill_start_request(const struct vms_calls_trace *trace, const struct vms_guest *guest,
			       const struct vms_calls_options *options, struct vms_agent_calls *ret,
			       GError **error)
{
	struct vms_task_layout layout;
	*ret = (struct vms_agent_calls) {
		.message = { .kind = VMS_AGENT_CALLS_START },
		.by = convert_by(options->by),
		.clock = options->clock == VMS_CALLS_CLOCK_INSTRUCTIONS
				 ? VMS_AGENT_CLOCK_INSTRUCTIONS
				 : VMS_AGENT_CLOCK_HOST,
		.ring_size = RING_SIZE,
		.max_depth = options->max_depth,
		.kernel = !options->user_only,
		.user = !options->kernel_only,
		.n_pids = (uint32_t)options->n_pids,
		/* As long as the functions to trace do not exist, nothing is recorded. */
		.wait_for_start =
			has_names(options->start_at) || (trace->waits && has_names(options->only)),
		.threshold = options->threshold_ns,
	};
	if (options->n_pids > G_N_ELEMENTS(ret->pids)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "cannot trace calls of %zu processes: at most %zu can be named",
			    options->n_pids, G_N_ELEMENTS(ret->pids));
		return false;
	}
	if (options->n_pids > 0)
		memcpy(ret->pids, options->pids, options->n_pids * sizeof(ret->pids[0]));
	if (options->n_pids > 0 && vms_guest_kind(guest) != VMS_GUEST_NONE &&
	    !vms_guest_task_layout(guest, &layout)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot trace calls of chosen processes: %s",
			    vms_guest_why(guest) ?: "the guest's tasks are not recognised");
		return false;
	}
	return true;
}

/* Maps the memory of a started trace. */
static bool map_memory(struct vms_calls_trace *trace, int fd, GError **error)
{
	struct stat file = { 0 };
	if (fstat(fd, &file) == 0 && file.st_size > 0)
		trace->size = (size_t)file.st_size;
	trace->memory = vms_agent_map(trace->link, fd, trace->size, error);
	return trace->memory != NULL;
}

static bool send_start(struct vms_calls_trace *trace, struct vms_agent_calls *start, GError **error)
{
	int fds[2];
	if (!vms_agent_request(trace->link, &start->message, sizeof(*start), -1, fds,
			       G_N_ELEMENTS(fds), error))
		return false;
	trace->woken = fds[1];
	bool mapped = map_memory(trace, fds[0], error);
	close(fds[0]);
	return mapped;
}

/* ---- the trace -------------------------------------------------------- */

/* Warns if the agent cannot tell tasks apart. False if the options need that. */
static bool check_features(const struct vms_calls_trace *trace,
			   const struct vms_calls_options *options, GError **error)
{
	g_autoptr(GError) missing = NULL;
	if (vms_agent_link_require(trace->link, VMS_AGENT_CAN_TRACK_TASKS, &missing))
		return true;
	if (options->by == VMS_CALLS_BY_TASK || options->n_pids > 0) {
		g_propagate_error(error, g_steal_pointer(&missing));
		return false;
	}
	vms_log(VMS_LOG_WARNING, "%s", missing->message);
	return true;
}

/* Sends the open calls and starts. The machine is held, so that no call begins in between. */
static bool start_held(struct vms_calls_trace *trace, struct vms_guest *guest,
		       struct vms_agent_calls *start, GError **error)
{
	g_autoptr(GByteArray) stacks = vms_calls_list_stacks(guest, trace->abi, error);
	return stacks &&
	       send_table(trace, VMS_AGENT_CALLS_STACKS, stacks->data, stacks->len, error) &&
	       send_start(trace, start, error);
}

bool vms_calls_trace_start(struct vms_calls_trace *trace, struct vms_guest *guest,
			   const struct vms_calls_options *options, GError **error)
{
	struct vms_agent_calls start;
	if (!check_features(trace, options, error))
		return false;
	struct vms_machine *machine = vms_guest_machine(guest);
	trace->waits = vms_guest_kind(guest) == VMS_GUEST_NONE && vms_calls_has_names(options);
	g_autoptr(GArray) functions = find_functions(trace, guest, options, error);
	if (!functions || !fill_start_request(trace, guest, options, &start, error))
		return false;
	struct vms_agent_tasks tasks = find_tasks(trace, guest);
	if (!send_tables(trace, g_steal_pointer(&functions), &tasks, &start, error) ||
	    !vms_machine_hold(machine, VMS_ALL_VCPUS, error))
		return false;
	bool started = start_held(trace, guest, &start, error);
	bool released = vms_machine_release(machine, VMS_ALL_VCPUS, started ? error : NULL);
	return started && released;
}

bool vms_calls_trace_update(struct vms_calls_trace *trace, struct vms_guest *guest,
			    const struct vms_calls_options *options, GError **error)
{
	struct vms_agent_calls start;
	g_autoptr(GError) missing = NULL;
	bool waited = trace->waits;
	trace->waits = false;
	g_autoptr(GArray) functions = find_functions(trace, guest, options, &missing);
	if (g_error_matches(missing, VMS_ERROR, VMS_ERROR_NOT_FOUND)) {
		trace->waits = true;
		if (!waited)
			vms_log(VMS_LOG_WARNING, "%s", missing->message);
		functions = find_functions(trace, guest, options, error);
	} else if (!functions) {
		g_propagate_error(error, g_steal_pointer(&missing));
	}
	if (!functions || !fill_start_request(trace, guest, options, &start, error))
		return false;
	struct vms_agent_tasks tasks = find_tasks(trace, guest);
	if (agent_is_up_to_date(trace, functions, &tasks, &start))
		return true;
	return send_tables(trace, g_steal_pointer(&functions), &tasks, &start, error) &&
	       vms_agent_request(trace->link, &start.message, sizeof(start), -1, NULL, 0, error);
}

bool vms_calls_trace_wants_look(const struct vms_calls_trace *trace)
{
	const struct vms_agent_rings *shared = trace->memory;
	return atomic_load(&shared->looks) != atomic_load(&trace->looks_begun);
}

bool vms_calls_trace_begin_look(struct vms_calls_trace *trace)
{
	struct vms_agent_rings *shared = trace->memory;
	const uint32_t looks = atomic_load(&shared->looks);
	atomic_store(&shared->looking, looks);
	return atomic_exchange(&trace->looks_begun, looks) != looks;
}

void vms_calls_trace_answer_look(const struct vms_calls_trace *trace)
{
	struct vms_agent_rings *shared = trace->memory;
	atomic_store(&shared->looked, atomic_load(&trace->looks_begun));
}

bool vms_calls_trace_stop(struct vms_calls_trace *trace, GError **error)
{
	struct vms_agent_message stop = { .kind = VMS_AGENT_CALLS_STOP };
	return vms_agent_request(trace->link, &stop, sizeof(stop), -1, NULL, 0, error);
}
