/* SPDX-License-Identifier: MIT */
/*
 * Reads gdb target descriptions: XML documents of a stub that name its architecture and its
 * registers, in the order of their numbers
 * (https://sourceware.org/gdb/current/onlinedocs/gdb.html/Target-Descriptions.html).
 */
#include "machine/gdb/gdb.h"
#include <stdio.h>
#include <string.h>

#define DOCUMENTS_MAX	  64
#define DOCUMENT_SIZE_MAX (256U << 10)
#define INCLUDE_DEPTH_MAX 4
#define REGISTERS_MAX	  4096
#define REGISTER_BITS_MAX 65536

/* What has been read of a description so far. */
struct target {
	struct vms_gdb *gdb;
	unsigned documents, depth; /* of documents that include each other */
	bool in_architecture;	   /* inside the element <architecture> */
	char *architecture;
	unsigned next_number; /* of the next register without a number of its own */
	GArray *registers;    /* struct described */
};

/* A register of the description. */
struct described {
	unsigned number;
	unsigned size; /* bytes */
	char name[32];
};

static bool read_document(struct target *target, const char *name, GError **error);

static GString *fetch_document(struct vms_gdb *gdb, const char *name, GError **error)
{
	g_autoptr(GString) document = g_string_new(NULL);
	for (;;) {
		char request[160];
		snprintf(request, sizeof(request), "qXfer:features:read:%.64s:%zx,%x", name,
			 document->len, MIN(gdb->packet_size, 0x4000) - 8);
		if (!vms_gdb_request(gdb, request, error))
			return NULL;
		const GString *part = gdb->payload;
		bool last = part->str[0] == 'l';
		if ((!last && part->str[0] != 'm') || (!last && part->len < 2) ||
		    document->len + part->len > DOCUMENT_SIZE_MAX) {
			vms_gdb_fail(gdb, VMS_ERROR_PROTOCOL,
				     "its target description cannot be read or is too long", error);
			return NULL;
		}
		g_string_append_len(document, part->str + 1, (gssize)part->len - 1);
		if (last)
			return g_steal_pointer(&document);
	}
}

static bool fail_malformed(struct target *target, GError **error)
{
	return vms_gdb_fail(target->gdb, VMS_ERROR_PROTOCOL,
			    "its target description is malformed or too long", error);
}

/* True if `name` can be part of a request. */
static bool is_plain_name(const char *name)
{
	return *name && strlen(name) <= 64 &&
	       strspn(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "._-") == strlen(name);
}

static bool add_register(struct target *target, const char *name, const char *bitsize,
			 const char *regnum, GError **error)
{
	uint64_t bits, number = target->next_number;
	if (!name || !bitsize || target->registers->len >= REGISTERS_MAX ||
	    !g_ascii_string_to_unsigned(bitsize, 10, 1, REGISTER_BITS_MAX, &bits, NULL))
		return fail_malformed(target, error);
	if (regnum && !g_ascii_string_to_unsigned(regnum, 10, 0, G_MAXUINT16, &number, NULL))
		return fail_malformed(target, error);
	struct described described = { .number = (unsigned)number, .size = (unsigned)bits / 8 };
	g_strlcpy(described.name, name, sizeof(described.name));
	g_array_append_val(target->registers, described);
	target->next_number = (unsigned)number + 1;
	return true;
}

static const char *find_attribute(const char **names, const char **values, const char *name)
{
	for (; *names; names++, values++) {
		if (strcmp(*names, name) == 0)
			return *values;
	}
	return NULL;
}

static void on_element(GMarkupParseContext *context, const char *element, const char **names,
		       const char **values, gpointer data, GError **error)
{
	(void)context;
	struct target *target = data;
	if (strcmp(element, "architecture") == 0) {
		target->in_architecture = true;
	} else if (strcmp(element, "xi:include") == 0) {
		const char *name = find_attribute(names, values, "href");
		if (!name || !is_plain_name(name))
			fail_malformed(target, error);
		else
			read_document(target, name, error);
	} else if (strcmp(element, "reg") == 0) {
		add_register(target, find_attribute(names, values, "name"),
			     find_attribute(names, values, "bitsize"),
			     find_attribute(names, values, "regnum"), error);
	}
}

static void on_end(GMarkupParseContext *context, const char *element, gpointer data, GError **error)
{
	(void)context, (void)error;
	if (strcmp(element, "architecture") == 0)
		((struct target *)data)->in_architecture = false;
}

static void on_text(GMarkupParseContext *context, const char *text, size_t size, gpointer data,
		    GError **error)
{
	(void)context, (void)error;
	struct target *target = data;
	if (target->in_architecture && !target->architecture && size <= 64)
		target->architecture = g_strstrip(g_strndup(text, size));
}

static bool read_document(struct target *target, const char *name, GError **error)
{
	static const GMarkupParser parser = { .start_element = on_element,
					      .end_element = on_end,
					      .text = on_text };
	if (target->depth >= INCLUDE_DEPTH_MAX || ++target->documents > DOCUMENTS_MAX)
		return fail_malformed(target, error);
	g_autoptr(GString) document = fetch_document(target->gdb, name, error);
	if (!document)
		return false;
	g_autoptr(GMarkupParseContext) context =
		g_markup_parse_context_new(&parser, 0, target, NULL);
	g_autoptr(GError) failure = NULL;
	target->depth++;
	bool parsed = g_markup_parse_context_parse(context, document->str, (gssize)document->len,
						   &failure) &&
		      g_markup_parse_context_end_parse(context, &failure);
	target->depth--;
	if (parsed)
		return true;
	if (failure->domain != VMS_ERROR)
		return fail_malformed(target, error);
	g_propagate_error(error, g_steal_pointer(&failure));
	return false;
}

static int compare_numbers(gconstpointer a, gconstpointer b)
{
	const struct described *left = a, *right = b;
	return left->number < right->number ? -1 : left->number > right->number;
}

/*
 * Finds each register's place in the answer to `g`: they follow each other by number, without gaps.
 */
static void place_registers(struct target *target)
{
	unsigned offset = 0;
	g_array_sort(target->registers, compare_numbers);
	for (unsigned i = 0; i < target->registers->len; i++) {
		const struct described *described =
			&g_array_index(target->registers, struct described, i);
		const struct vms_gdb_slot slot = { described->number, offset, described->size };
		int index = vms_arch_reg(target->gdb->arch, described->name);
		unsigned number;
		if (index >= 0)
			target->gdb->slots[index] = slot;
		if (vms_wide_find_described(target->gdb->arch, described->name, &number))
			target->gdb->wide[number] = slot;
		offset += described->size;
	}
}

bool vms_gdb_read_target(struct vms_gdb *gdb, GError **error)
{
	struct target target = { .gdb = gdb };
	target.registers = g_array_new(FALSE, FALSE, sizeof(struct described));
	bool done = read_document(&target, "target.xml", error);
	if (done) {
		const char *name = target.architecture ? target.architecture : "none";
		gdb->arch = vms_arch_by_name(name);
		if (gdb->arch)
			place_registers(&target);
		else
			done = vms_gdb_fail(gdb, VMS_ERROR_UNSUPPORTED,
					    "the architecture of this machine is not supported",
					    error);
	}
	g_array_unref(target.registers);
	g_free(target.architecture);
	return done;
}
