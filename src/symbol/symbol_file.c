/* SPDX-License-Identifier: MIT */
/*
 * Reads symbols (by libelf) and source lines (by libdw) from ELF files. The lines are opened when
 * they are first asked for. No file is mapped: its owner may cut it at any time.
 */
#include <vmscope/symbol.h>

#include "base/foreign_file.h"
#include "symbol/lines.h"
#include "symbol/symbol_file.h"

#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

/* Largest sum of the sizes of all names. Symbols may share one string, so the file's size does not
 * limit the sum. */
#define NAME_BYTES_LIMIT (UINT64_C(512) << 20)
/* Largest number of segments with code. Real files have one or two. */
#define CODE_LIMIT 64
/* What a symbol costs, beside its name. */
#define STEPS_OF_SYMBOL 4
#define BYTES_OF_SYMBOL 40

struct vms_symbol_file {
	char *path;
	char *module; /* the file's name, without folders */
	int fd;
	Elf *elf;
	struct vms_budget *budget;	/* NULL: the user has named the file */
	uint64_t kept;			/* bytes of the budget */
	uint64_t base, end;		/* bounds of the loaded segments, as the file has them */
	uint64_t bias;			/* is added to the file's addresses */
	struct vms_symbol_table *table; /* its addresses include the bias */
	GMutex lock;			/* guards all that follows: libdw is not thread-safe */
	bool has_sought_lines;
	Dwarf *dwarf; /* NULL: lines were not asked for, or the file has none */
};

/* ---- symbols ---------------------------------------------------------- */

static Elf_Scn *find_section(Elf *elf, GElf_Word type, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;
	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, header) && header->sh_type == type)
			return section;
	return NULL;
}

/* Finds the table of all symbols or, in a stripped file, of those for dynamic linking. */
static Elf_Data *find_symbol_data(Elf *elf, GElf_Shdr *header)
{
	Elf_Scn *section = find_section(elf, SHT_SYMTAB, header);
	if (!section)
		section = find_section(elf, SHT_DYNSYM, header);
	return section ? elf_getdata(section, NULL) : NULL;
}

/* Symbols are read in two passes: of several at one address, the first that was added is used. */
enum symbol_pass {
	PASS_TYPED,   /* functions and objects */
	PASS_UNTYPED, /* global symbols of assembly code that do not say what they are */
	N_PASSES
};

static bool belongs_to_pass(const GElf_Sym *symbol, enum symbol_pass pass)
{
	int type = GELF_ST_TYPE(symbol->st_info);
	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS ||
	    symbol->st_shndx == SHN_COMMON)
		return false;
	if (pass == PASS_TYPED)
		return type == STT_FUNC || type == STT_OBJECT || type == STT_GNU_IFUNC;
	return type == STT_NOTYPE && GELF_ST_BIND(symbol->st_info) != STB_LOCAL;
}

/* Returns one of nm's letters: T for code, D for data; lower case for a local symbol. */
static char get_symbol_type(Elf *elf, const GElf_Sym *symbol)
{
	bool is_code = GELF_ST_TYPE(symbol->st_info) == STT_FUNC;
	GElf_Shdr header;
	Elf_Scn *section = elf_getscn(elf, symbol->st_shndx);
	if (section && gelf_getshdr(section, &header))
		is_code = (header.sh_flags & SHF_EXECINSTR) != 0;
	bool is_local = GELF_ST_BIND(symbol->st_info) == STB_LOCAL;
	return is_code ? (is_local ? 't' : 'T') : (is_local ? 'd' : 'D');
}

/* Takes bytes of the budget for as long as the file is open. */
static bool keep_bytes(struct vms_symbol_file *file, uint64_t bytes)
{
	if (!vms_budget_take(file->budget, VMS_BUDGET_BYTES, bytes))
		return false;
	file->kept += bytes;
	return true;
}

/* Adds the symbols of a pass. False if their names exceed NAME_BYTES_LIMIT, or the budget. */
static bool add_symbols(struct vms_symbol_file *file, Elf_Data *data, const GElf_Shdr *header,
			enum symbol_pass pass, uint64_t *name_bytes)
{
	size_t size = gelf_fsize(file->elf, ELF_T_SYM, 1, EV_CURRENT);
	size_t n = size ? MIN(data->d_size / size, INT_MAX) : 0;
	for (size_t i = 0; i < n; i++) {
		GElf_Sym symbol;
		if (!vms_budget_step(file->budget, STEPS_OF_SYMBOL))
			return false;
		if (!gelf_getsym(data, (int)i, &symbol) || !belongs_to_pass(&symbol, pass))
			continue;
		const char *name = elf_strptr(file->elf, header->sh_link, symbol.st_name);
		if (!name || !*name)
			continue;
		const size_t size_of_name = strlen(name) + 1;
		*name_bytes += size_of_name;
		if (*name_bytes > NAME_BYTES_LIMIT ||
		    !vms_budget_step(file->budget, VMS_STEPS_OF_BYTES(size_of_name)) ||
		    !keep_bytes(file, BYTES_OF_SYMBOL + size_of_name))
			return false;
		vms_symbol_table_add(file->table, name, symbol.st_value + file->bias,
				     symbol.st_size, get_symbol_type(file->elf, &symbol));
	}
	return true;
}

/* Finds the begin of the first loaded segment and the end of the last. Both are 0 without any. */
static void find_segment_bounds(Elf *elf, uint64_t *first, uint64_t *end)
{
	size_t n;
	*first = UINT64_MAX;
	*end = 0;
	if (elf_getphdrnum(elf, &n))
		n = 0;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr header;
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD)
			continue;
		*first = MIN(*first, header.p_vaddr);
		*end = MAX(*end, header.p_vaddr + header.p_memsz);
	}
	if (*first == UINT64_MAX)
		*first = 0;
}

/*
 * Adds the sections' bounds. A symbol without a size, as assembly code has, ends with its section
 * at the latest: the next section may have no symbols (.plt follows .init). Thread-local sections
 * are left out, as their addresses are not those in memory.
 */
static void add_bounds(struct vms_symbol_file *file)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	while ((section = elf_nextscn(file->elf, section))) {
		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_ALLOC) ||
		    (header.sh_flags & SHF_TLS))
			continue;
		vms_symbol_table_add_bound(file->table, header.sh_addr + file->bias);
		vms_symbol_table_add_bound(file->table,
					   header.sh_addr + header.sh_size + file->bias);
	}
}

static bool set_budget_error(const struct vms_symbol_file *file, GError **error)
{
	g_autofree char *action = g_strdup_printf("cannot read the symbols of %s", file->path);
	vms_budget_set_error(file->budget, action, error);
	return false;
}

/* Reads the symbols anew, with the present bias. */
static bool load_table(struct vms_symbol_file *file, GError **error)
{
	GElf_Shdr header;
	Elf_Data *data = find_symbol_data(file->elf, &header);
	uint64_t name_bytes = 0;
	g_clear_pointer(&file->table, vms_symbol_table_unref);
	file->table = vms_symbol_table_new(file->module);
	for (enum symbol_pass pass = 0; data && pass < N_PASSES; pass++) {
		if (add_symbols(file, data, &header, pass, &name_bytes))
			continue;
		if (name_bytes <= NAME_BYTES_LIMIT)
			return set_budget_error(file, error);
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "cannot read the symbols of %s: their names add up to more than "
			    "%" G_GUINT64_FORMAT " bytes",
			    file->path, NAME_BYTES_LIMIT);
		return false;
	}
	add_bounds(file);
	vms_symbol_table_finish(file->table, file->end + file->bias);
	if (vms_symbol_table_count(file->table) == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "%s has no symbols: give the file as it was before it was stripped",
			    file->path);
		return false;
	}
	return true;
}

/* ---- the file --------------------------------------------------------- */

static bool check_elf(struct vms_symbol_file *file, GError **error)
{
	GElf_Ehdr header;
	if (elf_kind(file->elf) != ELF_K_ELF || !gelf_getehdr(file->elf, &header)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "cannot read symbols from %s: it is not an ELF file", file->path);
		return false;
	}
	if (header.e_type == ET_REL) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot use the symbols of %s: an object file has no addresses, "
			    "give the linked file",
			    file->path);
		return false;
	}
	return true;
}

/* Returns how many bytes libelf and libdw allocate for a section. */
static uint64_t get_section_bytes(Elf_Scn *section, const GElf_Shdr *header)
{
	GElf_Chdr packed;
	const bool is_packed =
		(header->sh_flags & SHF_COMPRESSED) && gelf_getchdr(section, &packed);
	if (header->sh_type == SHT_NOBITS)
		return 0;
	return header->sh_size + (is_packed ? MIN(packed.ch_size, UINT64_MAX / 2) : 0);
}

/*
 * Takes room for all sections. A section of a small file may be large, as it may be compressed, or
 * a hole. The libraries do not ask.
 */
static bool keep_sections(struct vms_symbol_file *file)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	while (file->budget && (section = elf_nextscn(file->elf, section))) {
		const char *name = NULL;
		size_t names;
		if (!gelf_getshdr(section, &header) || !vms_budget_step(file->budget, 1))
			return false;
		if (elf_getshdrstrndx(file->elf, &names) == 0)
			name = elf_strptr(file->elf, names, header.sh_name);
		/* An old way to compress, which nobody needs here. */
		if (name && g_str_has_prefix(name, ".zdebug"))
			return false;
		if (!keep_bytes(file, get_section_bytes(section, &header)))
			return false;
	}
	return true;
}

struct vms_symbol_file *vms_symbol_file_open_fd(int fd, const char *path, struct vms_budget *budget,
						GError **error)
{
	elf_version(EV_CURRENT);
	g_autoptr(vms_symbol_file) file = g_new0(struct vms_symbol_file, 1);
	g_mutex_init(&file->lock);
	file->path = g_strdup(path);
	file->module = g_path_get_basename(path);
	file->fd = fd;
	file->budget = budget ? vms_budget_ref(budget) : NULL;
	file->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!check_elf(file, error))
		return NULL;
	if (!keep_sections(file)) {
		set_budget_error(file, error);
		return NULL;
	}
	find_segment_bounds(file->elf, &file->base, &file->end);
	if (!load_table(file, error))
		return NULL;
	return g_steal_pointer(&file);
}

static void set_open_error(const char *path, int number, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot open symbol file %s: %s", path,
		    g_strerror(number));
}

struct vms_symbol_file *vms_symbol_file_open(const char *path, GError **error)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return vms_symbol_file_open_fd(fd, path, NULL, error);
	set_open_error(path, errno, error);
	return NULL;
}

struct vms_symbol_file *vms_symbol_file_open_foreign(struct vms_foreign_files *files,
						     const struct vms_foreign_name *name,
						     struct vms_budget *budget, GError **error)
{
	g_autofree char *whole = g_build_filename(name->root ?: "/", name->path, NULL);
	int number;
	struct vms_foreign_file *file = vms_foreign_files_open(files, name, budget, &number);
	const int fd =
		file ? vms_foreign_file_copy(file, vms_budget_left(budget, VMS_BUDGET_BYTES)) : -1;
	if (file && fd < 0)
		number = EIO;
	vms_foreign_file_close(file);
	if (fd >= 0)
		return vms_symbol_file_open_fd(fd, whole, budget, error);
	set_open_error(whole, number, error);
	return NULL;
}

struct vms_symbol_file *vms_symbol_file_open_below(const char *root, const char *path,
						   GError **error)
{
	const struct vms_foreign_name name = { .root = root, .path = path };
	struct vms_foreign_files *files = vms_foreign_files_new(NULL);
	struct vms_symbol_file *file = vms_symbol_file_open_foreign(files, &name, NULL, error);
	vms_foreign_files_unref(files);
	return file;
}

void vms_symbol_file_close(struct vms_symbol_file *file)
{
	if (!file)
		return;
	dwarf_end(file->dwarf);
	vms_symbol_table_unref(file->table);
	elf_end(file->elf);
	close(file->fd);
	vms_budget_give_back(file->budget, VMS_BUDGET_BYTES, file->kept);
	vms_budget_unref(file->budget);
	g_mutex_clear(&file->lock);
	g_free(file->module);
	g_free(file->path);
	g_free(file);
}

const char *vms_symbol_file_path(const struct vms_symbol_file *file)
{
	return file->path;
}

uint64_t vms_symbol_file_bias(const struct vms_symbol_file *file)
{
	return file->bias;
}

void vms_symbol_file_set_bias(struct vms_symbol_file *file, uint64_t bias)
{
	if (bias == file->bias)
		return;
	file->bias = bias;
	load_table(file, NULL); /* cannot fail: it succeeded when the file was opened */
}

uint64_t vms_symbol_file_base(const struct vms_symbol_file *file)
{
	return file->base;
}

bool vms_symbol_file_lookup(const struct vms_symbol_file *file, const char *name, uint64_t *ret)
{
	struct vms_symbol symbol;
	if (!vms_symbol_table_lookup(file->table, name, &symbol))
		return false;
	*ret = symbol.va - file->bias;
	return true;
}

struct vms_symbol_table *vms_symbol_file_table(struct vms_symbol_file *file)
{
	return vms_symbol_table_ref(file->table);
}

/* Lists the segments with code, up to CODE_LIMIT of them. Returns their number. */
static unsigned list_code_segments(Elf *elf, GElf_Phdr ret[CODE_LIMIT])
{
	size_t n;
	unsigned n_code = 0;
	if (elf_getphdrnum(elf, &n))
		return 0;
	for (size_t i = 0; i < n && n_code < CODE_LIMIT; i++)
		if (gelf_getphdr(elf, (int)i, &ret[n_code]) && ret[n_code].p_type == PT_LOAD &&
		    (ret[n_code].p_flags & PF_X))
			n_code++;
	return n_code;
}

/* Returns the segment in which the file has the address `va` (without bias), or NULL. */
static const GElf_Phdr *find_code_segment(const GElf_Phdr *code, unsigned n, uint64_t va)
{
	for (unsigned i = 0; i < n; i++)
		if (va >= code[i].p_vaddr && va - code[i].p_vaddr < code[i].p_filesz)
			return &code[i];
	return NULL;
}

struct vms_symbol_table *vms_symbol_file_offsets(const struct vms_symbol_file *file)
{
	struct vms_symbol_table *offsets = vms_symbol_table_new(file->module);
	size_t n = vms_symbol_table_count(file->table);
	GElf_Phdr code[CODE_LIMIT];
	unsigned n_code = list_code_segments(file->elf, code);
	uint64_t end = 0;
	for (size_t i = 0; i < n; i++) {
		struct vms_symbol symbol = vms_symbol_table_get(file->table, i);
		uint64_t va = symbol.va - file->bias;
		const GElf_Phdr *segment = find_code_segment(code, n_code, va);
		if (!segment)
			continue;
		end = MAX(end, segment->p_offset + segment->p_filesz);
		vms_symbol_table_add(offsets, symbol.name,
				     va - segment->p_vaddr + segment->p_offset, symbol.size,
				     symbol.type);
	}
	vms_symbol_table_finish(offsets, end);
	return offsets;
}

/* ---- source lines ----------------------------------------------------- */

/* Begins to read lines, from the file itself alone. The caller holds the lock. */
static void open_lines(struct vms_symbol_file *file)
{
	if (!file->has_sought_lines)
		file->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	file->has_sought_lines = true;
}

/* Gets the next compilation unit. `*at` is 0 at first. */
static bool next_unit(struct vms_symbol_file *file, Dwarf_Off *at, Dwarf_Die *ret)
{
	Dwarf_Off next;
	size_t size;
	if (dwarf_nextcu(file->dwarf, *at, &next, &size, NULL, NULL, NULL) != 0 ||
	    !dwarf_offdie(file->dwarf, *at + size, ret))
		return false;
	*at = next;
	return true;
}

/*
 * Finds the compilation unit of an address. .debug_aranges tells it. clang does not write that
 * section; then every unit is asked, which is slow.
 */
static bool find_unit(struct vms_symbol_file *file, Dwarf_Addr address, Dwarf_Die *ret)
{
	Dwarf_Aranges *ranges;
	Dwarf_Off at = 0;
	size_t n = 0;
	if (dwarf_addrdie(file->dwarf, address, ret))
		return true;
	if (dwarf_getaranges(file->dwarf, &ranges, &n) == 0 && n > 0)
		return false;
	while (vms_budget_has_left(file->budget) && next_unit(file, &at, ret))
		if (dwarf_haspc(ret, address) > 0)
			return true;
	return false;
}

static bool find_line(struct vms_symbol_file *file, uint64_t va, const char **source,
		      unsigned *line)
{
	Dwarf_Die unit;
	if (!file->dwarf || !find_unit(file, va - file->bias, &unit))
		return false;
	Dwarf_Line *found = dwarf_getsrc_die(&unit, va - file->bias);
	const char *name = found ? dwarf_linesrc(found, NULL, NULL) : NULL;
	int number = 0;
	if (!name || dwarf_lineno(found, &number) || number < 0)
		return false;
	*source = name;
	*line = (unsigned)number;
	return true;
}

bool vms_symbol_file_line(struct vms_symbol_file *file, uint64_t va, const char **source,
			  unsigned *line)
{
	if (!vms_budget_has_left(file->budget))
		return false;
	g_mutex_lock(&file->lock);
	const uint64_t begin_ns = vms_budget_thread_ns();
	open_lines(file);
	bool found = find_line(file, va, source, line);
	vms_budget_step_ns(file->budget, vms_budget_thread_ns() - begin_ns);
	g_mutex_unlock(&file->lock);
	return found;
}

typedef void (*each_line)(const struct vms_line_row *row, void *data);

/* Gives the rows of a unit. A row reaches to the next one, unless it ends a sequence. */
static void each_line_of_unit(const struct vms_symbol_file *file, Dwarf_Die *unit, each_line each,
			      void *data)
{
	Dwarf_Lines *lines;
	size_t n;
	if (dwarf_getsrclines(unit, &lines, &n) != 0)
		return;
	for (size_t i = 0; i + 1 < n; i++) {
		Dwarf_Line *line = dwarf_onesrcline(lines, i);
		Dwarf_Addr va, end;
		bool is_end = true;
		int number = 0;
		struct vms_line_row row = { .source = dwarf_linesrc(line, NULL, NULL) };
		if (!row.source || dwarf_lineendsequence(line, &is_end) != 0 || is_end ||
		    dwarf_lineaddr(line, &va) != 0 ||
		    dwarf_lineaddr(dwarf_onesrcline(lines, i + 1), &end) != 0 || end <= va ||
		    dwarf_linebeginstatement(line, &row.is_statement) != 0 ||
		    dwarf_lineno(line, &number) != 0 || number <= 0)
			continue;
		row.va = va + file->bias;
		row.end = end + file->bias;
		row.line = (unsigned)number;
		each(&row, data);
	}
}

void vms_symbol_file_each_line(struct vms_symbol_file *file, each_line each, void *data)
{
	Dwarf_Off at = 0;
	Dwarf_Die unit;
	g_mutex_lock(&file->lock);
	open_lines(file);
	while (file->dwarf && next_unit(file, &at, &unit))
		each_line_of_unit(file, &unit, each, data);
	g_mutex_unlock(&file->lock);
}
