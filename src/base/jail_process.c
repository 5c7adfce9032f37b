/* SPDX-License-Identifier: MIT */
#include "base/jail_process.h"
#include "base/confine.h"
#include "base/jail_message.h"
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vmscope/log.h>

#define SOCKET	       3
#define MEMORY	       (UINT64_C(2) << 30) /* of data; the budget's bytes end before it */
#define SERVICES_LIMIT 16

/* A source that is read by asking for it. */
struct asked_source {
	struct jail_process *process;
	uint64_t number;
};

struct jail_process {
	const struct vms_jail_service *const *services;
	void *states[SERVICES_LIMIT];
	bool has_begun[SERVICES_LIMIT];
	struct vms_budget *budget;
	guint n_losses;	    /* that were sent */
	const GError *why;  /* it cannot be confined, so it does nothing; or NULL */
	GMutex sending;	    /* the log has a thread of its own */
	uint32_t log_level; /* that its handler has */
	bool is_lost;	    /* the other end has gone, or sends nonsense */
	struct asked_source asked[VMS_JAIL_SOURCES];
};

static bool send_message(struct jail_process *process, const struct vms_jail_message *message,
			 const void *payload)
{
	g_mutex_lock(&process->sending);
	if (!process->is_lost)
		process->is_lost = vms_jail_send(SOCKET, message, payload, NULL, UINT64_MAX) != 0;
	const bool is_sent = !process->is_lost;
	g_mutex_unlock(&process->sending);
	return is_sent;
}

/* ---- sources ----------------------------------------------------------- */

static bool read_piece(struct jail_process *process, uint64_t number, uint64_t offset, void *buf,
		       size_t size)
{
	const struct vms_jail_message ask = {
		.kind = VMS_JAIL_READ, .source = number, .offset = offset, .steps = size
	};
	struct vms_jail_message answer;
	if (!send_message(process, &ask, NULL))
		return false;
	process->is_lost = vms_jail_receive(SOCKET, &answer, NULL, NULL, UINT64_MAX) != 0 ||
			   answer.kind != VMS_JAIL_BYTES || (answer.done && answer.size != size) ||
			   (!answer.done && answer.size != 0) ||
			   vms_jail_receive_bytes(SOCKET, buf, answer.size, UINT64_MAX) != 0;
	return !process->is_lost && answer.done;
}

int vms_jail_open(struct vms_jail_work *work, const char *name)
{
	struct jail_process *process = work->process;
	const struct vms_jail_message ask = { .kind = VMS_JAIL_OPEN, .size = strlen(name) };
	struct vms_jail_message answer;
	int fds[VMS_JAIL_FDS] = { -1 };
	size_t n = 0;
	if (!send_message(process, &ask, name))
		return -1;
	process->is_lost = vms_jail_receive(SOCKET, &answer, fds, &n, UINT64_MAX) != 0 ||
			   answer.kind != VMS_JAIL_BYTES || answer.size != 0 || n > 1;
	return n == 1 ? fds[0] : -1;
}

static bool read_asked(void *data, uint64_t offset, void *buf, size_t size)
{
	const struct asked_source *source = data;
	uint8_t *to = buf;
	for (size_t part; size > 0; offset += part, to += part, size -= part) {
		part = MIN(size, VMS_JAIL_PIECE);
		if (!read_piece(source->process, source->number, offset, to, part))
			return false;
	}
	return true;
}

static void make_sources(struct jail_process *process, const struct vms_jail_message *message,
			 struct vms_file_source *sources)
{
	for (uint32_t i = 0; i < message->n_sources; i++) {
		process->asked[i] = (struct asked_source) { process, i };
		sources[i] = (struct vms_file_source) {
			.size = message->source_sizes[i],
			.read = read_asked,
			.data = &process->asked[i],
			.budget = process->budget,
		};
	}
}

/* ---- requests ---------------------------------------------------------- */

static bool serve_work(struct jail_process *process, struct vms_jail_work *work, GError **error)
{
	if (process->why) {
		g_propagate_error(error, g_error_copy(process->why));
		return false;
	}
	for (unsigned i = 0; i < SERVICES_LIMIT && process->services[i]; i++) {
		const struct vms_jail_service *service = process->services[i];
		if (work->kind < service->first_kind || work->kind > service->last_kind)
			continue;
		if (service->begin && !process->has_begun[i])
			process->states[i] = service->begin(process->budget);
		process->has_begun[i] = true;
		return service->serve(process->states[i], work, error);
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL, "a jail has no service %u", work->kind);
	return false;
}

static void send_losses(struct jail_process *process)
{
	for (char *loss; (loss = vms_budget_get_loss(process->budget, process->n_losses));
	     process->n_losses++) {
		const struct vms_jail_message message = { .kind = VMS_JAIL_LOSS,
							  .size = strlen(loss) };
		send_message(process, &message, loss);
		g_free(loss);
	}
}

static void send_answer(struct jail_process *process, const struct vms_jail_message *request,
			const struct vms_jail_work *work, const GError *failure)
{
	struct vms_jail_message message = {
		.kind = VMS_JAIL_ANSWER,
		.done = !failure,
		.steps = request->steps -
			 MIN(request->steps, vms_budget_left(process->budget, VMS_BUDGET_STEPS)),
		.items = request->items -
			 MIN(request->items, vms_budget_left(process->budget, VMS_BUDGET_ITEMS)),
		.bytes = request->bytes -
			 MIN(request->bytes, vms_budget_left(process->budget, VMS_BUDGET_BYTES)),
		.used_up = vms_budget_used_up(process->budget),
		.size = failure ? strlen(failure->message) : work->answer->len,
		.code = failure && failure->domain == VMS_ERROR ? (uint32_t)failure->code
								: VMS_ERROR_MALFORMED,
	};
	vms_log_flush();
	send_losses(process);
	send_message(process, &message, failure ? failure->message : (void *)work->answer->data);
}

static void refill_budget(struct jail_process *process, const struct vms_jail_message *message)
{
	const uint64_t left[VMS_BUDGET_N_UNITS] = {
		[VMS_BUDGET_STEPS] = message->steps,
		[VMS_BUDGET_BYTES] =
			message->bytes -
			MIN(message->bytes, vms_budget_spent(process->budget, VMS_BUDGET_BYTES)),
		[VMS_BUDGET_ITEMS] = message->items,
		[VMS_BUDGET_PRINTED] = UINT64_MAX / 4,
	};
	vms_budget_refill(process->budget, left, message->steps_per_ns);
}

static void send_log(enum vms_log_level level, const char *text, void *data)
{
	const struct vms_jail_message message = { .kind = VMS_JAIL_LOG,
						  .service = level,
						  .size = strlen(text) };
	send_message(data, &message, text);
}

/* Messages that nobody wants must not displace those that are wanted. */
static void set_log_level(struct jail_process *process, uint32_t level)
{
	if (level == process->log_level)
		return;
	process->log_level = level;
	vms_log_set_handler(send_log, process, level);
}

static bool serve_request(struct jail_process *process)
{
	struct vms_jail_message message;
	struct vms_file_source sources[VMS_JAIL_SOURCES] = { 0 };
	int fds[VMS_JAIL_FDS];
	struct vms_jail_work work = { .fds = fds };
	g_autoptr(GError) failure = NULL;
	if (vms_jail_receive(SOCKET, &message, fds, &work.n_fds, UINT64_MAX) != 0 ||
	    message.kind != VMS_JAIL_REQUEST || message.size > VMS_JAIL_LIMIT ||
	    message.n_sources > VMS_JAIL_SOURCES || message.n_fds != work.n_fds)
		return false;
	g_autofree uint8_t *bytes = g_malloc(message.size);
	if (vms_jail_receive_bytes(SOCKET, bytes, message.size, UINT64_MAX) != 0)
		return false;
	g_autoptr(GByteArray) answer = g_byte_array_new();
	refill_budget(process, &message);
	set_log_level(process, message.log_level);
	make_sources(process, &message, sources);
	work.kind = message.service;
	work.bytes = (struct vms_bytes) { bytes, message.size, process->budget };
	work.sources = sources;
	work.n_sources = message.n_sources;
	work.budget = process->budget;
	work.answer = answer;
	work.process = process;
	if (serve_work(process, &work, &failure))
		g_clear_error(&failure);
	send_answer(process, &message, &work, failure);
	for (size_t i = 0; i < work.n_fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return !process->is_lost;
}

/* ---- the process ------------------------------------------------------- */

/* Two services must not have the same kinds of requests. */
static void check_kinds(const struct vms_jail_service *const *services)
{
	for (unsigned i = 0; services[i]; i++)
		for (unsigned j = 0; j < i; j++)
			g_assert(services[i]->first_kind > services[j]->last_kind ||
				 services[i]->last_kind < services[j]->first_kind);
}

void vms_jail_serve(const struct vms_jail_service *const *services)
{
	struct jail_process process = { .services = services, .log_level = VMS_LOG_WARNING };
	g_autoptr(GError) failure = NULL;
	check_kinds(services);
	prctl(PR_SET_NAME, "vms-jail");
	syscall(SYS_close_range, SOCKET + 1, ~0U, 0);
	g_mutex_init(&process.sending);
	if (!vms_confine_process(MEMORY, &failure))
		process.why = failure;
	process.budget = vms_budget_new(NULL, NULL);
	vms_log_set_handler(send_log, &process, VMS_LOG_WARNING);
	while (serve_request(&process))
		;
	for (unsigned i = 0; i < SERVICES_LIMIT && services[i]; i++)
		if (services[i]->end && process.has_begun[i])
			services[i]->end(process.states[i]);
	vms_log_set_handler(NULL, NULL, VMS_LOG_WARNING);
	vms_budget_unref(process.budget);
	g_mutex_clear(&process.sending);
	_exit(0); /* handlers of exit(3), as of a sanitizer, would need rights */
}
