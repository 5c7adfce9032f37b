/* SPDX-License-Identifier: MIT */
#include "symbol/demangle.h"
#include "symbol/demangle_rust.h"
#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * The demangler of libstdc++ (cxxabi.h, which is a C++ header). The caller frees the result. NULL
 * for a name that it does not understand.
 */
char *__cxa_demangle(const char *mangled, char *buf, size_t *size, int *status);

#define NAME_LIMIT     1024 /* bytes of a mangled name */
#define OUTPUT_LIMIT   4096 /* bytes of a readable one */
#define REPEATS_LIMIT  32
#define RUST_HASH_SIZE 16 /* hexadecimal digits */

/* ---- Rust ------------------------------------------------------------- */

/* Characters that Rust's legacy names have as $NAME$ (rustc-demangle's README). */
static const struct {
	const char *code, *text;
} rust_codes[] = {
	{ "$LT$", "<" },  { "$GT$", ">" },   { "$RF$", "&" },  { "$BP$", "*" },	 { "$LP$", "(" },
	{ "$RP$", ")" },  { "$C$", "," },    { "$SP$", "@" },  { "$u20$", " " }, { "$u27$", "'" },
	{ "$u5b$", "[" }, { "$u5d$", "]" },  { "$u7b$", "{" }, { "$u7d$", "}" }, { "$u7e$", "~" },
	{ "$u2b$", "+" }, { "$u22$", "\"" }, { "..", "::" },
};

static bool is_rust_hash(const char *text)
{
	return strspn(text, "0123456789abcdef") == RUST_HASH_SIZE;
}

/* True if the name ends in "::h" and the hash that Rust appends. */
static bool has_rust_hash(const GString *name)
{
	const size_t tail = strlen("::h") + RUST_HASH_SIZE;
	if (name->len <= tail || strncmp(name->str + name->len - tail, "::h", 3) != 0)
		return false;
	return is_rust_hash(name->str + name->len - RUST_HASH_SIZE);
}

/*
 * Returns how long the name is without what compilers append to a legacy name of Rust, as
 * ".llvm.123": behind a name that tells no parameters, __cxa_demangle does not take it. Dots are
 * within such names, too: the hash tells where one ends.
 */
static size_t get_size_without_suffix(const char *name)
{
	const size_t tail = strlen("17h") + RUST_HASH_SIZE + strlen("E");
	for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
		const size_t size = (size_t)(dot - name);
		if (size > tail && dot[-1] == 'E' && strncmp(dot - tail, "17h", 3) == 0 &&
		    is_rust_hash(dot - tail + 3))
			return size;
	}
	return strlen(name);
}

static void make_rust_readable(GString *name)
{
	g_string_truncate(name, name->len - strlen("::h") - RUST_HASH_SIZE);
	/* No part of a mangled name may begin with "$". */
	if (strncmp(name->str, "_$", 2) == 0)
		g_string_erase(name, 0, 1);
	g_string_replace(name, "::_$", "::$", 0);
	for (size_t i = 0; i < G_N_ELEMENTS(rust_codes); i++)
		g_string_replace(name, rust_codes[i].code, rust_codes[i].text, 0);
}

/* ---- C++ -------------------------------------------------------------- */

/*
 * True if the name repeats parts of itself often ("S_", "S0_", "T_" …). Each repeat can double the
 * output, so that a short hostile name stands for one that never ends.
 */
static bool repeats_itself(const char *name)
{
	unsigned repeats = 0;
	for (; *name; name++) {
		if (*name != 'S' && *name != 'T')
			continue;
		const char *end =
			name + 1 + strspn(name + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		repeats += *end == '_';
	}
	return repeats > REPEATS_LIMIT;
}

/* Demangles a name of `size` bytes as C++, and as Rust did before its names began with "_R". */
static char *demangle_cxx(const char *name, size_t size, size_t *budget)
{
	int status;
	if (strncmp(name, "_Z", 2) != 0 || repeats_itself(name))
		return NULL;
	g_autofree char *bare = g_strndup(name, get_size_without_suffix(name));
	char *made = __cxa_demangle(bare, NULL, NULL, &status);
	const size_t made_size = made ? strlen(made) : 0;
	*budget -= MIN(*budget, size + made_size);
	GString *text = made_size > 0 && made_size <= OUTPUT_LIMIT ? g_string_new(made) : NULL;
	free(made);
	if (!text)
		return NULL;
	if (has_rust_hash(text))
		make_rust_readable(text);
	return g_string_free(text, FALSE);
}

char *vms_demangle(const char *name, size_t *budget)
{
	const size_t size = strnlen(name, NAME_LIMIT);
	if (size == NAME_LIMIT || *budget < size)
		return NULL;
	if (strncmp(name, "_R", 2) != 0)
		return demangle_cxx(name, size, budget);
	char *text = vms_demangle_rust(name, OUTPUT_LIMIT);
	*budget -= MIN(*budget, size + (text ? strlen(text) : 0));
	return text;
}
