/* SPDX-License-Identifier: MIT */
/*
 * Reads a file of the Fuchsia Trace Format and prints a JSON array per record ("decode FILE"), or
 * writes one of such lines on standard input ("encode FILE"). Bytes and texts are hexadecimal.
 */
#include "capture/fxt_reader.h"
#include "capture/fxt_writer.h"
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

static struct json_object *hex_of(const void *data, uint64_t size)
{
	const uint8_t *bytes = data;
	g_autoptr(GString) text = g_string_new(NULL);
	for (uint64_t i = 0; i < size; i++)
		g_string_append_printf(text, "%02x", bytes[i]);
	return json_object_new_string(text->str);
}

/* The bytes live as long as the program. */
static const uint8_t *parse_hex(struct json_object *object, uint64_t *size)
{
	const char *text = json_object_get_string(object);
	*size = strlen(text) / 2;
	uint8_t *bytes = g_malloc(*size + 1);
	for (uint64_t i = 0; i < *size; i++) {
		const char digits[3] = { text[2 * i], text[2 * i + 1], 0 };
		bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return bytes;
}

static struct json_object *at(struct json_object *array, size_t index)
{
	return json_object_array_get_idx(array, index);
}

static uint64_t number_at(struct json_object *array, size_t index)
{
	return json_object_get_uint64(at(array, index));
}

static void add(struct json_object *array, uint64_t number)
{
	json_object_array_add(array, json_object_new_uint64(number));
}

static struct json_object *string_object(const struct vms_fxt_string *string)
{
	struct json_object *array = json_object_new_array();
	add(array, string->index);
	json_object_array_add(array, hex_of(string->text, string->length));
	return array;
}

static struct vms_fxt_string parse_string(struct json_object *array)
{
	uint64_t size;
	const char *text = (const char *)parse_hex(at(array, 1), &size);
	return (struct vms_fxt_string) { (uint16_t)number_at(array, 0), (uint16_t)size, text };
}

static struct json_object *argument_object(const struct vms_fxt_argument *argument)
{
	struct json_object *array = json_object_new_array();
	add(array, argument->type);
	json_object_array_add(array, string_object(&argument->name));
	if (argument->type == VMS_FXT_TEXT)
		json_object_array_add(array, string_object(&argument->text));
	else if (argument->type == VMS_FXT_BYTES)
		json_object_array_add(array, hex_of(argument->bytes, argument->u));
	else
		add(array, argument->type == VMS_FXT_NULL ? 0 : argument->u);
	return array;
}

static struct vms_fxt_argument parse_argument(struct json_object *array)
{
	struct vms_fxt_argument argument = { .type = (enum vms_fxt_argument_type)number_at(array,
											   0),
					     .name = parse_string(at(array, 1)) };
	if (argument.type == VMS_FXT_TEXT)
		argument.text = parse_string(at(array, 2));
	else if (argument.type == VMS_FXT_BYTES)
		argument.bytes = parse_hex(at(array, 2), &argument.u);
	else
		argument.u = number_at(array, 2);
	return argument;
}

static void print_record(const struct vms_fxt_record *record)
{
	struct json_object *line = json_object_new_array();
	struct json_object *arguments = json_object_new_array();
	const uint64_t numbers[] = { record->type,	   record->kind,	 record->detail,
				     record->number,	   record->value,	 record->time,
				     record->outgoing_tid, record->thread.index, record->thread.pid,
				     record->thread.tid };
	for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
		add(line, numbers[i]);
	json_object_array_add(line, string_object(&record->category));
	json_object_array_add(line, string_object(&record->name));
	for (unsigned i = 0; i < record->n_arguments; i++)
		json_object_array_add(arguments, argument_object(&record->arguments[i]));
	json_object_array_add(line, arguments);
	json_object_array_add(line, hex_of(record->payload, record->payload_size));
	puts(json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN));
	json_object_put(line);
}

static void parse_record(struct json_object *line, struct vms_fxt_record *ret)
{
	struct json_object *arguments = at(line, 12);
	*ret = (struct vms_fxt_record) {
		.type = (enum vms_fxt_type)number_at(line, 0),
		.kind = (uint8_t)number_at(line, 1),
		.detail = (uint8_t)number_at(line, 2),
		.number = (uint32_t)number_at(line, 3),
		.value = number_at(line, 4),
		.time = number_at(line, 5),
		.outgoing_tid = number_at(line, 6),
		.thread = { (uint8_t)number_at(line, 7), number_at(line, 8), number_at(line, 9) },
		.category = parse_string(at(line, 10)),
		.name = parse_string(at(line, 11)),
		.n_arguments = (unsigned)json_object_array_length(arguments),
	};
	for (unsigned i = 0; i < ret->n_arguments && i < VMS_FXT_ARGUMENTS_MAX; i++)
		ret->arguments[i] = parse_argument(at(arguments, i));
	ret->payload = parse_hex(at(line, 13), &ret->payload_size);
}

static void print_damage(const char *what, const struct vms_fxt_damage *damage)
{
	printf("{\"%s\":[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",\"%s\"]}\n", what,
	       damage->offset, damage->size, damage->reason);
}

static int decode(const char *path)
{
	gsize size;
	g_autofree char *data = NULL;
	if (!g_file_get_contents(path, &data, &size, NULL))
		return EXIT_FAILURE;
	struct vms_fxt_reader *reader =
		vms_fxt_reader_new((struct vms_bytes) { (const uint8_t *)data, size });
	struct vms_fxt_record record;
	struct vms_fxt_damage damage;
	enum vms_fxt_step step;
	while ((step = vms_fxt_reader_next(reader, &record, &damage)) != VMS_FXT_END) {
		if (step == VMS_FXT_RECORD)
			print_record(&record);
		else
			print_damage(step == VMS_FXT_DAMAGED ? "damaged" : "truncated", &damage);
	}
	vms_fxt_reader_free(reader);
	return EXIT_SUCCESS;
}

static int encode(const char *path)
{
	g_autoptr(GByteArray) out = g_byte_array_new();
	g_autofree char *line = NULL;
	size_t size = 0;
	while (getline(&line, &size, stdin) > 0) {
		struct json_object *object = json_tokener_parse(line);
		struct vms_fxt_record record;
		parse_record(object, &record);
		if (!vms_fxt_write(out, &record))
			puts("refused");
		json_object_put(object);
	}
	return g_file_set_contents(path, (const char *)out->data, out->len, NULL) ? EXIT_SUCCESS
										  : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "decode") == 0)
		return decode(argv[2]);
	if (argc == 3 && strcmp(argv[1], "encode") == 0)
		return encode(argv[2]);
	return EXIT_FAILURE;
}
