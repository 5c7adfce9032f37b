/* SPDX-License-Identifier: MIT */
/*
 * One function for each rule of the grammar, each of which reads what it stands for and appends its
 * readable form. A back reference makes a rule read again what lies before it: it always leads
 * backwards, and the work and the depth are limited, since a short name can stand for a long one.
 */
#include "symbol/demangle_rust.h"
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DEPTH_LIMIT 64
#define STEPS_LIMIT 4096 /* rules that are applied */

struct reading {
	const char *begin, *at; /* behind "_R" */
	GString *out;		/* NULL: what is read is not shown */
	size_t limit;
	unsigned depth, steps;
	bool has_failed;
	unsigned n_bound; /* lifetimes of the binders around */
};

/* A name, which may hold letters beyond ASCII in Punycode. */
struct identifier {
	const char *text;
	size_t size;
	bool is_punycode;
};

static void fail(struct reading *reading)
{
	reading->has_failed = true;
}

static void append(struct reading *reading, const char *text, size_t size)
{
	if (reading->has_failed || !reading->out)
		return;
	if (reading->out->len + size > reading->limit)
		reading->has_failed = true;
	else
		g_string_append_len(reading->out, text, (gssize)size);
}

static void append_text(struct reading *reading, const char *text)
{
	append(reading, text, strlen(text));
}

static void append_number(struct reading *reading, uint64_t number)
{
	g_autofree char *text = g_strdup_printf("%" G_GUINT64_FORMAT, number);
	append_text(reading, text);
}

/* ---- characters and numbers ------------------------------------------- */

/* After a failure all rules see the end of the name. */
static char peek(const struct reading *reading)
{
	return reading->has_failed ? '\0' : *reading->at;
}

static char next(struct reading *reading)
{
	const char c = peek(reading);
	if (c)
		reading->at++;
	else
		fail(reading);
	return c;
}

static bool take(struct reading *reading, char c)
{
	if (peek(reading) != c)
		return false;
	reading->at++;
	return true;
}

static uint64_t read_decimal(struct reading *reading)
{
	uint64_t value = 0;
	if (!g_ascii_isdigit(peek(reading)))
		fail(reading);
	if (take(reading, '0'))
		return 0;
	while (g_ascii_isdigit(peek(reading))) {
		if (value > UINT32_MAX)
			fail(reading);
		value = value * 10 + (uint64_t)(next(reading) - '0');
	}
	return value;
}

/* Reads a number of base 62: "_" is 0, "0_" is 1. */
static uint64_t read_base_62(struct reading *reading)
{
	uint64_t value = 0;
	if (take(reading, '_'))
		return 0;
	while (!reading->has_failed && !take(reading, '_')) {
		const char c = next(reading);
		const unsigned digit = g_ascii_isdigit(c)   ? (unsigned)(c - '0')
				       : g_ascii_islower(c) ? (unsigned)(c - 'a') + 10
				       : g_ascii_isupper(c) ? (unsigned)(c - 'A') + 36
							    : 62;
		if (digit == 62 || value > (UINT64_MAX - 64) / 62)
			fail(reading);
		value = value * 62 + digit;
	}
	return value + 1;
}

/* Reads a number that is there if the tag is; 0 if it is not. */
static uint64_t read_tagged(struct reading *reading, char tag)
{
	return take(reading, tag) ? read_base_62(reading) + 1 : 0;
}

static struct identifier read_name(struct reading *reading)
{
	struct identifier name = { .is_punycode = take(reading, 'u') };
	const uint64_t size = read_decimal(reading);
	take(reading, '_');
	if (reading->has_failed || size > strlen(reading->at)) {
		fail(reading);
		return name;
	}
	name.text = reading->at;
	name.size = size;
	reading->at += size;
	return name;
}

/* ---- Punycode (RFC 3492; "_" divides the ASCII letters from the others) ------------------ */

#define PUNYCODE_LIMIT 128 /* letters of a name */

static unsigned adapt_bias(uint32_t delta, uint32_t n, bool is_first)
{
	unsigned k = 0;
	delta /= is_first ? 700 : 2;
	delta += delta / n;
	for (; delta > (36 - 1) * 26 / 2; k += 36)
		delta /= 36 - 1;
	return k + (36 - 1 + 1) * delta / (delta + 38);
}

/* Decodes a name into `letters`. Returns their number, or 0 if it is malformed. */
static size_t decode_punycode(const struct identifier *name, gunichar letters[PUNYCODE_LIMIT])
{
	size_t n = 0, at = 0;
	uint32_t code = 128, place = 0;
	unsigned bias = 72;
	for (size_t i = name->size; i > 0; i--) {
		if (name->text[i - 1] != '_')
			continue;
		for (; at < i - 1 && n < PUNYCODE_LIMIT; at++)
			letters[n++] = (gunichar)name->text[at];
		at = i;
		break;
	}
	while (at < name->size) {
		const uint32_t before = place;
		uint64_t weight = 1;
		for (unsigned k = 36;; k += 36) {
			const char c = at < name->size ? name->text[at++] : '\0';
			const unsigned digit = g_ascii_islower(c)   ? (unsigned)(c - 'a')
					       : g_ascii_isdigit(c) ? (unsigned)(c - '0') + 26
								    : 36;
			const unsigned least = k <= bias ? 1 : MIN(k - bias, 26u);
			if (digit == 36 || place + digit * weight > UINT32_MAX / 2)
				return 0;
			place += (uint32_t)(digit * weight);
			if (digit < least)
				break;
			weight *= 36 - least;
			if (weight > UINT32_MAX)
				return 0;
		}
		if (n == PUNYCODE_LIMIT)
			return 0;
		n++;
		bias = adapt_bias(place - before, (uint32_t)n, before == 0);
		code += place / (uint32_t)n;
		place %= (uint32_t)n;
		if (!g_unichar_validate(code))
			return 0;
		memmove(&letters[place + 1], &letters[place], (n - 1 - place) * sizeof(*letters));
		letters[place++] = code;
	}
	return n;
}

static void append_name(struct reading *reading, const struct identifier *name)
{
	gunichar letters[PUNYCODE_LIMIT];
	if (!name->is_punycode || reading->has_failed) {
		append(reading, name->text, name->size);
		return;
	}
	const size_t n = decode_punycode(name, letters);
	g_autofree char *text = n ? g_ucs4_to_utf8(letters, (glong)n, NULL, NULL, NULL) : NULL;
	if (text)
		append_text(reading, text);
	else
		fail(reading);
}

/* ---- rules ------------------------------------------------------------ */

static void read_path(struct reading *reading, bool in_value);
static void read_type(struct reading *reading);
static void read_const(struct reading *reading);

static bool enter(struct reading *reading)
{
	if (++reading->depth > DEPTH_LIMIT || ++reading->steps > STEPS_LIMIT)
		fail(reading);
	return !reading->has_failed;
}

static void leave(struct reading *reading)
{
	reading->depth--;
}

/* Goes to what a back reference refers to. Returns where to go on after it. NULL: it is malformed.
 */
static const char *enter_reference(struct reading *reading)
{
	const char *tag = reading->at - 1;
	const uint64_t offset = read_base_62(reading);
	const char *after = reading->at;
	if (reading->has_failed || offset >= (uint64_t)(tag - reading->begin)) {
		fail(reading);
		return NULL;
	}
	reading->at = reading->begin + offset;
	return after;
}

static void leave_reference(struct reading *reading, const char *after)
{
	if (after && !reading->has_failed)
		reading->at = after;
}

/* Appends a lifetime by its number, counted from the innermost binder. 0 is one without a name. */
static void append_lifetime(struct reading *reading, uint64_t number)
{
	if (number == 0) {
		append_text(reading, "'_");
		return;
	}
	if (number > reading->n_bound) {
		fail(reading);
		return;
	}
	const uint64_t depth = reading->n_bound - number;
	if (depth < 26) {
		const char name[] = { '\'', (char)('a' + depth), '\0' };
		append_text(reading, name);
	} else {
		append_text(reading, "'_");
		append_number(reading, depth);
	}
}

/* Reads what binds lifetimes. Returns how many were bound before. */
static unsigned read_binder(struct reading *reading)
{
	const unsigned before = reading->n_bound;
	const uint64_t n = read_tagged(reading, 'G');
	if (n > 64)
		fail(reading);
	if (n == 0 || reading->has_failed)
		return before;
	append_text(reading, "for<");
	for (uint64_t i = 0; i < n; i++) {
		if (i > 0)
			append_text(reading, ", ");
		reading->n_bound++;
		append_lifetime(reading, 1);
	}
	append_text(reading, "> ");
	return before;
}

static void read_generic_argument(struct reading *reading)
{
	if (take(reading, 'L'))
		append_lifetime(reading, read_base_62(reading));
	else if (take(reading, 'K'))
		read_const(reading);
	else
		read_type(reading);
}

/* Reads up to an "E". */
static void read_list(struct reading *reading, void (*read)(struct reading *reading))
{
	for (bool is_first = true; !reading->has_failed && !take(reading, 'E'); is_first = false) {
		if (!is_first)
			append_text(reading, ", ");
		read(reading);
	}
}

/* Reads the path of an impl block, which is not shown. */
static void skip_impl_path(struct reading *reading)
{
	GString *out = g_steal_pointer(&reading->out);
	read_tagged(reading, 's');
	read_path(reading, false);
	reading->out = out;
}

static void read_nested(struct reading *reading, bool in_value)
{
	const char kind = next(reading);
	if (!g_ascii_isalpha(kind))
		fail(reading);
	read_path(reading, in_value);
	const uint64_t number = read_tagged(reading, 's');
	const struct identifier name = read_name(reading);
	if (g_ascii_islower(kind)) {
		if (name.size > 0)
			append_text(reading, "::");
		append_name(reading, &name);
		return;
	}
	const char other[] = { kind, '\0' };
	append_text(reading, "::{");
	append_text(reading, kind == 'C' ? "closure" : kind == 'S' ? "shim" : other);
	if (name.size > 0) {
		append_text(reading, ":");
		append_name(reading, &name);
	}
	append_text(reading, "#");
	append_number(reading, number);
	append_text(reading, "}");
}

static void read_path(struct reading *reading, bool in_value)
{
	struct identifier name;
	if (!enter(reading))
		return;
	switch (next(reading)) {
	case 'C':
		read_tagged(reading, 's');
		name = read_name(reading);
		append_name(reading, &name);
		break;
	case 'N': read_nested(reading, in_value); break;
	case 'M':
		skip_impl_path(reading);
		append_text(reading, "<");
		read_type(reading);
		append_text(reading, ">");
		break;
	case 'X': skip_impl_path(reading); /* fallthrough */
	case 'Y':
		append_text(reading, "<");
		read_type(reading);
		append_text(reading, " as ");
		read_path(reading, false);
		append_text(reading, ">");
		break;
	case 'I':
		read_path(reading, in_value);
		append_text(reading, in_value ? "::<" : "<");
		read_list(reading, read_generic_argument);
		append_text(reading, ">");
		break;
	case 'B': {
		const char *after = enter_reference(reading);
		read_path(reading, in_value);
		leave_reference(reading, after);
		break;
	}
	default: fail(reading);
	}
	leave(reading);
}

/* ---- types ------------------------------------------------------------ */

static const char *name_basic_type(char tag)
{
	static const char *const names[26] = {
		"i8",	 "bool", "char", "f64", "str",	"f32",	NULL,  "u8", "isize",
		"usize", NULL,	 "i32",	 "u32", "i128", "u128", "_",   NULL, NULL,
		"i16",	 "u16",	 "()",	 "...", NULL,	"i64",	"u64", "!",
	};
	return g_ascii_islower(tag) ? names[tag - 'a'] : NULL;
}

static void read_function_type(struct reading *reading)
{
	const unsigned before = read_binder(reading);
	if (take(reading, 'U'))
		append_text(reading, "unsafe ");
	if (take(reading, 'K')) {
		append_text(reading, "extern \"");
		if (take(reading, 'C')) {
			append_text(reading, "C");
		} else {
			const struct identifier abi = read_name(reading);
			for (size_t i = 0; i < abi.size && !reading->has_failed; i++)
				append(reading, abi.text[i] == '_' ? "-" : &abi.text[i], 1);
		}
		append_text(reading, "\" ");
	}
	append_text(reading, "fn(");
	read_list(reading, read_type);
	append_text(reading, ")");
	if (!take(reading, 'u')) {
		append_text(reading, " -> ");
		read_type(reading);
	}
	reading->n_bound = before;
}

/* Reads the path of a trait, and says whether its list of arguments is still open. */
static bool read_open_path(struct reading *reading)
{
	bool is_open = false;
	if (!enter(reading))
		return false;
	if (take(reading, 'B')) {
		const char *after = enter_reference(reading);
		is_open = read_open_path(reading);
		leave_reference(reading, after);
	} else if (take(reading, 'I')) {
		read_path(reading, false);
		append_text(reading, "<");
		read_list(reading, read_generic_argument);
		is_open = true;
	} else {
		read_path(reading, false);
	}
	leave(reading);
	return is_open;
}

static void read_dyn_trait(struct reading *reading)
{
	bool is_open = read_open_path(reading);
	while (take(reading, 'p')) {
		append_text(reading, is_open ? ", " : "<");
		is_open = true;
		const struct identifier name = read_name(reading);
		append_name(reading, &name);
		append_text(reading, " = ");
		read_type(reading);
	}
	if (is_open)
		append_text(reading, ">");
}

static void read_dyn(struct reading *reading)
{
	append_text(reading, "dyn ");
	const unsigned before = read_binder(reading);
	for (bool is_first = true; !reading->has_failed && !take(reading, 'E'); is_first = false) {
		if (!is_first)
			append_text(reading, " + ");
		read_dyn_trait(reading);
	}
	reading->n_bound = before;
	if (!take(reading, 'L'))
		fail(reading);
	const uint64_t lifetime = read_base_62(reading);
	if (lifetime == 0)
		return;
	append_text(reading, " + ");
	append_lifetime(reading, lifetime);
}

static void read_reference_type(struct reading *reading, bool is_mutable)
{
	append_text(reading, "&");
	if (take(reading, 'L')) {
		const uint64_t lifetime = read_base_62(reading);
		if (lifetime != 0) {
			append_lifetime(reading, lifetime);
			append_text(reading, " ");
		}
	}
	if (is_mutable)
		append_text(reading, "mut ");
	read_type(reading);
}

static void read_tuple(struct reading *reading)
{
	unsigned n = 0;
	append_text(reading, "(");
	for (; !reading->has_failed && !take(reading, 'E'); n++) {
		if (n > 0)
			append_text(reading, ", ");
		read_type(reading);
	}
	append_text(reading, n == 1 ? ",)" : ")");
}

static void read_type(struct reading *reading)
{
	if (!enter(reading))
		return;
	const char tag = next(reading);
	const char *basic = name_basic_type(tag);
	switch (tag) {
	case 'A':
	case 'S':
		append_text(reading, "[");
		read_type(reading);
		if (tag == 'A') {
			append_text(reading, "; ");
			read_const(reading);
		}
		append_text(reading, "]");
		break;
	case 'T': read_tuple(reading); break;
	case 'R':
	case 'Q': read_reference_type(reading, tag == 'Q'); break;
	case 'P':
		append_text(reading, "*const ");
		read_type(reading);
		break;
	case 'O':
		append_text(reading, "*mut ");
		read_type(reading);
		break;
	case 'F': read_function_type(reading); break;
	case 'D': read_dyn(reading); break;
	case 'B': {
		const char *after = enter_reference(reading);
		read_type(reading);
		leave_reference(reading, after);
		break;
	}
	default:
		if (basic) {
			append_text(reading, basic);
		} else if (!reading->has_failed) {
			reading->at--;
			read_path(reading, false);
		}
	}
	leave(reading);
}

/* ---- constants -------------------------------------------------------- */

/* Reads hexadecimal digits up to a "_". Returns how many there are, without zeros before them. */
static size_t read_hex(struct reading *reading, const char **digits, uint64_t *value)
{
	*value = 0;
	while (take(reading, '0'))
		;
	*digits = reading->at;
	while (!reading->has_failed && !take(reading, '_')) {
		const char c = next(reading);
		if (!g_ascii_isdigit(c) && !(c >= 'a' && c <= 'f'))
			fail(reading);
		*value = *value << 4 | (uint64_t)(g_ascii_xdigit_value(c) & 15);
	}
	return reading->has_failed ? 0 : (size_t)(reading->at - 1 - *digits);
}

static void read_number_const(struct reading *reading, bool is_signed)
{
	const char *digits;
	uint64_t value;
	if (is_signed && take(reading, 'n'))
		append_text(reading, "-");
	const size_t n = read_hex(reading, &digits, &value);
	if (n > 16) {
		append_text(reading, "0x");
		append(reading, digits, n);
	} else {
		append_number(reading, value);
	}
}

static void read_char_const(struct reading *reading)
{
	const char *digits;
	uint64_t value;
	const size_t n = read_hex(reading, &digits, &value);
	if (n > 8 || !g_unichar_validate((gunichar)value)) {
		fail(reading);
		return;
	}
	g_autofree char *text = value == '\t'	? g_strdup("\\t")
				: value == '\r' ? g_strdup("\\r")
				: value == '\n' ? g_strdup("\\n")
				: value == '\'' ? g_strdup("\\'")
				: value == '\\' ? g_strdup("\\\\")
				: value >= 32 && value < 127
					? g_strdup_printf("%c", (char)value)
					: g_strdup_printf("\\u{%" G_GINT64_MODIFIER "x}", value);
	append_text(reading, "'");
	append_text(reading, text);
	append_text(reading, "'");
}

static void read_const(struct reading *reading)
{
	const char *digits;
	uint64_t value;
	if (!enter(reading))
		return;
	const char tag = next(reading);
	switch (tag) {
	case 'p': append_text(reading, "_"); break;
	case 'h':
	case 't':
	case 'm':
	case 'y':
	case 'o':
	case 'j': read_number_const(reading, false); break;
	case 'a':
	case 's':
	case 'l':
	case 'x':
	case 'n':
	case 'i': read_number_const(reading, true); break;
	case 'b':
		if (read_hex(reading, &digits, &value) > 1 || value > 1)
			fail(reading);
		append_text(reading, value ? "true" : "false");
		break;
	case 'c': read_char_const(reading); break;
	case 'B': {
		const char *after = enter_reference(reading);
		read_const(reading);
		leave_reference(reading, after);
		break;
	}
	default: fail(reading);
	}
	leave(reading);
}

/* ---- names ------------------------------------------------------------ */

/* True if what follows a name may follow it: nothing, or what compilers append, as ".llvm.123". */
static bool is_suffix(const char *text)
{
	return *text == '\0' || *text == '.' || *text == '$';
}

char *vms_demangle_rust(const char *name, size_t limit)
{
	if (strncmp(name, "_R", 2) != 0)
		return NULL;
	struct reading reading = {
		.begin = name + 2,
		.at = name + 2,
		.out = g_string_new(NULL),
		.limit = limit,
	};
	GString *out = reading.out;
	read_path(&reading, true);
	if (!reading.has_failed && g_ascii_isupper(*reading.at)) {
		reading.out = NULL; /* the crate that needed the code */
		read_path(&reading, false);
	}
	if (reading.has_failed || !is_suffix(reading.at)) {
		g_string_free(out, TRUE);
		return NULL;
	}
	return g_string_free(out, FALSE);
}
