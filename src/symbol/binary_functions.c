/* SPDX-License-Identifier: MIT */
#include "symbol/binary_functions.h"
#include "base/bytes.h"
#include "base/search.h"
#include "base/text.h"
#include "symbol/demangle.h"
#include "symbol/file_table.h"
#include "symbol/go_functions.h"
#include <lzma.h>

#define SYMBOLS_LIMIT	 (UINT64_C(2) << 20) /* of one table */
#define STRINGS_LIMIT	 (UINT64_C(64) << 20)
#define NAMES_LIMIT	 (UINT64_C(128) << 20) /* symbols may share one string */
#define NAME_LIMIT	 4096
#define DYNAMIC_LIMIT	 (64u << 10) /* bytes */
#define BUCKETS_LIMIT	 (1u << 20)
#define CHAIN_LIMIT	 4096	    /* entries with one hash; real ones are a few */
#define PLT_LIMIT	 (4u << 20) /* bytes of one section */
#define DEBUGDATA_LIMIT	 (64u << 20)
#define DEBUGDATA_MEMORY (UINT64_C(128) << 20)
/* What a symbol costs, beside its name: to be looked at, to be named and sorted in, to be kept. */
#define STEPS_OF_SYMBOL	  1
#define STEPS_OF_FUNCTION 24
#define BYTES_OF_FUNCTION 48

struct reading {
	const struct vms_file_source *source;
	const struct vms_elf_image *elf; /* of the file that is mapped: its segments count */
	struct vms_symbol_table *table;
	uint64_t name_bytes;
	size_t demangling; /* budget: see demangle.h */
};

/* A table of symbols in a file, and its strings. */
struct place {
	uint64_t symbols, n_symbols;	/* offset in the file, number */
	uint64_t strings, strings_size; /* offset in the file, bytes */
};

/* ---- functions -------------------------------------------------------- */

static bool is_function(const Elf64_Sym *symbol)
{
	const int type = ELF64_ST_TYPE(symbol->st_info);
	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_name != 0;
}

/* Finds where code at an address (without a bias) is in the file. */
static bool find_code_offset(const struct vms_elf_image *elf, uint64_t address, uint64_t *ret)
{
	for (unsigned i = 0; i < elf->n_segments; i++) {
		const Elf64_Phdr *segment = &elf->segments[i];
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
		    address < segment->p_vaddr || address - segment->p_vaddr >= segment->p_filesz ||
		    address - segment->p_vaddr > UINT64_MAX - segment->p_offset)
			continue;
		*ret = address - segment->p_vaddr + segment->p_offset;
		return true;
	}
	return false;
}

/*
 * Returns what it costs to have made a name readable. C++ costs more for each byte that is made
 * than for one that is read; Rust's own kind costs half as much. What is not readable in the end
 * may have cost the most.
 */
static uint64_t steps_of_demangling(const char *name, size_t length, const char *readable)
{
	const size_t made = readable ? strlen(readable) : 0;
	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R'))
		return length / 8;
	if (!readable)
		return 2 * length;
	return name[1] == 'R' ? length / 2 + made / 4 : length * 3 / 4 + made / 2;
}

/* Pays for a function whose name was made readable, or could not be. */
static bool pay_function(struct reading *reading, const char *name, const char *readable)
{
	struct vms_budget *budget = reading->source->budget;
	const size_t length = strlen(name);
	return vms_budget_step(budget, steps_of_demangling(name, length, readable)) &&
	       vms_budget_take(budget, VMS_BUDGET_BYTES,
			       BYTES_OF_FUNCTION + (readable ? strlen(readable) : length));
}

static void add_function(struct reading *reading, const char *name, uint64_t address, uint64_t size,
			 char type)
{
	uint64_t offset;
	if (reading->name_bytes > NAMES_LIMIT || !find_code_offset(reading->elf, address, &offset))
		return;
	if (!vms_budget_step(reading->source->budget, STEPS_OF_FUNCTION))
		return;
	/* Programs are linked with "fopen@@GLIBC_2.34": the name is what is before the version. */
	const char *version = strstr(name, "@@");
	g_autofree char *own =
		version && version > name ? g_strndup(name, (gsize)(version - name)) : NULL;
	g_autofree char *readable = vms_demangle(own ?: name, &reading->demangling);
	if (!pay_function(reading, name, readable)) {
		reading->name_bytes = NAMES_LIMIT + 1; /* the next ones are not looked at */
		return;
	}
	if (!readable)
		readable = g_strdup(own ?: name);
	vms_text_clean(readable);
	reading->name_bytes += strlen(readable) + 1;
	vms_symbol_table_add(reading->table, readable, offset, size, type);
}

/* Reads bytes, all of them. NULL if any is missing. */
static uint8_t *read_bytes(const struct vms_file_source *source, uint64_t offset, uint64_t size)
{
	if (size == 0 || offset > source->size || size > source->size - offset)
		return NULL;
	g_autofree uint8_t *bytes = g_malloc(size);
	return vms_file_source_read(source, offset, bytes, size) ? g_steal_pointer(&bytes) : NULL;
}

/* True for a name that a programmer does not write: "__libc_pause", which is "pause", too. */
static bool is_internal(const char *name)
{
	return name[0] == '_' && name[1] != 'Z' && name[1] != 'R';
}

/* Adds functions whose names are internal, or those whose names are not; local or not. */
static void add_present_functions(struct reading *reading, const struct vms_file_table *symbols,
				  const struct vms_file_table *strings, bool internal, bool local)
{
	Elf64_Sym symbol;
	for (uint64_t at = 0; at + sizeof(symbol) <= symbols->size &&
			      vms_budget_step(reading->source->budget, STEPS_OF_SYMBOL);
	     at += sizeof(symbol)) {
		memcpy(&symbol, symbols->bytes + at, sizeof(symbol));
		if (!is_function(&symbol) || !vms_file_table_has(symbols, at, sizeof(symbol)))
			continue;
		const char *name = vms_file_table_text(strings, symbol.st_name, NAME_LIMIT);
		const bool is_local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
		if (name && is_local == local && is_internal(name) == internal)
			add_function(reading, name, symbol.st_value, symbol.st_size,
				     is_local ? 't' : 'T');
	}
}

/* ---- labels ----------------------------------------------------------- */

/* The code of a function whose size is known. */
struct body {
	uint64_t begin, end;
};

static int compare_bodies(const void *a, const void *b)
{
	const struct body *x = a, *y = b;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Lists the bodies of all functions, by address. Each ends where those before it end, too. */
static GArray *list_bodies(const struct vms_file_table *symbols, struct vms_budget *budget)
{
	GArray *bodies = g_array_new(FALSE, FALSE, sizeof(struct body));
	Elf64_Sym symbol;
	for (uint64_t at = 0;
	     at + sizeof(symbol) <= symbols->size && vms_budget_step(budget, STEPS_OF_SYMBOL);
	     at += sizeof(symbol)) {
		memcpy(&symbol, symbols->bytes + at, sizeof(symbol));
		const struct body body = { symbol.st_value, symbol.st_value + symbol.st_size };
		if (is_function(&symbol) && body.end > body.begin)
			g_array_append_val(bodies, body);
	}
	g_array_sort(bodies, compare_bodies);
	for (guint i = 1; i < bodies->len; i++) {
		struct body *body = &g_array_index(bodies, struct body, i);
		body->end = MAX(body->end, body[-1].end);
	}
	return bodies;
}

static bool is_in_body(const GArray *bodies, uint64_t address)
{
	const struct body *all = (const struct body *)(const void *)bodies->data;
	const size_t n = VMS_SEARCH(bodies->len, i, all[i].begin <= address);
	return n > 0 && address < all[n - 1].end;
}

/* True for a symbol without a type in a section of code. */
static bool is_label(const Elf64_Sym *symbol, const struct vms_elf_image *elf)
{
	if (ELF64_ST_TYPE(symbol->st_info) != STT_NOTYPE || symbol->st_name == 0 ||
	    symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= elf->n_sections)
		return false;
	const Elf64_Shdr *section = &elf->sections[symbol->st_shndx];
	return (section->sh_flags & SHF_EXECINSTR) && symbol->st_value >= section->sh_addr &&
	       symbol->st_value - section->sh_addr < section->sh_size;
}

/* True for "$x", which marks code on aarch64, and ".L1" and "memcpy.loop", places in functions. */
static bool is_inner_name(const char *name, bool is_local)
{
	return name[0] == '$' || name[0] == '.' || (is_local && strchr(name, '.'));
}

/*
 * Adds functions that have no type, because assembler code gives it to none unless it says so. A
 * label within another function is none.
 */
static void add_labels(struct reading *reading, const struct vms_elf_image *elf,
		       const struct vms_file_table *symbols, const struct vms_file_table *strings)
{
	struct vms_budget *budget = reading->source->budget;
	g_autoptr(GArray) bodies = list_bodies(symbols, budget);
	Elf64_Sym symbol;
	for (uint64_t at = 0;
	     at + sizeof(symbol) <= symbols->size && vms_budget_step(budget, STEPS_OF_SYMBOL);
	     at += sizeof(symbol)) {
		memcpy(&symbol, symbols->bytes + at, sizeof(symbol));
		if (!is_label(&symbol, elf) || !vms_file_table_has(symbols, at, sizeof(symbol)) ||
		    is_in_body(bodies, symbol.st_value))
			continue;
		const char *name = vms_file_table_text(strings, symbol.st_name, NAME_LIMIT);
		const bool is_local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
		if (name && !is_inner_name(name, is_local))
			add_function(reading, name, symbol.st_value, symbol.st_size,
				     is_local ? 't' : 'T');
	}
}

/* ---- a whole table ---------------------------------------------------- */

/*
 * Adds the functions of a table of `elf`, whose bytes `source` has. False if a part of it is
 * missing.
 */
static bool add_functions(struct reading *reading, const struct vms_file_source *source,
			  const struct vms_elf_image *elf, const struct place *place)
{
	struct vms_file_table symbols, strings;
	if (place->n_symbols > SYMBOLS_LIMIT || place->strings_size > STRINGS_LIMIT)
		return false;
	vms_file_table_read(source, place->symbols, place->n_symbols * sizeof(Elf64_Sym), &symbols);
	vms_file_table_read(source, place->strings, place->strings_size, &strings);
	/* Of several names of one function, the table gives the first. Tools add local names. */
	for (unsigned i = 0; i < 4 && symbols.bytes && strings.bytes; i++)
		add_present_functions(reading, &symbols, &strings, i & 2, i & 1);
	if (symbols.is_whole && strings.bytes)
		add_labels(reading, elf, &symbols, &strings);
	const bool is_whole = symbols.is_whole && strings.is_whole;
	vms_file_table_clear(&symbols);
	vms_file_table_clear(&strings);
	return is_whole;
}

/* ---- .symtab, .gnu_debugdata ------------------------------------------ */

static bool find_symtab(const struct vms_elf_image *elf, struct place *ret)
{
	for (unsigned i = 0; i < elf->n_sections; i++) {
		const Elf64_Shdr *symbols = &elf->sections[i];
		if (symbols->sh_type != SHT_SYMTAB || symbols->sh_link >= elf->n_sections)
			continue;
		const Elf64_Shdr *strings = &elf->sections[symbols->sh_link];
		*ret = (struct place) { symbols->sh_offset, symbols->sh_size / sizeof(Elf64_Sym),
					strings->sh_offset, strings->sh_size };
		return true;
	}
	return false;
}

static bool add_symtab(struct reading *reading, const struct vms_file_source *source,
		       const struct vms_elf_image *elf)
{
	struct place place;
	return find_symtab(elf, &place) && add_functions(reading, source, elf, &place);
}

/* Decompresses until the end of the stream. Each piece is paid for. False if it is not all of it.
 */
static bool unpack(lzma_stream *stream, size_t size, size_t limit, struct vms_budget *budget)
{
	lzma_ret result = LZMA_OK;
	while (result == LZMA_OK) {
		const uint64_t before = stream->total_in + stream->total_out;
		const uint64_t begin_ns = vms_budget_thread_ns();
		stream->avail_in = MIN(VMS_DECOMPRESS_PIECE, size - stream->total_in);
		stream->avail_out = MIN(VMS_DECOMPRESS_PIECE, limit - stream->total_out);
		result = lzma_code(stream, LZMA_RUN);
		const uint64_t n = stream->total_in + stream->total_out - before;
		if (!vms_budget_step_decompressed(budget, n, vms_budget_thread_ns() - begin_ns))
			return false;
	}
	return result == LZMA_STREAM_END; /* LZMA_BUF_ERROR: nothing more comes, or fits */
}

/* Decompresses .gnu_debugdata: a file of its own, with the symbols that were stripped. */
static uint8_t *read_debugdata(const struct reading *reading, size_t *size)
{
	const Elf64_Shdr *section = vms_elf_image_section(reading->elf, ".gnu_debugdata");
	lzma_stream stream = LZMA_STREAM_INIT;
	if (!section || section->sh_type == SHT_NOBITS || section->sh_size > DEBUGDATA_LIMIT)
		return NULL;
	g_autofree uint8_t *packed =
		read_bytes(reading->source, section->sh_offset, section->sh_size);
	if (!packed || lzma_stream_decoder(&stream, DEBUGDATA_MEMORY, 0) != LZMA_OK)
		return NULL;
	uint8_t *bytes = g_malloc(DEBUGDATA_LIMIT); /* pages that are not used cost nothing */
	stream.next_in = packed;
	stream.next_out = bytes;
	const bool is_done =
		unpack(&stream, section->sh_size, DEBUGDATA_LIMIT, reading->source->budget);
	*size = stream.total_out;
	lzma_end(&stream);
	if (is_done)
		return g_realloc(bytes, *size + 1);
	g_free(bytes);
	return NULL;
}

static void add_debugdata(struct reading *reading)
{
	size_t size;
	uint8_t *bytes = read_debugdata(reading, &size);
	struct vms_elf_image elf;
	if (!bytes)
		return;
	struct vms_file_source source = vms_file_source_of_memory(bytes, size);
	source.budget = reading->source->budget;
	if (vms_elf_image_read(&source, &elf, NULL))
		add_symtab(reading, &source, &elf);
	vms_elf_image_clear(&elf);
	vms_file_source_clear(&source);
}

static void add_go_function(const char *name, uint64_t address, uint64_t size, void *data)
{
	add_function(data, name, address, size, 't');
}

/* ---- symbols for dynamic linking -------------------------------------- */

/* What the dynamic section says, as offsets in the file; 0 if it does not. */
struct dynamic {
	uint64_t symbols, strings, strings_size, hash, gnu_hash, plt_relocations, plt_size;
	uint64_t relocations, relocations_size;
};

static void read_dynamic_entry(const struct vms_elf_image *elf, const Elf64_Dyn *entry,
			       struct dynamic *dynamic)
{
	uint64_t *to = NULL;
	switch (entry->d_tag) {
	case DT_STRSZ: dynamic->strings_size = entry->d_un.d_val; return;
	case DT_PLTRELSZ: dynamic->plt_size = entry->d_un.d_val; return;
	case DT_RELASZ: dynamic->relocations_size = entry->d_un.d_val; return;
	case DT_SYMTAB: to = &dynamic->symbols; break;
	case DT_STRTAB: to = &dynamic->strings; break;
	case DT_HASH: to = &dynamic->hash; break;
	case DT_GNU_HASH: to = &dynamic->gnu_hash; break;
	case DT_JMPREL: to = &dynamic->plt_relocations; break;
	case DT_RELA: to = &dynamic->relocations; break;
	default: return;
	}
	if (!vms_elf_image_offset(elf, entry->d_un.d_ptr, to))
		*to = 0;
}

static bool read_dynamic(const struct reading *reading, struct dynamic *ret)
{
	const Elf64_Phdr *segment = vms_elf_image_segment(reading->elf, PT_DYNAMIC);
	*ret = (struct dynamic) { 0 };
	if (!segment || segment->p_filesz > DYNAMIC_LIMIT)
		return false;
	g_autofree uint8_t *bytes =
		read_bytes(reading->source, segment->p_offset, segment->p_filesz);
	for (uint64_t at = 0; bytes && at + sizeof(Elf64_Dyn) <= segment->p_filesz;
	     at += sizeof(Elf64_Dyn)) {
		Elf64_Dyn entry;
		memcpy(&entry, bytes + at, sizeof(entry));
		if (entry.d_tag == DT_NULL)
			break;
		read_dynamic_entry(reading->elf, &entry, ret);
	}
	return ret->symbols && ret->strings && ret->strings_size;
}

static bool read_u32(const struct vms_file_source *source, uint64_t offset, uint32_t *ret)
{
	return vms_file_source_read(source, offset, ret, sizeof(*ret));
}

/* Finds the last symbol of the highest bucket: its chain ends with an entry whose bit 0 is set. */
static uint64_t count_by_gnu_hash(const struct vms_file_source *source, uint64_t at)
{
	uint32_t header[4], chain = 0; /* buckets, first symbol, words of the filter, shift */
	if (!vms_file_source_read(source, at, header, sizeof(header)) || header[0] > BUCKETS_LIMIT)
		return 0;
	const uint64_t buckets = at + sizeof(header) + (uint64_t)header[2] * sizeof(uint64_t);
	const uint64_t chains = buckets + (uint64_t)header[0] * sizeof(uint32_t);
	g_autofree uint8_t *bytes =
		read_bytes(source, buckets, (uint64_t)header[0] * sizeof(uint32_t));
	uint32_t last = 0, first;
	for (uint32_t i = 0; bytes && i < header[0] && vms_budget_step(source->budget, 1); i++) {
		memcpy(&first, bytes + i * sizeof(first), sizeof(first));
		last = MAX(last, first);
	}
	if (last < header[1])
		return header[1];
	for (unsigned i = 0; i < CHAIN_LIMIT; i++, last++) {
		if (!read_u32(source, chains + ((uint64_t)last - header[1]) * sizeof(chain),
			      &chain))
			return last;
		if (chain & 1)
			return (uint64_t)last + 1;
	}
	return last;
}

static uint64_t count_symbols(const struct vms_file_source *source, const struct dynamic *dynamic)
{
	uint32_t n = 0;
	if (dynamic->hash && read_u32(source, dynamic->hash + sizeof(n), &n))
		return n;
	return dynamic->gnu_hash ? count_by_gnu_hash(source, dynamic->gnu_hash) : 0;
}

/* ---- entries of the PLT ----------------------------------------------- */

/* A slot of the GOT that an entry of the PLT jumps by, and the symbol whose address it gets. */
struct slot {
	uint64_t address;
	uint32_t symbol;
};

static int compare_slots(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;
	return x->address < y->address ? -1 : x->address > y->address;
}

static void list_slots(const struct vms_file_source *source, uint64_t offset, uint64_t size,
		       GArray *slots)
{
	if (offset == 0 || size / sizeof(Elf64_Rela) > SYMBOLS_LIMIT)
		return;
	g_autofree uint8_t *bytes = read_bytes(source, offset, size);
	for (uint64_t i = 0; bytes && i < size / sizeof(Elf64_Rela) &&
			     vms_budget_step(source->budget, STEPS_OF_SYMBOL);
	     i++) {
		Elf64_Rela relocation;
		memcpy(&relocation, bytes + i * sizeof(relocation), sizeof(relocation));
		const struct slot slot = { relocation.r_offset,
					   (uint32_t)ELF64_R_SYM(relocation.r_info) };
		if (slot.symbol != 0)
			g_array_append_val(slots, slot);
	}
}

/* True if there is `jmp *slot(%rip)` at `at` of x86-64 code, perhaps with a bnd prefix. */
static bool decode_x86_jump(struct vms_bytes code, uint64_t at, uint64_t address, uint64_t *slot)
{
	uint16_t opcode;
	uint32_t distance;
	if (!vms_bytes_u16(code, at, &opcode) || opcode != 0x25ff ||
	    !vms_bytes_u32(code, at + 2, &distance))
		return false;
	*slot = address + at + 6 + (uint64_t)(int64_t)(int32_t)distance;
	return true;
}

/* True if there is `adrp x16, page; ldr x17, [x16, offset]` at `at` of aarch64 code. */
static bool decode_aarch64_jump(struct vms_bytes code, uint64_t at, uint64_t address,
				uint64_t *slot)
{
	uint32_t adrp, ldr;
	if (at % 4 != 0 || !vms_bytes_u32(code, at, &adrp) || !vms_bytes_u32(code, at + 4, &ldr) ||
	    (adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
		return false;
	const int64_t pages =
		(int64_t)((uint64_t)(adrp >> 5 & 0x7ffff) << 45) >> 43 | (int64_t)(adrp >> 29 & 3);
	*slot = ((address + at) & ~UINT64_C(0xfff)) + ((uint64_t)pages << 12) +
		(uint64_t)(ldr >> 10 & 0xfff) * 8;
	return true;
}

/* Reads a name, of whose bytes those behind its end may be missing. */
static bool read_name(const struct vms_file_source *source, uint64_t offset, uint64_t size,
		      char ret[NAME_LIMIT])
{
	const size_t most = MIN(size, NAME_LIMIT - 1);
	size_t n = 0;
	while (n < most) {
		const size_t part = MIN(most - n, VMS_FILE_BLOCK - (offset + n) % VMS_FILE_BLOCK);
		if (!vms_file_source_read(source, offset + n, ret + n, part))
			return false;
		if (memchr(ret + n, '\0', part))
			return ret[0] != '\0';
		n += part;
	}
	ret[n] = '\0';
	return n > 0;
}

/* Names an entry of the PLT by the slot that it jumps by. True if that is one of `slots`. */
static bool add_plt_entry(struct reading *reading, const struct place *place, const GArray *slots,
			  uint64_t slot_address, uint64_t address, uint64_t size)
{
	const struct slot wanted = { .address = slot_address };
	char name[NAME_LIMIT];
	Elf64_Sym symbol;
	guint i;
	if (!g_array_binary_search((GArray *)slots, &wanted, compare_slots, &i))
		return false;
	const uint32_t number = g_array_index(slots, struct slot, i).symbol;
	if (number < place->n_symbols &&
	    vms_file_source_read(reading->source, place->symbols + number * sizeof(symbol), &symbol,
				 sizeof(symbol)) &&
	    symbol.st_name < place->strings_size &&
	    read_name(reading->source, place->strings + symbol.st_name,
		      place->strings_size - symbol.st_name, name)) {
		g_autofree char *readable = vms_demangle(name, &reading->demangling);
		g_autofree char *entry = g_strconcat(readable ?: name, "@plt", NULL);
		add_function(reading, entry, address, size, 't');
	}
	return true;
}

static void add_plt_section(struct reading *reading, const struct place *place, const GArray *slots,
			    const char *name)
{
	const Elf64_Shdr *section = vms_elf_image_section(reading->elf, name);
	const bool is_x86 = reading->elf->machine == EM_X86_64;
	if (!section || section->sh_type != SHT_PROGBITS || section->sh_size > PLT_LIMIT)
		return;
	const uint64_t step = section->sh_entsize == 8 ? 8 : 16;
	guint left = slots->len; /* a section jumps by each slot once */
	g_autofree uint8_t *bytes =
		read_bytes(reading->source, section->sh_offset, section->sh_size);
	const struct vms_bytes code = { bytes, bytes ? section->sh_size : 0,
					reading->source->budget };
	for (uint64_t at = 0; at < code.size && left > 0 && vms_budget_step(code.budget, 1);
	     at += is_x86 ? 1 : 4) {
		uint64_t slot = 0;
		if (!(is_x86 ? decode_x86_jump : decode_aarch64_jump)(code, at, section->sh_addr,
								      &slot))
			continue;
		/* On x86-64 an entry may begin with endbr64 or a push. */
		const uint64_t begin = is_x86 ? at / step * step : at;
		left -= add_plt_entry(reading, place, slots, slot, section->sh_addr + begin, step);
	}
}

static void add_plt(struct reading *reading, const struct dynamic *dynamic,
		    const struct place *place)
{
	static const char *const sections[] = { ".plt", ".plt.sec", ".plt.got" };
	g_autoptr(GArray) slots = g_array_new(FALSE, FALSE, sizeof(struct slot));
	list_slots(reading->source, dynamic->plt_relocations, dynamic->plt_size, slots);
	list_slots(reading->source, dynamic->relocations, dynamic->relocations_size, slots);
	g_array_sort(slots, compare_slots);
	for (size_t i = 0; i < G_N_ELEMENTS(sections); i++)
		add_plt_section(reading, place, slots, sections[i]);
}

/* ---- all of them ------------------------------------------------------ */

static uint64_t add_bounds(const struct vms_elf_image *elf, struct vms_symbol_table *table)
{
	uint64_t end = 0;
	for (unsigned i = 0; i < elf->n_segments; i++) {
		const Elf64_Phdr *segment = &elf->segments[i];
		const uint64_t segment_end = segment->p_offset + segment->p_filesz;
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
		    segment_end < segment->p_offset)
			continue;
		vms_symbol_table_add_bound(table, segment->p_offset);
		vms_symbol_table_add_bound(table, segment_end);
		end = MAX(end, segment_end);
	}
	for (unsigned i = 0; i < elf->n_sections; i++) {
		const Elf64_Shdr *section = &elf->sections[i];
		if (!(section->sh_flags & SHF_EXECINSTR) || section->sh_type == SHT_NOBITS)
			continue;
		vms_symbol_table_add_bound(table, section->sh_offset);
		vms_symbol_table_add_bound(table, section->sh_offset + section->sh_size);
	}
	return end;
}

bool vms_has_all_functions(const struct vms_file_source *source, const struct vms_elf_image *elf)
{
	struct place place;
	if (!find_symtab(elf, &place) || place.n_symbols > SYMBOLS_LIMIT ||
	    place.strings_size > STRINGS_LIMIT)
		return false;
	g_autofree uint8_t *symbols =
		read_bytes(source, place.symbols, place.n_symbols * sizeof(Elf64_Sym));
	g_autofree uint8_t *strings = read_bytes(source, place.strings, place.strings_size);
	return symbols && strings;
}

struct vms_symbol_table *vms_read_functions(const struct vms_file_source *source,
					    const struct vms_elf_image *elf,
					    const struct vms_separate_symbols *separate,
					    const char *module)
{
	struct reading reading = { source, elf, vms_symbol_table_new(module), 0, NAMES_LIMIT };
	struct dynamic dynamic;
	const bool has_all = separate ? add_symtab(&reading, &separate->source, &separate->elf)
				      : add_symtab(&reading, source, elf);
	if (!has_all) {
		add_debugdata(&reading);
		vms_go_functions_each(source, elf, add_go_function, &reading);
	}
	if (read_dynamic(&reading, &dynamic)) {
		const struct place place = { dynamic.symbols, count_symbols(source, &dynamic),
					     dynamic.strings, dynamic.strings_size };
		if (!has_all)
			add_functions(&reading, source, elf, &place);
		add_plt(&reading, &dynamic, &place);
	}
	vms_symbol_table_finish(reading.table, add_bounds(elf, reading.table));
	return reading.table;
}
