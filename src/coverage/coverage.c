/* SPDX-License-Identifier: MIT */
/*
 * Runs a coverage from its begin to its end, with a thread that follows the guest. The thread finds
 * the functions of translated blocks while their code exists, and makes the report at the end.
 * Translated code sets its marks by itself, so no vCPU waits for this thread.
 */
#include <vmscope/coverage.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/process.h"
#include "coverage/report-private.h"
#include "guest/follower.h"
#include "machine/engine.h"
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vmscope/log.h>

#define TICK_MS 100
/* How long to wait for the last answer of a QEMU that is stopped. */
#define GRACE_NS UINT64_C(1000000000)
/* All blocks of QEMU are shorter, in bytes. */
#define MAX_BLOCK (UINT32_C(1) << 16)

struct vms_coverage {
	struct vms_guest *guest;
	struct vms_machine *machine;
	struct vms_coverage_options options;
	struct vms_coverage_link link;
	struct vms_guest_follower follower;
	struct vms_coverage_functions *functions;
	uint32_t n_seen;  /* blocks whose functions were searched for */
	GArray *nameless; /* uint32_t: blocks without a known function */
	uint64_t begin_ns;

	GMutex lock; /* guards all below; also held while the guest is exchanged */
	GCond changed;
	bool has_ended;
	enum vms_coverage_end end;
	struct vms_coverage_report *report; /* set when it has ended */

	int stop_fd; /* an eventfd: the thread must end */
	GThread *thread;
};

/* ---- functions ---------------------------------------------------------------------- */

static bool add_block(struct vms_coverage *coverage, uint32_t number)
{
	const struct vms_agent_block_covered block =
		vms_coverage_link_block(&coverage->link, number);
	return vms_coverage_functions_add(coverage->functions, number, block.va,
					  CLAMP(block.size, 1, MAX_BLOCK));
}

/* Finds the functions of blocks that were translated since the last time. */
static void name_new_blocks(struct vms_coverage *coverage)
{
	const uint32_t n = vms_coverage_link_blocks(&coverage->link);
	for (; coverage->n_seen < n; coverage->n_seen++)
		if (!add_block(coverage, coverage->n_seen))
			g_array_append_val(coverage->nameless, coverage->n_seen);
}

/* Searches again for the functions of nameless blocks, when more is known of the guest. */
static void retry_nameless_blocks(struct vms_coverage *coverage)
{
	g_autoptr(GArray) nameless = g_steal_pointer(&coverage->nameless);
	coverage->nameless = g_array_new(FALSE, FALSE, sizeof(uint32_t));
	for (guint i = 0; i < nameless->len; i++) {
		const uint32_t number = g_array_index(nameless, uint32_t, i);
		if (!add_block(coverage, number))
			g_array_append_val(coverage->nameless, number);
	}
}

/* Makes the graphs of new functions. Reads their code through the page tables of vCPU 0. */
static void make_graphs(struct vms_coverage *coverage)
{
	struct vms_regs regs;
	if (!vms_coverage_functions_lack_graphs(coverage->functions) ||
	    !vms_machine_observe(coverage->machine, NULL))
		return;
	const bool known = vms_machine_all_regs(coverage->machine, 0, &regs, NULL);
	vms_machine_release(coverage->machine, VMS_ALL_VCPUS, NULL);
	if (!known)
		return;
	g_autoptr(vms_memory) memory = vms_memory_new(coverage->machine, &regs);
	vms_coverage_functions_make_graphs(coverage->functions, memory);
}

/* ---- following the guest ------------------------------------------------------------ */

/* Notes the address of do_init_module, which the kernel calls before a module's first code. */
static void note_module_init(const struct vms_symbol *symbol, const char *module, void *data)
{
	uint64_t *look = data;
	if (!module && symbol->type && strchr("tT", symbol->type))
		*look = symbol->va;
}

static uint64_t find_module_init(struct vms_coverage *coverage)
{
	uint64_t look = 0;
	vms_guest_lookup(coverage->guest, "do_init_module", note_module_init, &look);
	return look;
}

static void note_reset(struct vms_coverage *coverage)
{
	vms_coverage_link_forget_programs(&coverage->link);
	vms_log(VMS_LOG_WARNING,
		"the guest was reset: functions keep their old names until its kernel is "
		"recognised again");
}

/* The guest's code has changed. All blocks that were translated before have their names already. */
static void update_code(struct vms_coverage *coverage)
{
	g_autoptr(GError) error = NULL;
	vms_coverage_link_new_epoch(&coverage->link);
	retry_nameless_blocks(coverage);
	if (!vms_coverage_link_set_look(&coverage->link, find_module_init(coverage), &error))
		vms_log(VMS_LOG_DEBUG, "%s", error->message);
}

static void follow_guest(struct vms_coverage *coverage)
{
	uint32_t looks;
	const bool is_asked = vms_coverage_link_wants_look(&coverage->link, &looks);
	name_new_blocks(coverage);
	if (vms_guest_follower_was_reset(&coverage->follower))
		note_reset(coverage);
	g_mutex_lock(&coverage->lock);
	coverage->follower.runs_programs = vms_coverage_link_has_programs(&coverage->link);
	g_mutex_unlock(&coverage->lock);
	if (vms_guest_follow(&coverage->follower,
			     VMS_GUEST_GOES_ON | (is_asked ? VMS_GUEST_ASKS : 0)))
		update_code(coverage);
	if (is_asked)
		vms_coverage_link_answer_look(&coverage->link, looks);
	make_graphs(coverage);
}

/* Takes the agent's bytes from the socket, without waiting. */
static void take_wakeups(int fd)
{
	char bytes[64];
	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

/* Waits for the next tick. True if the thread must end, or QEMU has closed the connection. */
static bool wait_for_tick(struct vms_coverage *coverage, bool *is_gone)
{
	struct pollfd fds[] = { { .fd = coverage->link.agent->stream.fd, .events = POLLIN },
				{ .fd = coverage->stop_fd, .events = POLLIN },
				{ .fd = coverage->link.woken, .events = POLLIN } };
	*is_gone = false;
	if (poll(fds, G_N_ELEMENTS(fds), TICK_MS) <= 0)
		return false;
	*is_gone = fds[0].revents & (POLLHUP | POLLERR);
	take_wakeups(coverage->link.woken);
	return *is_gone || fds[1].revents;
}

static bool is_complete(const struct vms_coverage *coverage)
{
	const uint64_t duration_ns = coverage->options.duration_ns;
	return (duration_ns && vms_clock_now_ns() - coverage->begin_ns >= duration_ns) ||
	       vms_coverage_link_state(&coverage->link) == VMS_AGENT_COVERAGE_ENDED;
}

static enum vms_coverage_end follow_until_end(struct vms_coverage *coverage)
{
	bool is_gone;
	while (!wait_for_tick(coverage, &is_gone)) {
		if (vms_machine_ended(coverage->machine) == VMS_MACHINE_GONE)
			return VMS_COVERAGE_GONE;
		if (is_complete(coverage))
			return VMS_COVERAGE_COMPLETE;
		if (!vms_process_is_stopped(vms_machine_info(coverage->machine)->pid))
			follow_guest(coverage);
	}
	return is_gone ? VMS_COVERAGE_GONE : VMS_COVERAGE_STOPPED;
}

/* ---- the end ------------------------------------------------------------------------ */

static struct vms_coverage_report *make_report(struct vms_coverage *coverage)
{
	struct vms_coverage_report *report;
	name_new_blocks(coverage);
	retry_nameless_blocks(coverage);
	vms_coverage_functions_add_others(coverage->functions);
	report = vms_coverage_report_new(&coverage->link, coverage->n_seen, coverage->functions);
	if (coverage->options.lines)
		vms_coverage_report_add_lines(report, coverage->guest);
	return report;
}

static gpointer run_coverage(gpointer data)
{
	struct vms_coverage *coverage = data;
	const enum vms_coverage_end end = follow_until_end(coverage);
	if (end != VMS_COVERAGE_GONE &&
	    vms_process_is_stopped(vms_machine_info(coverage->machine)->pid))
		vms_machine_give_up_at(coverage->machine, vms_clock_now_ns() + GRACE_NS);
	if (end != VMS_COVERAGE_GONE) {
		follow_guest(coverage);
		vms_coverage_link_stop(&coverage->link);
	}
	struct vms_coverage_report *report = make_report(coverage);
	g_mutex_lock(&coverage->lock);
	coverage->end = end;
	coverage->report = report;
	coverage->has_ended = true;
	g_cond_broadcast(&coverage->changed);
	g_mutex_unlock(&coverage->lock);
	return NULL;
}

/* ---- the job ------------------------------------------------------------------------ */

static void free_coverage(struct vms_coverage *coverage)
{
	vms_coverage_link_close(&coverage->link);
	vms_coverage_functions_free(coverage->functions);
	vms_coverage_report_unref(coverage->report);
	g_array_unref(coverage->nameless);
	close(coverage->stop_fd);
	g_cond_clear(&coverage->changed);
	g_mutex_clear(&coverage->lock);
	vms_guest_unref(coverage->guest);
	g_free(coverage);
}

static struct vms_coverage *new_coverage(struct vms_guest *guest,
					 const struct vms_coverage_options *options)
{
	struct vms_coverage *coverage = g_new(struct vms_coverage, 1);
	*coverage = (struct vms_coverage) {
		.guest = vms_guest_ref(guest),
		.machine = vms_guest_machine(guest),
		.options = *options,
		.functions = vms_coverage_functions_new(guest),
		.nameless = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
		.stop_fd = eventfd(0, EFD_CLOEXEC),
	};
	g_mutex_init(&coverage->lock);
	g_cond_init(&coverage->changed);
	return coverage;
}

static bool begin_coverage(struct vms_coverage *coverage, GError **error)
{
	const struct vms_coverage_options *options = &coverage->options;
	g_autoptr(GError) cause = NULL;
	if (!vms_coverage_link_open(&coverage->link, coverage->machine, error))
		return false;
	coverage->link.agent->stream.give_up_ns = &coverage->machine->give_up_ns;
	vms_guest_follower_init(&coverage->follower, coverage->guest, &coverage->lock);
	if (!vms_coverage_link_start(&coverage->link, options->from, options->to,
				     find_module_init(coverage), options->max_blocks, error))
		return false;
	coverage->begin_ns = vms_clock_now_ns();
	coverage->thread = g_thread_try_new("coverage", run_coverage, coverage, &cause);
	if (!coverage->thread)
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot measure coverage: %s",
			    cause->message);
	return coverage->thread;
}

struct vms_coverage *vms_coverage_start(struct vms_guest *guest,
					const struct vms_coverage_options *options, GError **error)
{
	struct vms_coverage_options own;
	if (!vms_options_copy(options, &own, sizeof(own), "vms_coverage_options", error))
		return NULL;
	struct vms_coverage *coverage = new_coverage(guest, &own);
	if (begin_coverage(coverage, error))
		return coverage;
	free_coverage(coverage);
	return NULL;
}

void vms_coverage_get_progress(struct vms_coverage *coverage, struct vms_coverage_progress *ret)
{
	*ret = (struct vms_coverage_progress) {
		.blocks = vms_coverage_link_blocks(&coverage->link),
		.lost = vms_coverage_link_lost(&coverage->link),
		.waits = vms_coverage_link_state(&coverage->link) == VMS_AGENT_COVERAGE_WAITS,
	};
}

void vms_coverage_stop(struct vms_coverage *coverage)
{
	eventfd_write(coverage->stop_fd, 1);
}

bool vms_coverage_wait(struct vms_coverage *coverage, uint64_t until_ns)
{
	bool in_time = true;
	g_mutex_lock(&coverage->lock);
	while (!coverage->has_ended && in_time)
		in_time = g_cond_wait_until(&coverage->changed, &coverage->lock,
					    (gint64)(until_ns / 1000));
	const bool has_ended = coverage->has_ended;
	g_mutex_unlock(&coverage->lock);
	return has_ended;
}

struct vms_coverage_report *vms_coverage_finish(struct vms_coverage *coverage,
						enum vms_coverage_end *end)
{
	vms_coverage_wait(coverage, UINT64_MAX);
	*end = coverage->end;
	return vms_coverage_report_ref(coverage->report);
}

void vms_coverage_free(struct vms_coverage *coverage)
{
	if (!coverage)
		return;
	vms_coverage_stop(coverage);
	g_thread_join(coverage->thread);
	free_coverage(coverage);
}
