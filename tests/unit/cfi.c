/* SPDX-License-Identifier: MIT */
/*
 * Call frame information: of libraries of this host every row is compared with what libdw makes of
 * it; and tables written here, that lie.
 */
#include "unwind/cfi-private.h"
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

/* ---- files ------------------------------------------------------------ */

struct file {
	int fd;
	Elf *elf;
	Dwarf_CFI *libdw;
	GElf_Ehdr head;
	GElf_Phdr load[16], header;
	size_t n_load;
	Elf_Data *frames; /* .eh_frame */
	uint64_t frames_va;
	struct vms_cfi *cfi;
};

static bool read_file(void *data, uint64_t va, void *buf, size_t size)
{
	const struct file *file = data;
	for (size_t i = 0; i < file->n_load; i++) {
		const GElf_Phdr *load = &file->load[i];
		if (va >= load->p_vaddr && va - load->p_vaddr < load->p_filesz)
			return pread(file->fd, buf, size,
				     (off_t)(va - load->p_vaddr + load->p_offset)) == (ssize_t)size;
	}
	return false;
}

static void find_frames(struct file *file)
{
	size_t names;
	Elf_Scn *section = NULL;
	g_assert_cmpint(elf_getshdrstrndx(file->elf, &names), ==, 0);
	while ((section = elf_nextscn(file->elf, section))) {
		GElf_Shdr head;
		g_assert_nonnull(gelf_getshdr(section, &head));
		if (g_str_equal(elf_strptr(file->elf, names, head.sh_name), ".eh_frame")) {
			file->frames = elf_rawdata(section, NULL);
			file->frames_va = head.sh_addr;
		}
	}
	g_assert_nonnull(file->frames);
}

/* `has_header`: its .eh_frame_hdr is used. */
static bool open_file(struct file *file, const char *path, bool has_header)
{
	size_t n;
	*file = (struct file) { .fd = open(path, O_RDONLY | O_CLOEXEC) };
	if (file->fd < 0)
		return false;
	elf_version(EV_CURRENT);
	file->elf = elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
	g_assert_nonnull(gelf_getehdr(file->elf, &file->head));
	g_assert_cmpint(elf_getphdrnum(file->elf, &n), ==, 0);
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr segment;
		g_assert_nonnull(gelf_getphdr(file->elf, (int)i, &segment));
		if (segment.p_type == PT_LOAD)
			file->load[file->n_load++] = segment;
		if (segment.p_type == PT_GNU_EH_FRAME)
			file->header = segment;
	}
	find_frames(file);
	file->libdw = dwarf_getcfi_elf(file->elf);
	g_assert_nonnull(file->libdw);
	const struct vms_reader reader = { read_file, file };
	const bool is_aarch64 = file->head.e_machine == EM_AARCH64;
	file->cfi = has_header ? vms_cfi_new(&reader, file->header.p_vaddr, file->header.p_memsz,
					     is_aarch64)
			       : vms_cfi_new_without_header(&reader, file->frames_va,
							    file->frames->d_size, is_aarch64);
	return true;
}

static void close_file(struct file *file)
{
	vms_cfi_free(file->cfi);
	dwarf_cfi_end(file->libdw);
	elf_end(file->elf);
	close(file->fd);
}

/* ---- rows as text ----------------------------------------------------- */

/* Writes an expression from its bytes. */
static void write_bytes(struct vms_bytes expression, GString *out)
{
	struct vms_cfi_input input = { .bytes = expression };
	while (input.at < expression.size && !input.failed) {
		const uint8_t op = vms_cfi_u8(&input);
		uint64_t a = 0, b = 0;
		if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
			a = (uint64_t)vms_cfi_sleb(&input);
		else if (op == DW_OP_plus_uconst)
			a = vms_cfi_uleb(&input);
		else if (op == DW_OP_const1u)
			a = vms_cfi_u8(&input);
		else if (op == DW_OP_bregx) {
			a = vms_cfi_uleb(&input);
			b = (uint64_t)vms_cfi_sleb(&input);
		}
		g_string_append_printf(out, " %x:%" G_GINT64_MODIFIER "d,%" G_GINT64_MODIFIER "d",
				       op, (int64_t)a, (int64_t)b);
	}
	g_assert_false(input.failed);
}

static void write_ops(const Dwarf_Op *ops, size_t n, GString *out)
{
	for (size_t i = 0; i < n; i++)
		g_string_append_printf(out, " %x:%" G_GINT64_MODIFIER "d,%" G_GINT64_MODIFIER "d",
				       ops[i].atom, (int64_t)ops[i].number,
				       (int64_t)ops[i].number2);
}

static void write_rule(const struct vms_cfi_row *row, const struct vms_cfi_rule *rule, bool is_cfa,
		       GString *out)
{
	const bool is_value =
		rule->kind == VMS_CFI_VAL_OFFSET || rule->kind == VMS_CFI_VAL_EXPRESSION;
	switch (rule->kind) {
	case VMS_CFI_UNDEFINED: g_string_append(out, " undefined"); return;
	case VMS_CFI_REGISTER:
		g_string_append_printf(out, " %x:%d,0", DW_OP_regx, rule->value);
		return;
	case VMS_CFI_OFFSET:
	case VMS_CFI_VAL_OFFSET:
		if (is_cfa) {
			g_string_append_printf(out, " %x:%d,%d", DW_OP_bregx, rule->reg,
					       rule->value);
			return;
		}
		g_string_append_printf(out, " %x:0,0", DW_OP_call_frame_cfa);
		if (rule->value)
			g_string_append_printf(out, " %x:%d,0", DW_OP_plus_uconst, rule->value);
		break;
	default:
		if (!is_cfa)
			g_string_append_printf(out, " %x:0,0", DW_OP_call_frame_cfa);
		write_bytes((struct vms_bytes) { row->bytes + rule->value, rule->size }, out);
	}
	if (is_value && !is_cfa)
		g_string_append_printf(out, " %x:0,0", DW_OP_stack_value);
}

static char *write_row(const struct vms_cfi_row *row, unsigned n_regs)
{
	GString *out = g_string_new("cfa");
	write_rule(row, &row->cfa, true, out);
	g_string_append_printf(out, " ra %u signal %d", row->return_reg, row->is_signal);
	for (unsigned reg = 0; reg < n_regs; reg++)
		for (unsigned i = 0; i < row->n; i++)
			if (row->rules[i].reg == reg) {
				g_string_append_printf(out, " r%u", reg);
				write_rule(row, &row->rules[i], false, out);
			}
	return g_string_free(out, false);
}

static bool is_in(const struct vms_cfi_row *row, unsigned reg)
{
	for (unsigned i = 0; i < row->n; i++)
		if (row->rules[i].reg == reg)
			return true;
	return false;
}

/* Writes libdw's row. What `row` has no rule for must have none there, or keep its value. */
static char *write_libdw_row(Dwarf_Frame *frame, const struct vms_cfi_row *row, unsigned n_regs,
			     unsigned sp)
{
	GString *out = g_string_new("cfa");
	Dwarf_Addr start, end;
	Dwarf_Op *ops, memory[3];
	size_t n;
	bool is_signal;
	g_assert_cmpint(dwarf_frame_cfa(frame, &ops, &n), ==, 0);
	write_ops(ops, n, out);
	const int ra = dwarf_frame_info(frame, &start, &end, &is_signal);
	g_string_append_printf(out, " ra %d signal %d", ra, is_signal);
	for (unsigned reg = 0; reg < n_regs; reg++) {
		g_assert_cmpint(dwarf_frame_register(frame, (int)reg, memory, &ops, &n), ==, 0);
		if (!is_in(row, reg) && (n == 0 || reg == sp))
			continue; /* libdw's own defaults */
		g_string_append_printf(out, " r%u", reg);
		if (n == 0)
			g_string_append(out, ops ? " undefined" : " same");
		write_ops(ops, n, out);
	}
	return g_string_free(out, false);
}

/* ---- comparing -------------------------------------------------------- */

/* Compares the rows of a function. Returns their number. */
static unsigned compare_function(struct file *file, uint64_t start, uint64_t size)
{
	const bool is_aarch64 = file->head.e_machine == EM_AARCH64;
	const unsigned n_regs = is_aarch64 ? 32 : 17, sp = is_aarch64 ? 31 : 7;
	unsigned n = 0;
	for (uint64_t va = start; va < start + size; n++) {
		struct vms_cfi_row row;
		Dwarf_Frame *frame;
		Dwarf_Addr from, to;
		g_assert_cmpint(dwarf_cfi_addrframe(file->libdw, va, &frame), ==, 0);
		dwarf_frame_info(frame, &from, &to, NULL);
		for (uint64_t at = va; at < to; at += MAX(to - 1 - va, 1)) {
			g_assert_cmpint(vms_cfi_find(file->cfi, at, &row), ==, VMS_CFI_FOUND);
			g_autofree char *ours = write_row(&row, n_regs);
			g_autofree char *theirs = write_libdw_row(frame, &row, n_regs, sp);
			if (!g_str_equal(ours, theirs))
				g_error("0x%" G_GINT64_MODIFIER "x: %s, libdw: %s", at, ours,
					theirs);
		}
		free(frame);
		va = to;
	}
	return n;
}

static void compare_file(const char *path, bool has_header)
{
	struct file file;
	unsigned functions = 0, rows = 0;
	if (!open_file(&file, path, has_header)) {
		g_test_skip("no such file");
		return;
	}
	Dwarf_Off next = 0;
	Dwarf_CFI_Entry entry;
	for (Dwarf_Off at = 0; dwarf_next_cfi((const unsigned char *)&file.head.e_ident,
					      file.frames, true, at, &next, &entry) == 0;
	     at = next) {
		uint32_t words[2];
		if (dwarf_cfi_cie_p(&entry))
			continue;
		/* All have pointers of four bytes, counted from where they are (DW_EH_PE_pcrel). */
		memcpy(words, entry.fde.start, sizeof(words));
		const uint64_t place =
			file.frames_va + (uint64_t)((const uint8_t *)entry.fde.start -
						    (const uint8_t *)file.frames->d_buf);
		rows += compare_function(&file, place + (uint64_t)(int32_t)words[0], words[1]);
		functions++;
	}
	g_test_message("%u functions, %u rows, %zu bytes", functions, rows,
		       vms_cfi_bytes(file.cfi));
	g_assert_cmpuint(functions, >, 1000);
	close_file(&file);
}

static void test_file(gconstpointer path)
{
	compare_file(path, true);
}

static void test_without_header(gconstpointer path)
{
	compare_file(path, false);
}

/* ---- tables that are written here ------------------------------------- */

#define BASE   UINT64_C(0x10000)
#define HEADER 0x10
#define CIE    0x100
#define FDE    0x200
#define CODE   0x1000
#define SIZE   0x100 /* of the function */
#define TOTAL  0x400

struct tables {
	uint8_t bytes[TOTAL];
	uint64_t missing; /* the first address that cannot be read */
};

static bool read_tables(void *data, uint64_t va, void *buf, size_t size)
{
	const struct tables *tables = data;
	if (va < BASE || va - BASE > TOTAL || size > TOTAL - (va - BASE) ||
	    (tables->missing && va + size > tables->missing))
		return false;
	memcpy(buf, tables->bytes + (va - BASE), size);
	return true;
}

static void put_u32(struct tables *tables, size_t at, uint32_t value)
{
	value = GUINT32_TO_LE(value);
	memcpy(tables->bytes + at, &value, sizeof(value));
}

/* Writes the tables of one function with this program. */
static struct tables *make_tables(const uint8_t *program, size_t size)
{
	static const uint8_t header[] = { 1, 0x1b, 0x03, 0x3b };
	static const uint8_t cie[] = { 1,    'z', 'R',	0,    1, 0x78,
				       16,   1,	  0x1b, 0x0c, 7, 8, /* CFA: rsp + 8 */
				       0x90, 1 /* the return address at CFA - 8 */ };
	struct tables *tables = g_new0(struct tables, 1);
	memcpy(tables->bytes + HEADER, header, sizeof(header));
	put_u32(tables, HEADER + 4, CIE - HEADER - 4);
	put_u32(tables, HEADER + 8, 1);
	put_u32(tables, HEADER + 12, CODE - HEADER);
	put_u32(tables, HEADER + 16, FDE - HEADER);
	put_u32(tables, CIE, 4 + sizeof(cie));
	memcpy(tables->bytes + CIE + 8, cie, sizeof(cie));
	put_u32(tables, FDE, 13 + (uint32_t)size);
	put_u32(tables, FDE + 4, FDE + 4 - CIE);
	put_u32(tables, FDE + 8, CODE - FDE - 8);
	put_u32(tables, FDE + 12, SIZE);
	if (size > 0)
		memcpy(tables->bytes + FDE + 17, program, size);
	return tables;
}

static enum vms_cfi_result find_in(struct tables *tables, uint64_t va, struct vms_cfi_row *row)
{
	const struct vms_reader reader = { read_tables, tables };
	struct vms_cfi *cfi = vms_cfi_new(&reader, BASE + HEADER, 20, false);
	const enum vms_cfi_result result = vms_cfi_find(cfi, va, row);
	g_assert_cmpint(vms_cfi_find(cfi, va, row), ==, result);
	vms_cfi_free(cfi);
	return result;
}

static enum vms_cfi_result find_by(const uint8_t *program, size_t size, struct vms_cfi_row *row)
{
	g_autofree struct tables *tables = make_tables(program, size);
	return find_in(tables, BASE + CODE + 0x10, row);
}
#define FIND_BY(row, ...)                                                                          \
	find_by((const uint8_t[]) { __VA_ARGS__ }, sizeof((const uint8_t[]) { __VA_ARGS__ }), row)

static void test_bounds(void)
{
	struct vms_cfi_row row;
	g_autofree struct tables *tables = make_tables((const uint8_t[]) { 0 }, 1);
	g_assert_cmpint(find_in(tables, BASE + CODE, &row), ==, VMS_CFI_FOUND);
	g_assert_cmpint(row.cfa.value, ==, 8);
	g_assert_cmpint(find_in(tables, BASE + CODE + SIZE - 1, &row), ==, VMS_CFI_FOUND);
	g_assert_cmpint(find_in(tables, BASE + CODE - 1, &row), ==, VMS_CFI_NONE);
	g_assert_cmpint(find_in(tables, BASE + CODE + SIZE, &row), ==, VMS_CFI_NONE);
	tables->missing = BASE + FDE;
	g_assert_cmpint(find_in(tables, BASE + CODE, &row), ==, VMS_CFI_MISSING);
	tables->missing = BASE + HEADER + 1;
	g_assert_cmpint(find_in(tables, BASE + CODE, &row), ==, VMS_CFI_MISSING);
}

/* A part that was missing may come. */
static void test_comes_later(void)
{
	struct vms_cfi_row row;
	g_autofree struct tables *tables = make_tables((const uint8_t[]) { 0 }, 1);
	const struct vms_reader reader = { read_tables, tables };
	struct vms_cfi *cfi = vms_cfi_new(&reader, BASE + HEADER, 20, false);
	tables->missing = BASE + FDE + 2;
	g_assert_cmpint(vms_cfi_find(cfi, BASE + CODE, &row), ==, VMS_CFI_MISSING);
	tables->missing = 0;
	g_assert_cmpint(vms_cfi_find(cfi, BASE + CODE, &row), ==, VMS_CFI_FOUND);
	vms_cfi_free(cfi);
}

static void test_lies(void)
{
	static const struct {
		size_t at;
		uint32_t value;
		enum vms_cfi_result result;
	} lies[] = {
		{ HEADER, 0x3b031b02, VMS_CFI_BAD },  /* version 2 */
		{ HEADER, 0x0b031b01, VMS_CFI_NONE }, /* a table of another form */
		{ HEADER, 0x3bff1b01, VMS_CFI_NONE }, /* no table */
		{ HEADER + 8, 2, VMS_CFI_BAD },	      /* more lines than there are */
		{ HEADER + 8, UINT32_MAX, VMS_CFI_BAD },
		{ HEADER + 8, 0, VMS_CFI_NONE },
		{ HEADER + 16, 0x7fffffff, VMS_CFI_MISSING }, /* an entry that is nowhere */
		{ FDE, 0, VMS_CFI_BAD },
		{ FDE, UINT32_MAX, VMS_CFI_BAD },
		{ FDE, 8, VMS_CFI_BAD },     /* cut off */
		{ FDE + 4, 0, VMS_CFI_BAD }, /* it is a CIE */
		{ FDE + 4, 4, VMS_CFI_BAD }, /* its CIE is itself */
		{ FDE + 4, UINT32_MAX, VMS_CFI_BAD },
		{ FDE + 12, 1, VMS_CFI_NONE }, /* a shorter function */
		{ CIE, UINT32_MAX, VMS_CFI_BAD },
		{ CIE + 4, 1, VMS_CFI_BAD },
		{ CIE + 8, 0x00527a05, VMS_CFI_BAD },  /* version 5 */
		{ CIE + 8, 0x00686501, VMS_CFI_BAD },  /* "eh" */
		{ CIE + 16, 0x08070cdb, VMS_CFI_BAD }, /* pointers by pointers */
	};
	for (size_t i = 0; i < G_N_ELEMENTS(lies); i++) {
		struct vms_cfi_row row;
		g_autofree struct tables *tables = make_tables((const uint8_t[]) { 0 }, 1);
		put_u32(tables, lies[i].at, lies[i].value);
		g_test_message("lie %zu", i);
		g_assert_cmpint(find_in(tables, BASE + CODE + 0x10, &row), ==, lies[i].result);
	}
}

static void test_bad_programs(void)
{
	struct vms_cfi_row row;
	g_assert_cmpint(FIND_BY(&row, DW_CFA_restore_state), ==, VMS_CFI_BAD);
	g_assert_cmpint(FIND_BY(&row, 0x3f), ==, VMS_CFI_BAD);
	g_assert_cmpint(FIND_BY(&row, DW_CFA_advance_loc4, 1), ==, VMS_CFI_BAD);
	g_assert_cmpint(FIND_BY(&row, 0x2d), ==, VMS_CFI_BAD); /* of aarch64 alone */
	g_assert_cmpint(FIND_BY(&row, DW_CFA_def_cfa_register, 99), ==, VMS_CFI_BAD);
	g_assert_cmpint(FIND_BY(&row, DW_CFA_expression, 3, 100, 0), ==, VMS_CFI_BAD);
	g_assert_cmpint(
		FIND_BY(&row, DW_CFA_def_cfa_expression, 1, DW_OP_lit0, DW_CFA_def_cfa_offset, 8),
		==, VMS_CFI_BAD);
	/* A register that is not followed is no fault. */
	g_assert_cmpint(FIND_BY(&row, DW_CFA_same_value, 40), ==, VMS_CFI_FOUND);
}

/* States that are remembered, more than any compiler needs, and rows that never end. */
static void test_bombs(void)
{
	struct vms_cfi_row row;
	uint8_t program[200];
	memset(program, DW_CFA_remember_state, sizeof(program));
	g_assert_cmpint(find_by(program, sizeof(program), &row), ==, VMS_CFI_BAD);
	for (size_t i = 0; i < sizeof(program); i += 2) {
		program[i] = DW_CFA_advance_loc4 & 0; /* nop */
		program[i + 1] = DW_CFA_advance_loc + 0x3f;
	}
	g_assert_cmpint(find_by(program, sizeof(program), &row), ==, VMS_CFI_FOUND);
	g_assert_cmphex(row.start, ==, BASE + CODE);
}

static bool read_bytes(void *data, uint64_t va, void *buf, size_t size)
{
	memcpy(buf, (const uint8_t *)data + va, size);
	return true;
}

/* Thousands of functions that share an entry of 128 KiB: it is not read for each of them. */
static void test_shared_bomb(void)
{
	enum { SHARED = 128u << 10, ENTRY = 32, N = SHARED / ENTRY, ALL = 2 * SHARED };
	g_autofree struct tables *model = make_tables(NULL, 0);
	g_autofree uint8_t *bytes = g_malloc0(ALL + ENTRY);
	g_autoptr(GArray) lines = g_array_new(FALSE, FALSE, sizeof(struct vms_cfi_line));
	const struct vms_reader reader = { read_bytes, bytes };
	uint32_t size = GUINT32_TO_LE(SHARED - 4);
	memcpy(bytes, model->bytes + CIE, 64);
	memcpy(bytes, &size, sizeof(size));
	for (uint32_t at = SHARED; at < ALL; at += ENTRY) {
		const uint32_t words[] = { GUINT32_TO_LE(ENTRY - 4), GUINT32_TO_LE(at + 4),
					   GUINT32_TO_LE(CODE), GUINT32_TO_LE(SIZE) };
		memcpy(bytes + at, words, sizeof(words));
	}
	g_assert_cmpint(vms_cfi_scan(&reader, 0, ALL, false, lines), ==, VMS_CFI_FOUND);
	g_assert_cmpuint(lines->len, >, 0);
	g_assert_cmpuint(lines->len, <, N / 10);
}

/* ---- steps ------------------------------------------------------------ */

static bool read_stack(void *data, uint64_t va, void *buf, size_t size)
{
	const uint64_t *words = data;
	if (va < 0x7000 || va + size > 0x7000 + 16 * sizeof(*words))
		return false;
	memcpy(buf, (const uint8_t *)words + (va - 0x7000), size);
	return true;
}

static void test_step(void)
{
	uint64_t words[16];
	for (unsigned i = 0; i < 16; i++)
		words[i] = 0x1000 + i;
	const struct vms_reader stack = { read_stack, words };
	struct vms_cfi_regs regs = { .valid = 1 << 7 | 1 << 6 | 1 << 3 };
	struct vms_cfi_row row;
	bool unread;
	regs.value[7] = 0x7010;
	regs.value[6] = 66;
	regs.value[3] = 33;
	/* CFA = rsp + 32, rbp at CFA - 16, rbx lost, r12 = CFA - 8 */
	g_assert_cmpint(FIND_BY(&row, DW_CFA_def_cfa_offset, 32, 0x86, 2, DW_CFA_undefined, 3,
				DW_CFA_val_offset, 12, 1),
			==, VMS_CFI_FOUND);
	g_assert_true(vms_cfi_step(&row, 7, &stack, &regs, &unread));
	g_assert_cmphex(regs.value[7], ==, 0x7030);
	g_assert_cmphex(regs.value[16], ==, 0x1005);
	g_assert_cmphex(regs.value[6], ==, 0x1004);
	g_assert_cmphex(regs.value[12], ==, 0x7028);
	g_assert_cmphex(regs.valid, ==, 1 << 7 | 1 << 6 | 1 << 12 | 1 << 16);
	/* rbx is not known now */
	g_assert_cmpint(FIND_BY(&row, DW_CFA_def_cfa, 3, 8), ==, VMS_CFI_FOUND);
	g_assert_false(vms_cfi_step(&row, 7, &stack, &regs, &unread));
	g_assert_false(unread);
	regs.value[7] = 0x9000;
	g_assert_cmpint(FIND_BY(&row, DW_CFA_nop), ==, VMS_CFI_FOUND);
	g_assert_false(vms_cfi_step(&row, 7, &stack, &regs, &unread));
	g_assert_true(unread);
}

/* As a procedure linkage table has it: rsp + 8 + ((rip & 15) >= 11) * 8. */
static void test_plt(void)
{
	static const uint8_t expression[] = { DW_OP_breg7, 8,	      DW_OP_breg16, 0,
					      DW_OP_lit15, DW_OP_and, DW_OP_lit11,  DW_OP_ge,
					      DW_OP_lit3,  DW_OP_shl, DW_OP_plus };
	static const struct {
		uint64_t rip, cfa;
	} places[] = { { 0x4010, 0x7008 }, { 0x401a, 0x7008 }, { 0x401b, 0x7010 } };
	for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
		struct vms_cfi_regs regs = { .valid = 1 << 7 | 1 << 16 };
		uint64_t cfa;
		bool unread = false;
		regs.value[7] = 0x7000;
		regs.value[16] = places[i].rip;
		g_assert_true(
			vms_cfi_evaluate((struct vms_bytes) { expression, sizeof(expression) },
					 NULL, &regs, NULL, &cfa, &unread));
		g_assert_cmphex(cfa, ==, places[i].cfa);
	}
}

static void test_bad_expressions(void)
{
	static const uint8_t expressions[][4] = {
		{ DW_OP_plus },
		{ DW_OP_skip, 0xfd, 0xff },
		{ DW_OP_breg3, 0 },
		{ DW_OP_const8u, 1 },
		{ DW_OP_lit0, DW_OP_lit0, DW_OP_div },
		{ DW_OP_breg7, 0, DW_OP_deref_size, 9 },
	};
	uint64_t words[16] = { 0 }, value;
	const struct vms_reader stack = { read_stack, words };
	struct vms_cfi_regs regs = { .valid = 1 << 7 };
	bool unread = false;
	regs.value[7] = 0x7000;
	for (size_t i = 0; i < G_N_ELEMENTS(expressions); i++)
		g_assert_false(vms_cfi_evaluate((struct vms_bytes) { expressions[i], 4 }, NULL,
						&regs, &stack, &value, &unread));
	g_assert_false(unread);
	uint8_t deep[40];
	memset(deep, DW_OP_lit1, sizeof(deep));
	g_assert_false(vms_cfi_evaluate((struct vms_bytes) { deep, sizeof(deep) }, NULL, &regs,
					&stack, &value, &unread));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/cfi/libc", "/lib/x86_64-linux-gnu/libc.so.6", test_file);
	g_test_add_data_func("/cfi/libstdc++", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
			     test_file);
	g_test_add_data_func("/cfi/python", "/usr/bin/python3", test_file);
	g_test_add_data_func("/cfi/aarch64", "/usr/aarch64-linux-gnu/lib/libc.so.6", test_file);
	g_test_add_data_func("/cfi/without-header", "/lib/x86_64-linux-gnu/libc.so.6",
			     test_without_header);
	g_test_add_func("/cfi/bounds", test_bounds);
	g_test_add_func("/cfi/comes-later", test_comes_later);
	g_test_add_func("/cfi/lies", test_lies);
	g_test_add_func("/cfi/bad-programs", test_bad_programs);
	g_test_add_func("/cfi/bombs", test_bombs);
	g_test_add_func("/cfi/shared-bomb", test_shared_bomb);
	g_test_add_func("/cfi/step", test_step);
	g_test_add_func("/cfi/plt", test_plt);
	g_test_add_func("/cfi/bad-expressions", test_bad_expressions);
	return g_test_run();
}
