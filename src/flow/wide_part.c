/* SPDX-License-Identifier: MIT */
#include "flow/wide_part.h"

#include <math.h>
#include <string.h>

bool vms_wide_part_is_signed(const struct vms_wide_part *part)
{
	return part->view == VMS_VIEW_SIGNED && part->size == part->lane;
}

char *vms_wide_part_type(const struct vms_wide_part *part)
{
	const unsigned n = part->size / part->lane;
	g_autofree char *lane = NULL;
	switch (part->view) {
	case VMS_VIEW_TABLE: return g_strdup("struct desc_ptr");
	case VMS_VIEW_FLOAT:
		lane = g_strdup(part->lane == sizeof(float)    ? "float"
				: part->lane == sizeof(double) ? "double"
							       : "long double");
		break;
	case VMS_VIEW_WHOLE:
	case VMS_VIEW_UNSIGNED:
	case VMS_VIEW_ADDRESS:
	case VMS_VIEW_SIGNED:
	default:
		lane = g_strdup_printf("%sint%u_t", part->view == VMS_VIEW_SIGNED ? "" : "u",
				       8 * part->lane);
		break;
	}
	return n > 1 ? g_strdup_printf("%s[%u]", lane, n) : g_steal_pointer(&lane);
}

void vms_wide_part_append_hex(const uint8_t *bytes, size_t size, GString *out)
{
	g_string_append(out, "0x");
	for (size_t i = size; i > 0; i--)
		g_string_append_printf(out, "%02x", bytes[i - 1]);
}

/* Returns a number of at most 64 bits. */
static uint64_t get_number(const uint8_t *bytes, unsigned size)
{
	uint64_t number = 0;
	memcpy(&number, bytes, MIN(size, sizeof(number)));
	return GUINT64_FROM_LE(number);
}

/* Returns the number of 80 bits: Intel SDM volume 1, "Double Extended-Precision". */
static long double get_extended(const uint8_t *bytes)
{
	const uint64_t mantissa = get_number(bytes, 8);
	const unsigned top = (unsigned)get_number(bytes + 8, 2);
	const int exponent = top & 0x7fff;
	long double number;
	if (exponent == 0x7fff)
		number = mantissa << 1 ? (long double)NAN : (long double)INFINITY;
	else
		number = ldexpl((long double)mantissa, MAX(exponent, 1) - 16383 - 63);
	return top >> 15 ? -number : number;
}

static double get_float(const uint8_t *bytes, unsigned size)
{
	const uint32_t low = (uint32_t)get_number(bytes, 4);
	const uint64_t all = get_number(bytes, 8 < size ? 8 : size);
	float single;
	double number;
	memcpy(&single, &low, sizeof(single));
	memcpy(&number, &all, sizeof(number));
	return size == sizeof(single) ? (double)single : number;
}

bool vms_wide_part_float(const struct vms_wide_part *part, const uint8_t *bytes, double *ret)
{
	if (part->view != VMS_VIEW_FLOAT || part->size != part->lane)
		return false;
	*ret = part->lane == VMS_WIDE_80_BITS ? (double)get_extended(bytes)
					      : get_float(bytes, part->lane);
	return true;
}

/* Appends one part, so that it can be read back exactly. */
static void format_lane(const struct vms_wide_part *part, const uint8_t *bytes, GString *out)
{
	const unsigned above = 64 - 8 * MIN(part->lane, 8);
	const uint64_t number = get_number(bytes, part->lane);
	switch (part->view) {
	case VMS_VIEW_FLOAT:
		if (part->lane == VMS_WIDE_80_BITS)
			g_string_append_printf(out, "%.21Lg", get_extended(bytes));
		else
			g_string_append_printf(out, part->lane == sizeof(float) ? "%.9g" : "%.17g",
					       get_float(bytes, part->lane));
		break;
	case VMS_VIEW_SIGNED:
		g_string_append_printf(out, "%" G_GINT64_FORMAT,
				       (int64_t)(number << above) >> above);
		break;
	case VMS_VIEW_UNSIGNED: g_string_append_printf(out, "%" G_GUINT64_FORMAT, number); break;
	case VMS_VIEW_ADDRESS:
		g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x", number);
		break;
	case VMS_VIEW_TABLE:
		g_string_append_printf(out, "{base=0x%" G_GINT64_MODIFIER "x, limit=0x%x}",
				       get_number(bytes + VMS_WIDE_LIMIT_BYTES, 8),
				       (unsigned)get_number(bytes, VMS_WIDE_LIMIT_BYTES));
		break;
	case VMS_VIEW_WHOLE:
	default: vms_wide_part_append_hex(bytes, part->lane, out); break;
	}
}

void vms_wide_part_format(const struct vms_wide_part *part, const uint8_t *bytes, GString *out)
{
	const bool is_list = part->size > part->lane;
	g_string_append(out, is_list ? "{" : "");
	for (unsigned at = 0; at < part->size; at += part->lane) {
		g_string_append(out, at ? ", " : "");
		format_lane(part, bytes + at, out);
	}
	g_string_append(out, is_list ? "}" : "");
}
