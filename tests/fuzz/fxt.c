/* SPDX-License-Identifier: MIT */
/*
 * A file of the Fuchsia Trace Format. A record without a fault is encoded again, and decoded: it is
 * the same then.
 *
 * Covers: src/capture/fxt_reader.c, src/capture/fxt_writer.c.
 */
#include "base/budget.h"
#include "capture/fxt_reader.h"
#include "capture/fxt_writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t last; /* every byte is read, and the compiler must not leave that out */

static void read_string(const struct vms_fxt_string *string)
{
	for (unsigned i = 0; i < string->length; i++)
		last = (uint8_t)string->text[i];
}

static void read_record(const struct vms_fxt_record *record)
{
	read_string(&record->category);
	read_string(&record->name);
	for (unsigned i = 0; i < record->n_arguments; i++) {
		const struct vms_fxt_argument *argument = &record->arguments[i];
		read_string(&argument->name);
		for (uint64_t j = 0; argument->type == VMS_FXT_BYTES && j < argument->u; j++)
			last = ((const uint8_t *)argument->bytes)[j];
	}
	for (uint64_t i = 0; i < record->payload_size; i++)
		last = ((const uint8_t *)record->payload)[i];
}

/* Without the indices, as the tables are not encoded. */
static void write_again(const struct vms_fxt_record *record)
{
	struct vms_fxt_record copy = *record, again;
	struct vms_fxt_damage damage;
	g_autoptr(GByteArray) out = g_byte_array_new();
	copy.thread.index = 0;
	copy.category.index = copy.name.index = 0;
	for (unsigned i = 0; i < copy.n_arguments; i++) {
		copy.arguments[i].name.index = 0;
		if (copy.arguments[i].type == VMS_FXT_TEXT)
			copy.arguments[i].text.index = 0;
	}
	if (!vms_fxt_write(out, &copy))
		return;
	struct vms_fxt_reader *reader =
		vms_fxt_reader_new((struct vms_bytes) { out->data, out->len });
	g_assert_cmpint(vms_fxt_reader_next(reader, &again, &damage), ==, VMS_FXT_RECORD);
	g_assert_cmpuint(again.type, ==, record->type);
	g_assert_cmpuint(again.kind, ==, record->kind);
	g_assert_cmpuint(again.value, ==, record->value);
	g_assert_cmpuint(again.time, ==, record->time);
	g_assert_cmpuint(again.n_arguments, ==, record->n_arguments);
	g_assert_cmpuint(again.payload_size, ==, record->payload_size);
	g_assert_cmpint(vms_fxt_reader_next(reader, &again, &damage), ==, VMS_FXT_END);
	vms_fxt_reader_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct vms_budget_options options = { .size = sizeof(options) };
	g_autoptr(vms_budget) budget = vms_budget_new(&options, NULL);
	struct vms_fxt_reader *reader =
		vms_fxt_reader_new((struct vms_bytes) { data, size, budget });
	struct vms_fxt_record record;
	struct vms_fxt_damage damage;
	enum vms_fxt_step step;
	uint64_t end = 0;
	while ((step = vms_fxt_reader_next(reader, &record, &damage)) != VMS_FXT_END) {
		if (step == VMS_FXT_RECORD) {
			end = vms_fxt_reader_offset(reader);
			read_record(&record);
			write_again(&record);
			continue;
		}
		g_assert_cmpuint(damage.offset, >=, end);
		g_assert_cmpuint(damage.size, >, 0);
		g_assert_cmpuint(damage.size, <=, size - damage.offset);
		end = damage.offset + damage.size;
	}
	vms_fxt_reader_free(reader);
	g_assert_true(vms_budget_has_left(budget));
	return 0;
}
