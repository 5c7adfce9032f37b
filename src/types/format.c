/* SPDX-License-Identifier: MIT */
/*
 * Formats values as C writes them. Types are not trusted, so depth, number of elements and length
 * are limited.
 */
#include "base/errno_name.h"
#include <string.h>
#include <vmscope/types.h>

#define DEPTH_MAX    5	   /* nested structures and arrays */
#define ELEMENTS_MAX 16	   /* of an array */
#define NODES_MAX    512   /* values within a value */
#define NAMES_MAX    2048  /* enumerators that are searched */
#define OUTPUT_MAX   8192u /* bytes; a value that has begun by then is completed */
#define TEXT_MAX     256u  /* bytes of one text */
#define ALIASES_MAX  16
#define ERRORS_MAX   4095		 /* MAX_ERRNO: pointers above -ERRORS_MAX are errors */
#define SMALL_MAX    (UINT64_C(1) << 31) /* unsigned longs from this on are hexadecimal */

#define MISSING "…"

struct printer {
	const uint8_t *bytes;
	size_t size;
	unsigned flags; /* enum vms_type_format_flags */
	size_t end;	/* length at which the output is cut */
	unsigned depth, nodes;
	GString *out;
};

/* The position and the number of bits of a value in the bytes. */
struct place {
	uint64_t bit, bits;
};

static void print_value(struct printer *printer, struct vms_type type, uint64_t bit, unsigned bits);

/* Gets an integer of 64 bits at most. False if its bytes are missing. */
static bool get_bits(const struct printer *printer, struct place place, uint64_t *ret)
{
	*ret = 0;
	if (place.bits == 0 || place.bits > 64 || place.bit > (uint64_t)printer->size * 8 ||
	    place.bits > (uint64_t)printer->size * 8 - place.bit)
		return false;
	for (uint64_t i = 0; i < place.bits;) {
		const uint64_t at = place.bit + i;
		const unsigned shift = at % 8;
		*ret |= (uint64_t)(printer->bytes[at / 8] >> shift) << i;
		i += 8 - shift;
	}
	if (place.bits < 64)
		*ret &= (UINT64_C(1) << place.bits) - 1;
	return true;
}

/* ---- numbers --------------------------------------------------------------------------- */

static void print_signed(struct printer *printer, int64_t value)
{
	g_string_append_printf(printer->out, "%" G_GINT64_FORMAT, value);
	const char *name = value < 0 && (printer->flags & VMS_TYPE_RESULT)
				   ? vms_errno_name(0 - (uint64_t)value)
				   : NULL;
	if (name)
		g_string_append_printf(printer->out, " (%s)", name);
}

static void print_hexadecimal(struct printer *printer, uint64_t value)
{
	g_string_append_printf(printer->out, "0x%" G_GINT64_MODIFIER "x", value);
}

static void print_unsigned(struct printer *printer, uint64_t value, uint64_t size)
{
	if (size >= sizeof(uint64_t) && value >= SMALL_MAX)
		print_hexadecimal(printer, value);
	else
		g_string_append_printf(printer->out, "%" G_GUINT64_FORMAT, value);
}

static void print_pointer(struct printer *printer, uint64_t value)
{
	const char *name = value >= 0 - (uint64_t)ERRORS_MAX ? vms_errno_name(0 - value) : NULL;
	if (value == 0)
		g_string_append(printer->out, "NULL");
	else if (name)
		g_string_append_printf(printer->out, "ERR_PTR(-%s)", name);
	else
		print_hexadecimal(printer, value);
}

static void print_character(struct printer *printer, uint8_t value)
{
	const char text[] = { (char)value, 0 };
	g_autofree char *escaped = g_strescape(text, NULL);
	const char *shown = value == 0	    ? "\\0"
			    : value == '\'' ? "\\'"
			    : value == '"'  ? "\""
					    : escaped;
	g_string_append_printf(printer->out, "'%s'", shown);
}

/* Appends a number in network byte order. */
static void print_network(struct printer *printer, uint64_t value, unsigned size)
{
	if (size == sizeof(uint16_t))
		g_string_append_printf(printer->out, "htons(%u)", GUINT16_FROM_BE((uint16_t)value));
	else if (size == sizeof(uint32_t))
		g_string_append_printf(printer->out, "htonl(0x%x)",
				       GUINT32_FROM_BE((uint32_t)value));
	else
		g_string_append_printf(printer->out, "cpu_to_be64(0x%" G_GINT64_MODIFIER "x)",
				       GUINT64_FROM_BE(value));
}

/* Sign-extends the low `bits` of a value. */
static int64_t sign_extend(uint64_t value, uint64_t bits)
{
	return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

/* ---- enumerations ------------------------------------------------------------------------ */

/* Appends the names of all one-bit enumerators in `*left`, and removes their bits from it. */
static void print_flags(struct printer *printer, struct vms_type type, uint64_t *left)
{
	struct vms_type_part part;
	const size_t begin = printer->out->len;
	for (uint32_t i = 0; i < NAMES_MAX && vms_type_get_part(type, i, &part) && *left; i++) {
		const uint64_t bit = (uint64_t)part.value;
		if (bit == 0 || (bit & (bit - 1)) || !(*left & bit))
			continue;
		g_string_append_printf(printer->out, "%s%s", printer->out->len > begin ? "|" : "",
				       part.name);
		*left &= ~bit;
	}
}

/*
 * True if an enumeration has flags: above 2, more of its values have one bit than have several.
 */
static bool has_flags(struct vms_type type)
{
	struct vms_type_part part;
	unsigned n = 0, n_others = 0;
	for (uint32_t i = 0; i < NAMES_MAX && vms_type_get_part(type, i, &part); i++) {
		const uint64_t value = (uint64_t)part.value;
		n += value > 2 && !(value & (value - 1));
		n_others += value > 2 && (value & (value - 1));
	}
	return n >= 1 && n > n_others;
}

static void print_enum(struct printer *printer, struct vms_type type, uint64_t value,
		       struct vms_type_info *info, uint64_t bits)
{
	struct vms_type_part part;
	const int64_t number = info->is_signed ? sign_extend(value, bits) : (int64_t)value;
	for (uint32_t i = 0; i < NAMES_MAX && vms_type_get_part(type, i, &part); i++)
		if (part.value == number) {
			g_string_append(printer->out, part.name);
			return;
		}
	uint64_t left = value;
	const size_t begin = printer->out->len;
	if (has_flags(type))
		print_flags(printer, type, &left);
	if (printer->out->len == begin)
		g_string_append_printf(printer->out, "%" G_GINT64_FORMAT, number);
	else if (left)
		g_string_append_printf(printer->out, "|0x%" G_GINT64_MODIFIER "x", left);
}

/* ---- arrays and structures ------------------------------------------------------------- */

/* Appends the bytes before the first 0 in quotes. `is_cut`: the text continues after the bytes. */
static void append_text(GString *out, const uint8_t *bytes, size_t size, bool is_cut)
{
	g_autofree char *text = g_strndup((const char *)bytes, MIN(size, TEXT_MAX));
	g_autofree char *escaped = g_strescape(text, NULL);
	g_string_append_printf(out, "\"%s\"%s", escaped,
			       is_cut || strlen(text) == TEXT_MAX ? MISSING : "");
}

static bool is_full(const struct printer *printer)
{
	return printer->nodes >= NODES_MAX || printer->out->len >= printer->end;
}

/* True if a value that begins at this bit is completely missing. */
static bool is_missing(const struct printer *printer, uint64_t bit)
{
	return bit >= (uint64_t)printer->size * 8;
}

static bool is_printable(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size && bytes[i]; i++)
		if (!g_ascii_isprint((char)bytes[i]))
			return false;
	return true;
}

/* Appends an array of characters. False if it is not text. */
static bool print_text(struct printer *printer, struct vms_type type, uint64_t bit,
		       const struct vms_type_info *info)
{
	struct vms_type_info element;
	if (!vms_type_is_text(type) || bit % 8 || is_missing(printer, bit))
		return false;
	const size_t there = printer->size - bit / 8;
	const size_t size = MIN(there, info->size);
	const uint8_t *bytes = printer->bytes + bit / 8;
	vms_type_get_info(vms_type_resolve(info->target), &element);
	/* unsigned char is also used for numbers */
	if (element.kind != VMS_TYPE_CHAR && !is_printable(bytes, size))
		return false;
	append_text(printer->out, bytes, size, size < info->size && !memchr(bytes, 0, size));
	return true;
}

static void print_array(struct printer *printer, struct vms_type type, uint64_t bit,
			const struct vms_type_info *info)
{
	struct vms_type_info element;
	vms_type_get_info(info->target, &element);
	if (print_text(printer, type, bit, info))
		return;
	g_string_append_c(printer->out, '{');
	for (uint32_t i = 0; i < info->n_elements; i++) {
		const uint64_t at = bit + i * element.size * 8;
		g_string_append(printer->out, i ? ", " : "");
		if (i == ELEMENTS_MAX || is_missing(printer, at) || is_full(printer)) {
			g_string_append(printer->out, MISSING);
			break;
		}
		print_value(printer, info->target, at, 0);
	}
	g_string_append_c(printer->out, '}');
}

static void print_structure(struct printer *printer, struct vms_type type, uint64_t bit)
{
	struct vms_type_part part;
	g_string_append_c(printer->out, '{');
	for (uint32_t i = 0; vms_type_get_part(type, i, &part); i++) {
		g_string_append(printer->out, i ? ", " : "");
		if (is_missing(printer, bit + part.bit_offset) || is_full(printer)) {
			g_string_append(printer->out, MISSING);
			break;
		}
		if (*part.name)
			g_string_append_printf(printer->out, ".%s=", part.name);
		print_value(printer, part.type, bit + part.bit_offset, part.bits);
	}
	g_string_append_c(printer->out, '}');
}

static void print_compound(struct printer *printer, struct vms_type type, uint64_t bit,
			   const struct vms_type_info *info)
{
	if (printer->depth == DEPTH_MAX) {
		g_string_append(printer->out, "{" MISSING "}");
		return;
	}
	printer->depth++;
	if (info->kind == VMS_TYPE_ARRAY)
		print_array(printer, type, bit, info);
	else
		print_structure(printer, type, bit);
	printer->depth--;
}

/* ---- any value ------------------------------------------------------------------------- */

/* True if one of the type's typedefs is for network byte order (__be16 and so on). */
static bool is_network_order(struct vms_type type)
{
	struct vms_type_info info;
	for (unsigned i = 0; i < ALIASES_MAX; i++) {
		vms_type_get_info(type, &info);
		if (g_str_has_prefix(info.name, "__be") && info.kind == VMS_TYPE_TYPEDEF)
			return true;
		if (info.kind != VMS_TYPE_TYPEDEF && info.kind != VMS_TYPE_CONST &&
		    info.kind != VMS_TYPE_OTHER)
			break;
		type = info.target;
	}
	return false;
}

static void print_number(struct printer *printer, struct vms_type type, struct vms_type_info *info,
			 struct place place)
{
	uint64_t value;
	if (!get_bits(printer, place, &value))
		g_string_append(printer->out, MISSING);
	else if (info->kind == VMS_TYPE_ENUM)
		print_enum(printer, vms_type_resolve(type), value, info, place.bits);
	else if (info->kind == VMS_TYPE_POINTER)
		print_pointer(printer, value);
	else if (info->kind == VMS_TYPE_BOOL && value <= 1)
		g_string_append(printer->out, value ? "true" : "false");
	else if (info->kind == VMS_TYPE_CHAR)
		print_character(printer, (uint8_t)value);
	else if (info->is_signed)
		print_signed(printer, sign_extend(value, place.bits));
	else if (place.bits % 8 == 0 && is_network_order(type))
		print_network(printer, value, (unsigned)place.bits / 8);
	else
		print_unsigned(printer, value, info->size);
}

/* Appends the bytes as one number, if there is no better form. */
static void print_raw(struct printer *printer, uint64_t bit, uint64_t size)
{
	if (size == 0 || size > 64 || is_missing(printer, bit) || size > printer->size - bit / 8) {
		g_string_append(printer->out, size ? MISSING : "?");
		return;
	}
	g_string_append(printer->out, "0x");
	for (uint64_t i = size; i-- > 0;)
		g_string_append_printf(printer->out, "%02x", printer->bytes[bit / 8 + i]);
}

static void print_value(struct printer *printer, struct vms_type type, uint64_t bit, unsigned bits)
{
	struct vms_type_info info;
	const struct vms_type resolved = vms_type_resolve(type);
	vms_type_get_info(resolved, &info);
	const struct place place = { bit, bits ? bits : info.size * 8 };
	printer->nodes++;
	switch (info.kind) {
	case VMS_TYPE_STRUCT:
	case VMS_TYPE_UNION:
	case VMS_TYPE_ARRAY: print_compound(printer, resolved, bit, &info); break;
	case VMS_TYPE_INTEGER:
	case VMS_TYPE_BOOL:
	case VMS_TYPE_CHAR:
	case VMS_TYPE_ENUM:
	case VMS_TYPE_POINTER:
		if (info.size <= sizeof(uint64_t))
			print_number(printer, type, &info, place);
		else
			print_raw(printer, bit, info.size);
		break;
	case VMS_TYPE_VOID: g_string_append(printer->out, "void"); break;
	case VMS_TYPE_FLOAT:
	case VMS_TYPE_FUNCTION:
	case VMS_TYPE_TYPEDEF:
	case VMS_TYPE_CONST:
	case VMS_TYPE_OTHER:
	case VMS_TYPE_UNKNOWN:
	default: print_raw(printer, bit, info.size); break;
	}
}

void vms_type_format(struct vms_type type, const void *bytes, size_t size, unsigned flags,
		     GString *out)
{
	struct printer printer = { .bytes = bytes,
				   .size = size,
				   .flags = flags,
				   .end = out->len + OUTPUT_MAX,
				   .out = out };
	print_value(&printer, type, 0, 0);
}
