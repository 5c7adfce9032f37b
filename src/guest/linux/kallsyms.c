/* SPDX-License-Identifier: MIT */
/*
 * kallsyms are arrays that the kernel's scripts/kallsyms.c writes. Their order and some types of
 * elements depend on the version (the lines below: before 6.4, from 6.4, from 6.9; seqs_of_names
 * exists from 6.1.42 and 6.2 on):
 *
 *   [addresses, [relative_base]] num_syms names markers [seqs_of_names] token_table token_index
 *   num_syms names markers [seqs_of_names] token_table token_index addresses [relative_base]
 *   num_syms names markers token_table token_index addresses [relative_base] seqs_of_names
 *
 * The parser does not ask for the version. token_table and token_index describe each other, which
 * distinguishes them from anything else. markers has the offset of each 256th name in names; this
 * finds and checks both. num_syms has to fit. The addresses must ascend and put _stext into the
 * image.
 */
#include "guest/linux/kallsyms.h"

#define N_TOKENS	 256
#define NAMES_PER_MARK	 256
#define NAME_LIMIT	 512 /* KSYM_NAME_LEN, from 6.1 on */
#define ENTRY_LIMIT	 (NAME_LIMIT + 2)
#define PAGE		 4096
#define SYMBOLS_LIMIT	 (1u << 21)
#define NAME_BYTES_LIMIT (64u << 20) /* of all names, decoded */
/* Largest number of elementary steps of a search. A kernel needs a hundredth of it. */
#define WORK_LIMIT (UINT64_C(1) << 28)

struct search {
	struct vms_bytes image;
	uint64_t image_va;
	uint64_t work; /* steps left */

	size_t tokens, token_index, after_tokens; /* offsets in the image */
	const char *token[N_TOKENS];

	size_t num_syms, names, markers;
	size_t mark_bytes; /* of one marker: 8 before 4.20, then 4 */
	uint32_t n;	   /* number of symbols */
};

/* Takes steps off the work that is left. False if there are not so many. */
static bool spend_steps(struct search *search, uint64_t steps)
{
	bool left = search->work >= steps;
	search->work -= left ? steps : search->work;
	return left;
}

static size_t align_up(size_t value, size_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* ---- token_table and token_index -------------------------------------- */

/* True if token_index lies at `index` and describes the strings before it. Sets the tokens. */
static bool check_token_index(struct search *search, size_t digits, size_t index)
{
	struct vms_bytes image = search->image;
	uint16_t offset;
	if (!vms_bytes_u16(image, index + 2 * '0', &offset) || offset > digits)
		return false;
	search->tokens = digits - offset;
	size_t at = search->tokens;
	for (unsigned i = 0; i < N_TOKENS; i++) {
		if (!vms_bytes_u16(image, index + 2 * i, &offset) || search->tokens + offset != at)
			return false;
		search->token[i] = (const char *)image.data + at;
		/* No symbol has unprintable bytes, and none may reach a terminal. */
		size_t end = at;
		while (end < index && g_ascii_isgraph(image.data[end]))
			end++;
		if (!spend_steps(search, end + 1 - at) || end >= index || image.data[end] != 0)
			return false;
		at = end + 1;
	}
	search->token_index = index;
	search->after_tokens = index + 2 * N_TOKENS;
	return index - at < 8;
}

/*
 * Finds token_table around `digits`, where the tokens "0" to "9" are: each character that occurs in
 * symbols is its own token.
 */
static bool find_token_table(struct search *search, size_t digits)
{
	struct vms_bytes image = search->image;
	size_t end = digits;
	for (unsigned i = '0'; i < N_TOKENS; i++) {
		size_t left = MIN(image.size - end, NAME_LIMIT);
		const uint8_t *nul = memchr(image.data + end, 0, left);
		if (!nul)
			return false;
		if (!spend_steps(search, (size_t)(nul - image.data) + 1 - end))
			return false;
		end = (size_t)(nul - image.data) + 1;
	}
	for (size_t alignment = 2; alignment <= 8; alignment *= 2)
		if (check_token_index(search, digits, align_up(end, alignment)))
			return true;
	return false;
}

/* ---- markers, num_syms and names -------------------------------------- */

static bool get_marker(const struct search *search, size_t i, uint64_t *ret)
{
	uint32_t low = 0, high = 0;
	size_t at = search->markers + i * search->mark_bytes;
	bool ok = vms_bytes_u32(search->image, at, &low) &&
		  (search->mark_bytes == 4 || vms_bytes_u32(search->image, at + 4, &high));
	*ret = low | (uint64_t)high << 32;
	return ok;
}

/* True if there may be `n` markers: each is as far behind the one before as 256 names can be. */
static bool check_markers(struct search *search, size_t n)
{
	uint64_t last, next;
	if (!get_marker(search, 0, &last) || last != 0)
		return false;
	for (size_t i = 1; i < n; i++, last = next) {
		if (!spend_steps(search, 1) || !get_marker(search, i, &next) ||
		    next < last + 2 * NAMES_PER_MARK || next > last + ENTRY_LIMIT * NAMES_PER_MARK)
			return false;
	}
	return true;
}

/*
 * Reads the compressed name at `*at`, and moves `*at` behind it. The names lie one behind the
 * other:
 *
 *     length   number of tokens, one byte; since 6.1 two bytes if bit 7 is set: the low seven bits,
 *              then the rest (73bbb94466fd "kallsyms: support big kernel symbols")
 *     tokens   one byte each; it is an index into kallsyms_token_index, which says where in
 *              kallsyms_token_table the token's text begins
 *
 * The texts of the tokens, one after the other, are the symbol's type (one letter, as of nm) and
 * its name. scripts/kallsyms.c of Linux chose the 256 most frequent texts as tokens.
 */
static bool read_name(struct search *search, size_t *at, struct vms_bytes *ret)
{
	uint8_t low, high = 0;
	if (!spend_steps(search, 1) || !vms_bytes_u8(search->image, (*at)++, &low))
		return false;
	if (low & 0x80 && !vms_bytes_u8(search->image, (*at)++, &high))
		return false;
	ret->size = (low & 0x7f) | (size_t)high << 7;
	if (ret->size < 1 || ret->size > NAME_LIMIT ||
	    !vms_bytes_has(search->image, *at, ret->size))
		return false;
	ret->data = search->image.data + *at;
	*at += ret->size;
	return true;
}

/* True if the names agree with the markers, and end where the markers begin. */
static bool check_names(struct search *search)
{
	size_t at = search->names;
	for (uint32_t i = 0; i < search->n; i++) {
		uint64_t mark;
		struct vms_bytes name;
		if (i % NAMES_PER_MARK == 0 &&
		    (!get_marker(search, i / NAMES_PER_MARK, &mark) || search->names + mark != at))
			return false;
		if (!read_name(search, &at, &name))
			return false;
	}
	return at <= search->markers && search->markers - at < 8;
}

/* True if num_syms is just before `names`, and has a value that needs `n_marks` markers. */
static bool check_num_syms(struct search *search, size_t n_marks)
{
	for (size_t bytes = 4; bytes <= 8; bytes += 4) {
		uint32_t n, high = 0;
		if (search->names < bytes ||
		    !vms_bytes_u32(search->image, search->names - bytes, &n) ||
		    (bytes == 8 && !vms_bytes_u32(search->image, search->names - 4, &high)))
			continue;
		if (high == 0 && n <= SYMBOLS_LIMIT && n > (n_marks - 1) * NAMES_PER_MARK &&
		    n <= n_marks * NAMES_PER_MARK) {
			search->n = n;
			search->num_syms = search->names - bytes;
			return true;
		}
	}
	return false;
}

/* True if token_table follows the markers, directly or after seqs_of_names. */
static bool check_end(const struct search *search, size_t n_marks)
{
	size_t end = search->markers + n_marks * search->mark_bytes;
	size_t seqs_end = align_up(end, 4) + 3 * (size_t)search->n;
	return search->tokens - end < 8 ||
	       (seqs_end <= search->tokens && search->tokens - seqs_end < 12);
}

/* Finds names for `n_marks` markers. The last marker and the size of 256 names limit the search. */
static bool find_names(struct search *search, size_t n_marks)
{
	uint64_t last;
	if (!check_markers(search, n_marks) || !get_marker(search, n_marks - 1, &last) ||
	    last >= search->markers)
		return false;
	size_t high = (search->markers - last) & ~(size_t)3;
	size_t reach = MIN(high, ENTRY_LIMIT * NAMES_PER_MARK + 8);
	for (size_t back = 0; back <= reach; back += 4) {
		search->names = high - back;
		if (!spend_steps(search, 1))
			return false;
		if (check_num_syms(search, n_marks) && check_end(search, n_marks) &&
		    check_names(search))
			return true;
	}
	return false;
}

/* Tries the two numbers of markers that fit between search->markers and token_table. */
static bool find_names_by_span(struct search *search, size_t per_mark)
{
	size_t most = (search->tokens - search->markers + per_mark - 1) / per_mark;
	for (size_t n_marks = most; n_marks + 2 > most && n_marks >= 2; n_marks--)
		if (find_names(search, n_marks))
			return true;
	return false;
}

static bool find_markers(struct search *search)
{
	size_t farthest = (size_t)SYMBOLS_LIMIT * 4;
	size_t first = search->tokens > farthest ? search->tokens - farthest : 0;
	for (size_t at = search->tokens & ~(size_t)3; at >= first + 8; at -= 4) {
		search->markers = at - 4;
		if (!spend_steps(search, 1))
			return false;
		for (search->mark_bytes = 4; search->mark_bytes <= 8; search->mark_bytes += 4) {
			if (!check_markers(search, 2))
				continue;
			/* First without seqs_of_names, then with its 3 bytes per symbol. */
			if (find_names_by_span(search, search->mark_bytes) ||
			    find_names_by_span(search, search->mark_bytes + 3 * NAMES_PER_MARK))
				return true;
		}
	}
	return false;
}

/* ---- addresses -------------------------------------------------------- */

enum address_kind {
	ADDRESS_BASE_RELATIVE,	 /* u32 from relative_base; 4.6 and later */
	ADDRESS_ABSOLUTE_PERCPU, /* s32: absolute, or if negative, down from relative_base */
	ADDRESS_PLACE_RELATIVE,	 /* s32 from its own address; 7.0 and later */
	ADDRESS_ABSOLUTE,	 /* words; before 6.11, by configuration */
	N_ADDRESS_KINDS
};

struct addresses {
	enum address_kind kind;
	size_t at;     /* offset in the image */
	uint64_t base; /* the value of relative_base */
};

static bool get_address(const struct search *search, const struct addresses *addresses, uint32_t i,
			uint64_t *ret)
{
	uint32_t value;
	if (addresses->kind == ADDRESS_ABSOLUTE)
		return vms_bytes_u64(search->image, addresses->at + 8 * (size_t)i, ret);
	size_t at = addresses->at + 4 * (size_t)i;
	if (!vms_bytes_u32(search->image, at, &value))
		return false;
	int64_t offset = (int32_t)value;
	if (addresses->kind == ADDRESS_PLACE_RELATIVE)
		*ret = search->image_va + at + (uint64_t)offset;
	else if (addresses->kind == ADDRESS_BASE_RELATIVE)
		*ret = addresses->base + value;
	else
		*ret = offset >= 0 ? (uint64_t)offset : addresses->base - 1 - (uint64_t)offset;
	return true;
}

/* True if the addresses ascend. They must, as the kernel finds them by bisection. */
static bool check_addresses(struct search *search, const struct addresses *addresses)
{
	uint64_t first = 0, last = 0, next;
	for (uint32_t i = 0; i < search->n; i++, last = next) {
		if (!spend_steps(search, 1) || !get_address(search, addresses, i, &next) ||
		    next < last)
			return false;
		if (i == 0)
			first = next;
	}
	return last > first;
}

static bool expand_name(const struct search *search, struct vms_bytes name, char *buf)
{
	size_t used = 0;
	for (size_t i = 0; i < name.size; i++) {
		const char *token = search->token[name.data[i]];
		while (*token) {
			if (used == NAME_LIMIT)
				return false;
			buf[used++] = *token++;
		}
	}
	buf[used] = '\0';
	return used >= 2; /* the type and a name */
}

/* True if `name` is where code can begin: at a page in the image. */
static bool begins_code(const struct search *search, const struct vms_symbol_table *table,
			const char *name)
{
	struct vms_symbol symbol;
	return vms_symbol_table_lookup(table, name, &symbol) && symbol.va % PAGE == 0 &&
	       symbol.va - search->image_va < search->image.size;
}

static struct vms_symbol_table *decode_table(struct search *search,
					     const struct addresses *addresses)
{
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("vmlinux");
	size_t at = search->names, name_bytes = 0;
	for (uint32_t i = 0; i < search->n; i++) {
		struct vms_bytes name;
		char text[NAME_LIMIT + 1];
		uint64_t va;
		if (!read_name(search, &at, &name) || !expand_name(search, name, text) ||
		    !get_address(search, addresses, i, &va))
			return NULL;
		name_bytes += strlen(text);
		if (name_bytes > NAME_BYTES_LIMIT || !spend_steps(search, strlen(text)))
			return NULL;
		vms_symbol_table_add(table, text + 1, va, 0, text[0]);
	}
	vms_symbol_table_finish(table, search->image_va + search->image.size);
	if (!begins_code(search, table, "_stext") && !begins_code(search, table, "_text"))
		return NULL;
	return g_steal_pointer(&table);
}

static bool has_relative_base(enum address_kind kind)
{
	return kind == ADDRESS_BASE_RELATIVE || kind == ADDRESS_ABSOLUTE_PERCPU;
}

static struct vms_symbol_table *try_addresses(struct search *search, enum address_kind kind,
					      size_t at, size_t base_at)
{
	struct addresses addresses = { .kind = kind, .at = at };
	if (has_relative_base(kind) && !vms_bytes_u64(search->image, base_at, &addresses.base))
		return NULL;
	return check_addresses(search, &addresses) ? decode_table(search, &addresses) : NULL;
}

/* Tries each kind of address at each place that an order has. Tables are aligned to 4 or 8. */
static struct vms_symbol_table *find_addresses(struct search *search)
{
	for (enum address_kind kind = 0; kind < N_ADDRESS_KINDS; kind++) {
		size_t bytes = (kind == ADDRESS_ABSOLUTE ? 8 : 4) * (size_t)search->n;
		for (size_t alignment = 4; alignment <= 8; alignment *= 2) {
			size_t after = align_up(search->after_tokens, alignment);
			size_t base = align_up(after + bytes, alignment);
			struct vms_symbol_table *table = try_addresses(search, kind, after, base);
			if (table)
				return table;
			base = search->num_syms - 8;
			size_t end = has_relative_base(kind) ? base : search->num_syms;
			if (search->num_syms < 8 || end < bytes)
				continue;
			table = try_addresses(search, kind, (end - bytes) & ~(alignment - 1), base);
			if (table)
				return table;
		}
	}
	return NULL;
}

struct vms_symbol_table *vms_kallsyms_parse(struct vms_bytes image, uint64_t image_va,
					    GError **error)
{
	static const char digits[] = "0\0001\0002\0003\0004\0005\0006\0007\0008\0009";
	struct search search = { .image = image, .image_va = image_va, .work = WORK_LIMIT };
	const uint8_t *from = image.data, *end = image.data + image.size, *hit;
	while (search.work > 0 &&
	       (hit = memmem(from, (size_t)(end - from), digits, sizeof(digits)))) {
		from = hit + 1;
		if (!find_token_table(&search, (size_t)(hit - image.data)) ||
		    !find_markers(&search))
			continue;
		struct vms_symbol_table *table = find_addresses(&search);
		if (table)
			return table;
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
		    "no kernel symbols in the %zu bytes of the kernel at 0x%" G_GINT64_MODIFIER
		    "x: %s",
		    image.size, image_va,
		    search.work ? "it carries no kallsyms" : "too many things look like kallsyms");
	return NULL;
}
