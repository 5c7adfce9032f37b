/* SPDX-License-Identifier: MIT */
/*
 * Reads symbols (by libelf) and source lines (by libdwfl) from ELF files. The lines are opened when
 * they are first asked for.
 */
#include <vmscope/symbol.h>

#include "base/open_below.h"
#include "symbol/lines.h"

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
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

struct vms_symbol_file {
	char *path;
	char *module; /* the file's name, without folders */
	int fd;
	Elf *elf;
	uint64_t base, end;		/* bounds of the loaded segments, as the file has them */
	uint64_t bias;			/* is added to the file's addresses */
	struct vms_symbol_table *table; /* its addresses include the bias */
	GMutex lock;			/* guards all that follows: libdw is not thread-safe */
	Dwfl *dwfl;			/* NULL until lines are first asked for */
	Dwfl_Module *dwarf;		/* NULL although `dwfl` is set: the file has no lines */
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

/* Adds the symbols of a pass. False if their names exceed NAME_BYTES_LIMIT. */
static bool add_symbols(struct vms_symbol_file *file, Elf_Data *data, const GElf_Shdr *header,
			enum symbol_pass pass, uint64_t *name_bytes)
{
	size_t size = gelf_fsize(file->elf, ELF_T_SYM, 1, EV_CURRENT);
	size_t n = size ? MIN(data->d_size / size, INT_MAX) : 0;
	for (size_t i = 0; i < n; i++) {
		GElf_Sym symbol;
		if (!gelf_getsym(data, (int)i, &symbol) || !belongs_to_pass(&symbol, pass))
			continue;
		const char *name = elf_strptr(file->elf, header->sh_link, symbol.st_name);
		if (!name || !*name)
			continue;
		*name_bytes += strlen(name) + 1;
		if (*name_bytes > NAME_BYTES_LIMIT)
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

/* Opens the file behind `fd`. Takes ownership of `fd`, also if it fails. */
static struct vms_symbol_file *open_fd(int fd, const char *path, GError **error)
{
	elf_version(EV_CURRENT);
	g_autoptr(vms_symbol_file) file = g_new0(struct vms_symbol_file, 1);
	g_mutex_init(&file->lock);
	file->path = g_strdup(path);
	file->module = g_path_get_basename(path);
	file->fd = fd;
	file->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!check_elf(file, error))
		return NULL;
	find_segment_bounds(file->elf, &file->base, &file->end);
	if (!load_table(file, error))
		return NULL;
	return g_steal_pointer(&file);
}

static struct vms_symbol_file *report_open_failure(const char *path, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot open symbol file %s: %s", path,
		    g_strerror(errno));
	return NULL;
}

struct vms_symbol_file *vms_symbol_file_open(const char *path, GError **error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? report_open_failure(path, error) : open_fd(fd, path, error);
}

struct vms_symbol_file *vms_symbol_file_open_below(const char *root, const char *path,
						   GError **error)
{
	g_autofree char *whole = g_build_filename(root, path, NULL);
	const int fd = vms_open_below(root, path);
	return fd < 0 ? report_open_failure(whole, error) : open_fd(fd, whole, error);
}

void vms_symbol_file_close(struct vms_symbol_file *file)
{
	if (!file)
		return;
	if (file->dwfl)
		dwfl_end(file->dwfl);
	vms_symbol_table_unref(file->table);
	elf_end(file->elf);
	close(file->fd);
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

/*
 * Finds nothing. Lines are read from the file itself; libdwfl must not search elsewhere, least of
 * all over the network.
 */
static int find_no_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			     const char *path, const char *link, GElf_Word crc, char **ret)
{
	(void)module, (void)data, (void)name, (void)base, (void)path, (void)link, (void)crc;
	(void)ret;
	return -1;
}

static void open_dwarf(struct vms_symbol_file *file)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_build_id_find_elf,
		.find_debuginfo = find_no_debuginfo,
		.section_address = dwfl_offline_section_address,
	};
	file->dwfl = dwfl_begin(&callbacks);
	if (!file->dwfl)
		return;
	dwfl_report_begin(file->dwfl);
	file->dwarf = dwfl_report_offline(file->dwfl, file->module, file->path, -1);
	dwfl_report_end(file->dwfl, NULL, NULL);
}

/*
 * Finds the compilation unit of an address. `*bias` is what libdwfl adds to the file's addresses.
 * .debug_aranges tells the unit. clang does not write that section; then every unit is asked, which
 * is slow.
 */
static Dwarf_Die *find_unit(Dwfl_Module *module, Dwarf_Addr address, Dwarf_Addr *bias)
{
	Dwarf_Die *unit = dwfl_module_addrdie(module, address, bias);
	Dwarf_Aranges *ranges;
	size_t n = 0;
	if (unit || (!dwarf_getaranges(dwfl_module_getdwarf(module, bias), &ranges, &n) && n > 0))
		return unit;
	while ((unit = dwfl_module_nextcu(module, unit, bias)))
		if (dwarf_haspc(unit, address - *bias) > 0)
			return unit;
	return NULL;
}

static bool find_line(struct vms_symbol_file *file, uint64_t va, const char **source,
		      unsigned *line)
{
	Dwarf_Addr bias;
	if (!file->dwarf || !dwfl_module_getdwarf(file->dwarf, &bias))
		return false;
	Dwarf_Addr address = va - file->bias + bias;
	Dwarf_Die *unit = find_unit(file->dwarf, address, &bias);
	Dwarf_Line *found = unit ? dwarf_getsrc_die(unit, address - bias) : NULL;
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
	g_mutex_lock(&file->lock);
	if (!file->dwfl)
		open_dwarf(file);
	bool found = find_line(file, va, source, line);
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
	Dwarf_Addr bias;
	g_mutex_lock(&file->lock);
	if (!file->dwfl)
		open_dwarf(file);
	Dwarf *dwarf = file->dwarf ? dwfl_module_getdwarf(file->dwarf, &bias) : NULL;
	Dwarf_Die *unit = NULL;
	while (dwarf && (unit = dwfl_module_nextcu(file->dwarf, unit, &bias)))
		each_line_of_unit(file, unit, each, data);
	g_mutex_unlock(&file->lock);
}
