/* SPDX-License-Identifier: MIT */
#include "base/jail_exchange.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HURRY_NS (40 * UINT64_C(1000000))
#define STILL_NS (5 * UINT64_C(1000000000))

/* A request that is being served. */
struct exchange {
	int fd;
	const struct vms_jail_request *request;
	uint64_t deadline_ns;
	struct vms_jail_holding *holding;
	GByteArray *answer;
	GError **error;
	bool hurries;		      /* the deadline was brought forward */
	clockid_t clock;	      /* processor time of the jail */
	uint64_t used_ns, used_at_ns; /* it, and when it was last seen to grow */
	bool is_done, is_served;      /* an answer came; it is no failure */
};

/* Returns when to give up; soon after somebody has asked for the end. */
static uint64_t get_deadline(struct exchange *exchange)
{
	const struct vms_budget *budget = exchange->request->budget;
	if (!exchange->hurries && vms_budget_hurries(budget)) {
		exchange->hurries = true;
		exchange->deadline_ns = MIN(exchange->deadline_ns, vms_clock_now_ns() + HURRY_NS);
	}
	return vms_budget_is_cancelled(budget) ? 0 : exchange->deadline_ns;
}

/*
 * True if the jail has had no processor for long: it was stopped, or waits for a disk that does not
 * answer.
 */
static bool stands_still(struct exchange *exchange)
{
	const uint64_t now_ns = vms_clock_now_ns();
	struct timespec used = { 0 };
	clock_gettime(exchange->clock, &used);
	const uint64_t used_ns = (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
	if (used_ns != exchange->used_ns || exchange->used_at_ns == 0) {
		exchange->used_ns = used_ns;
		exchange->used_at_ns = now_ns;
	}
	return now_ns - exchange->used_at_ns > STILL_NS;
}

static int send_request(struct exchange *exchange)
{
	const struct vms_jail_request *request = exchange->request;
	struct vms_jail_message message = {
		.kind = VMS_JAIL_REQUEST,
		.service = request->kind,
		.log_level = vms_log_get_level(),
		.size = request->size,
		.n_fds = (uint32_t)request->n_fds,
		.n_sources = (uint32_t)request->n_sources,
		.steps = vms_budget_left(request->budget, VMS_BUDGET_STEPS),
		.bytes = vms_budget_left(request->budget, VMS_BUDGET_BYTES) +
			 exchange->holding->bytes,
		.items = vms_budget_left(request->budget, VMS_BUDGET_ITEMS),
		.steps_per_ns = request->budget ? request->budget->steps_per_ns : 0,
	};
	for (size_t i = 0; i < request->n_sources; i++)
		message.source_sizes[i] = request->sources[i].size;
	return vms_jail_send(exchange->fd, &message, request->bytes, request->fds,
			     get_deadline(exchange));
}

/* Sends bytes of a source that the jail asks for. */
static int serve_read(struct exchange *exchange, const struct vms_jail_message *asked)
{
	const struct vms_jail_request *request = exchange->request;
	struct vms_jail_message message = { .kind = VMS_JAIL_BYTES };
	g_autofree uint8_t *bytes = NULL;
	if (asked->source >= request->n_sources || asked->steps > VMS_JAIL_PIECE)
		return EPROTO;
	bytes = g_malloc(asked->steps);
	message.done = vms_file_source_read(&request->sources[asked->source], asked->offset, bytes,
					    asked->steps);
	message.size = message.done ? asked->steps : 0;
	return vms_jail_send(exchange->fd, &message, bytes, NULL, get_deadline(exchange));
}

/* Receives a text. It is not trusted. */
static int receive_text(struct exchange *exchange, const struct vms_jail_message *message,
			char **ret)
{
	if (message->size > VMS_JAIL_PIECE)
		return EPROTO;
	g_autofree char *text = g_malloc0(message->size + 1);
	const int failure =
		vms_jail_receive_bytes(exchange->fd, text, message->size, get_deadline(exchange));
	if (failure)
		return failure;
	vms_text_clean(text);
	*ret = g_steal_pointer(&text);
	return 0;
}

/* Opens a file that the jail asks for. */
static int serve_open(struct exchange *exchange, const struct vms_jail_message *asked)
{
	const struct vms_jail_request *request = exchange->request;
	struct vms_jail_message message = { .kind = VMS_JAIL_BYTES };
	g_autofree char *name = NULL;
	int failure = receive_text(exchange, asked, &name);
	if (failure)
		return failure;
	const int fd = request->open ? request->open(request->data, name) : -1;
	message.done = message.n_fds = fd >= 0;
	failure = vms_jail_send(exchange->fd, &message, NULL, &fd, get_deadline(exchange));
	if (fd >= 0)
		close(fd);
	return failure;
}

static int take_text(struct exchange *exchange, const struct vms_jail_message *message)
{
	g_autofree char *text = NULL;
	const int failure = receive_text(exchange, message, &text);
	if (failure)
		return failure;
	if (message->kind == VMS_JAIL_LOSS)
		vms_budget_add_loss(exchange->request->budget, text);
	else
		vms_log(message->service == VMS_LOG_WARNING ? VMS_LOG_WARNING : VMS_LOG_DEBUG, "%s",
			text);
	return 0;
}

static void count_spending(struct exchange *exchange, const struct vms_jail_message *message)
{
	struct vms_budget *budget = exchange->request->budget;
	const uint64_t steps = MIN(message->steps, vms_budget_left(budget, VMS_BUDGET_STEPS));
	vms_budget_step(budget, steps);
	vms_budget_note_used_up(budget, message->used_up);
	vms_budget_take(budget, VMS_BUDGET_ITEMS,
			MIN(message->items, vms_budget_left(budget, VMS_BUDGET_ITEMS)));
	struct vms_jail_holding *holding = exchange->holding;
	if (message->bytes < holding->bytes) {
		vms_budget_give_back(holding->budget, VMS_BUDGET_BYTES,
				     holding->bytes - message->bytes);
		holding->bytes = message->bytes;
		return;
	}
	const uint64_t more = MIN(message->bytes - holding->bytes,
				  vms_budget_left(holding->budget, VMS_BUDGET_BYTES));
	vms_budget_take(holding->budget, VMS_BUDGET_BYTES, more);
	holding->bytes += more;
}

/* Appends the answer. It grows with what comes, not with what the jail says will come. */
static int receive_answer(struct exchange *exchange, uint64_t size)
{
	GByteArray *answer = exchange->answer;
	if (size > VMS_JAIL_LIMIT ||
	    size > vms_budget_left(exchange->request->budget, VMS_BUDGET_BYTES))
		return EPROTO;
	for (uint64_t part; size > 0; size -= part) {
		const guint before = answer->len;
		part = MIN(size, VMS_JAIL_PIECE);
		g_byte_array_set_size(answer, before + (guint)part);
		const int failure = vms_jail_receive_bytes(exchange->fd, answer->data + before,
							   part, get_deadline(exchange));
		if (failure)
			return failure;
	}
	exchange->is_done = exchange->is_served = true;
	return 0;
}

static int take_answer(struct exchange *exchange, const struct vms_jail_message *message)
{
	count_spending(exchange, message);
	if (!message->done) {
		g_autofree char *text = NULL;
		const int failure = receive_text(exchange, message, &text);
		if (failure)
			return failure;
		exchange->is_done = true;
		g_set_error_literal(exchange->error, VMS_ERROR,
				    message->code <= VMS_ERROR_BUDGET ? (int)message->code
								      : VMS_ERROR_MALFORMED,
				    text);
		return 0;
	}
	return receive_answer(exchange, message->size);
}

static int take_message(struct exchange *exchange)
{
	struct vms_jail_message message;
	/* In short waits, to see soon that it was cancelled. */
	const uint64_t until_ns = MIN(vms_clock_now_ns() + HURRY_NS / 2, get_deadline(exchange));
	struct pollfd poller = { .fd = exchange->fd, .events = POLLIN };
	if (poll(&poller, 1, (int)(HURRY_NS / 2 / 1000000)) == 0) {
		const bool is_late = vms_clock_now_ns() >= get_deadline(exchange);
		return is_late || stands_still(exchange) ? ETIMEDOUT : 0;
	}
	const int failure = vms_jail_receive(exchange->fd, &message, NULL, NULL, MAX(until_ns, 1));
	if (failure)
		return failure;
	switch (message.kind) {
	case VMS_JAIL_READ: return serve_read(exchange, &message);
	case VMS_JAIL_OPEN: return serve_open(exchange, &message);
	case VMS_JAIL_LOG:
	case VMS_JAIL_LOSS: return take_text(exchange, &message);
	case VMS_JAIL_ANSWER: return take_answer(exchange, &message);
	default: return EPROTO;
	}
}

int vms_jail_exchange(int fd, pid_t pid, const struct vms_jail_request *request,
		      uint64_t deadline_ns, struct vms_jail_holding *holding, GByteArray *answer,
		      bool *is_served, GError **error)
{
	struct exchange exchange = {
		.fd = fd,
		.request = request,
		.deadline_ns = deadline_ns,
		.holding = holding,
		.answer = answer,
		.error = error,
	};
	int failure = clock_getcpuclockid(pid, &exchange.clock);
	if (!failure)
		failure = send_request(&exchange);
	while (!failure && !exchange.is_done)
		failure = take_message(&exchange);
	*is_served = exchange.is_served;
	return failure;
}
