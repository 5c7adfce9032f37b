/* SPDX-License-Identifier: MIT */
#include "capture/sample_records.h"
#include "base/text.h"
#include "capture/fxt_writer.h"
#include <string.h>

/* Bytes. Linux has 15, and many threads may refer to one long string of a file. */
#define THREAD_NAME_LIMIT 255

/* Strings of samples, by index. */
enum {
	STRING_CPU = 1,
	STRING_KERNEL,
	STRING_END,
	STRING_KERNEL_END,
	STRING_IDLE,
	STRING_WAIT,
	STRING_IN_GUEST,
	N_STRINGS
};
static const char *const strings[N_STRINGS] = {
	[STRING_CPU] = "cpu",		[STRING_KERNEL] = "kernel",
	[STRING_END] = "end",		[STRING_KERNEL_END] = "kernel end",
	[STRING_IDLE] = "idle",		[STRING_WAIT] = "wait",
	[STRING_IN_GUEST] = "in guest",
};

void vms_records_put_start(GByteArray *out, enum vms_records_system of)
{
	const struct vms_fxt_record begin[] = {
		{ .type = VMS_FXT_METADATA, .kind = VMS_FXT_TRACE_INFO },
		{ .type = VMS_FXT_METADATA,
		  .kind = VMS_FXT_PROVIDER_INFO,
		  .number = of,
		  .name = vms_fxt_inline(of == VMS_RECORDS_GUEST ? "vmscope guest" : "vmscope") },
		{ .type = VMS_FXT_INITIALIZATION, .value = 1000000000 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(begin); i++)
		vms_fxt_write(out, &begin[i]);
	for (uint32_t i = 1; i < N_STRINGS; i++) {
		const struct vms_fxt_record string = { .type = VMS_FXT_STRING,
						       .number = i,
						       .name = vms_fxt_inline(strings[i]) };
		vms_fxt_write(out, &string);
	}
}

/* ---- samples --------------------------------------------------------------------- */

static void add_u32(struct vms_fxt_record *record, uint16_t name, uint32_t value)
{
	record->arguments[record->n_arguments++] = (struct vms_fxt_argument) {
		.type = VMS_FXT_U32,
		.name.index = name,
		.u = value,
	};
}

/* The letter of the state, and in the next bits the number of the frame, from 1 on. */
static uint32_t encode_wait(const struct vms_sample_record *sample)
{
	const uint32_t frame = sample->wait_frame < VMS_STACK_LIMIT ? sample->wait_frame + 1 : 0;
	return (uint8_t)sample->waits | frame << 8;
}

static void decode_wait(uint64_t wait, struct vms_sample_record *ret)
{
	const char letter = (char)(wait & 0x7f);
	const uint64_t frame = wait >> 8;
	ret->waits = wait == 0 ? 0 : strchr("RSDTtXZPI", letter) && letter ? letter : '?';
	ret->wait_frame =
		frame > 0 && frame <= ret->stack.n_kernel ? (uint32_t)frame - 1 : VMS_NO_WAIT_FRAME;
}

void vms_records_put_sample(GByteArray *out, const struct vms_sample_record *sample)
{
	uint64_t pcs[VMS_STACK_LIMIT];
	const struct vms_stack *stack = &sample->stack;
	struct vms_fxt_record record;
	memset(&record, 0, offsetof(struct vms_fxt_record, arguments));
	record.type = VMS_FXT_LARGE_BLOB;
	record.kind = VMS_FXT_BLOB_WITH_METADATA;
	record.time = sample->time_ns;
	record.thread = (struct vms_fxt_thread) { 0, sample->pid, sample->tid };
	record.payload = pcs;
	record.payload_size = stack->n * sizeof(*pcs);
	for (unsigned i = 0; i < stack->n; i++)
		pcs[i] = GUINT64_TO_LE(stack->frame[i].pc);
	add_u32(&record, STRING_CPU, sample->vcpu);
	if (stack->n_kernel)
		add_u32(&record, STRING_KERNEL, stack->n_kernel);
	if (stack->end != VMS_WALK_ROOT)
		add_u32(&record, STRING_END, stack->end);
	if (stack->kernel_end != VMS_WALK_ROOT)
		add_u32(&record, STRING_KERNEL_END, stack->kernel_end);
	if (sample->idle)
		add_u32(&record, STRING_IDLE, 1);
	if (sample->waits)
		add_u32(&record, STRING_WAIT, encode_wait(sample));
	if (sample->in_guest)
		add_u32(&record, STRING_IN_GUEST, 1);
	vms_fxt_write(out, &record);
}

bool vms_records_is_sample(const struct vms_fxt_record *record)
{
	return record->type == VMS_FXT_LARGE_BLOB && record->kind == VMS_FXT_BLOB_WITH_METADATA &&
	       !record->category.length && !record->name.length;
}

static bool has_text(const struct vms_fxt_string *string, const char *text)
{
	return string->length == strlen(text) && memcmp(string->text, text, string->length) == 0;
}

static enum vms_walk_end clamp_walk_end(uint64_t end)
{
	return end < VMS_WALK_N_ENDS ? (enum vms_walk_end)end : VMS_WALK_BAD_FRAME;
}

bool vms_records_get_sample(const struct vms_fxt_record *record, struct vms_sample_record *ret)
{
	if (!vms_records_is_sample(record) || record->payload_size % 8)
		return false;
	struct vms_stack *stack = &ret->stack;
	ret->time_ns = record->time;
	ret->pid = (uint32_t)record->thread.pid;
	ret->tid = (uint32_t)record->thread.tid;
	ret->space = VMS_NO_SPACE;
	ret->idle = vms_records_number(record, strings[STRING_IDLE]);
	ret->in_guest = vms_records_number(record, strings[STRING_IN_GUEST]);
	ret->code_changed = false;
	ret->vcpu = (uint32_t)vms_records_number(record, strings[STRING_CPU]);
	stack->n = (unsigned)MIN(record->payload_size / 8, VMS_STACK_LIMIT);
	stack->n_kernel =
		(unsigned)MIN(vms_records_number(record, strings[STRING_KERNEL]), stack->n);
	decode_wait(vms_records_number(record, strings[STRING_WAIT]), ret);
	stack->end = clamp_walk_end(vms_records_number(record, strings[STRING_END]));
	stack->kernel_end = clamp_walk_end(vms_records_number(record, strings[STRING_KERNEL_END]));
	for (unsigned i = 0; i < stack->n; i++) {
		uint64_t pc;
		memcpy(&pc, (const uint8_t *)record->payload + (size_t)i * 8, sizeof(pc));
		/*
		 * The program has entered the kernel at its first frame, so that pc is not a return
		 * address.
		 */
		stack->frame[i] = (struct vms_frame) { .pc = GUINT64_FROM_LE(pc),
						       .is_return = i && i != stack->n_kernel,
						       .is_user = i >= stack->n_kernel };
	}
	return true;
}

bool vms_records_begins_system(const struct vms_fxt_record *record, enum vms_records_system *ret)
{
	if (record->type != VMS_FXT_METADATA ||
	    (record->kind != VMS_FXT_PROVIDER_INFO && record->kind != VMS_FXT_PROVIDER_SECTION))
		return false;
	*ret = record->number == VMS_RECORDS_GUEST ? VMS_RECORDS_GUEST : VMS_RECORDS_HOST;
	return true;
}

/* ---- threads --------------------------------------------------------------------- */

void vms_records_put_thread(GByteArray *out, uint32_t pid, uint32_t tid, const char *name)
{
	struct vms_fxt_record record = { .type = VMS_FXT_KERNEL_OBJECT,
					 .kind = VMS_FXT_THREAD_OBJECT,
					 .value = tid,
					 .name = vms_fxt_inline(name),
					 .n_arguments = 1 };
	record.arguments[0] = (struct vms_fxt_argument) { .type = VMS_FXT_KOID,
							  .name = vms_fxt_inline("process"),
							  .u = pid };
	vms_fxt_write(out, &record);
}

char *vms_records_get_thread(const struct vms_fxt_record *record, uint32_t *tid)
{
	if (record->type != VMS_FXT_KERNEL_OBJECT || record->kind != VMS_FXT_THREAD_OBJECT)
		return NULL;
	char *name = g_strndup(record->name.text, MIN(record->name.length, THREAD_NAME_LIMIT));
	vms_text_clean(name);
	*tid = (uint32_t)record->value;
	return name;
}

/* ---- events ---------------------------------------------------------------------- */

struct vms_fxt_record vms_records_event(const char *name, uint64_t time_ns, uint32_t pid)
{
	return (struct vms_fxt_record) {
		.type = VMS_FXT_EVENT,
		.kind = VMS_FXT_INSTANT,
		.time = time_ns,
		.thread = { 0, pid, pid },
		.category = vms_fxt_inline(VMS_RECORDS_CATEGORY),
		.name = vms_fxt_inline(name),
	};
}

void vms_records_add_number(struct vms_fxt_record *event, const char *name, uint64_t value)
{
	event->arguments[event->n_arguments++] = (struct vms_fxt_argument) {
		.type = VMS_FXT_U64,
		.name = vms_fxt_inline(name),
		.u = value,
	};
}

void vms_records_add_text(struct vms_fxt_record *event, const char *name, const char *text)
{
	if (!text)
		return;
	event->arguments[event->n_arguments++] = (struct vms_fxt_argument) {
		.type = VMS_FXT_TEXT,
		.name = vms_fxt_inline(name),
		.text = vms_fxt_inline(text),
	};
}

bool vms_records_is_event(const struct vms_fxt_record *record, const char *name)
{
	return record->type == VMS_FXT_EVENT && record->kind == VMS_FXT_INSTANT &&
	       has_text(&record->category, VMS_RECORDS_CATEGORY) && has_text(&record->name, name);
}

static const struct vms_fxt_argument *find_argument(const struct vms_fxt_record *event,
						    const char *name)
{
	for (unsigned i = 0; i < event->n_arguments; i++)
		if (has_text(&event->arguments[i].name, name))
			return &event->arguments[i];
	return NULL;
}

uint64_t vms_records_number(const struct vms_fxt_record *event, const char *name)
{
	const struct vms_fxt_argument *found = find_argument(event, name);
	return found && (found->type == VMS_FXT_U32 || found->type == VMS_FXT_U64) ? found->u : 0;
}

const struct vms_fxt_string *vms_records_string(const struct vms_fxt_record *event,
						const char *name)
{
	const struct vms_fxt_argument *found = find_argument(event, name);
	return found && found->type == VMS_FXT_TEXT ? &found->text : NULL;
}
