/* SPDX-License-Identifier: MIT */
/*
 * Parses `info registers` of x86-64. In 64-bit code addresses have 16 digits. In other code the
 * addresses of segments have 8 digits, which cuts them off if the processor is in long mode. The
 * addresses of descriptor tables have 16 digits in long mode.
 */
#include "machine/qemu/hmp.h"

#include "arch/x86_64.h"
#include <string.h>

/* Registers of a line "ES =0000 0000000000000000 ffffffff 00c09300 DPL=0 DS   [-WA]". */
struct segment {
	const char *label;
	unsigned selector, base, limit, attr; /* N_REGS: not set, as it is known from elsewhere */
	bool is_system; /* in long mode its base has 64 bits, even while 32-bit code runs */
};

static const struct segment segments[] = {
	{ "ES =", N_REGS, ES_BASE, ES_LIMIT, ES_ATTR, false },
	{ "CS =", N_REGS, CS_BASE, CS_LIMIT, CS_ATTR, false },
	{ "SS =", N_REGS, SS_BASE, SS_LIMIT, SS_ATTR, false },
	{ "DS =", N_REGS, DS_BASE, DS_LIMIT, DS_ATTR, false },
	{ "FS =", N_REGS, N_REGS, FS_LIMIT, FS_ATTR, false },
	{ "GS =", N_REGS, N_REGS, GS_LIMIT, GS_ATTR, false },
	{ "LDT=", LDTR, LDTR_BASE, LDTR_LIMIT, LDTR_ATTR, true },
	{ "TR =", TR, TR_BASE, TR_LIMIT, TR_ATTR, true },
};

/* Registers of a line "GDT=     fffffe000003c000 0000007f". */
static const struct {
	const char *label;
	unsigned base, limit;
} tables[] = {
	{ "GDT=     ", GDTR_BASE, GDTR_LIMIT },
	{ "IDT=     ", IDTR_BASE, IDTR_LIMIT },
};

/* The register of an item "DR0=0000000000000000". */
static const struct {
	const char *label;
	unsigned reg;
} debug_registers[] = {
	{ "\nDR0=", DR0 }, { " DR1=", DR1 },  { " DR2=", DR2 },
	{ " DR3=", DR3 },  { "\nDR6=", DR6 }, { " DR7=", DR7 },
};

/* The text that follows a label at the beginning of a line, or NULL. */
static const char *find_line(const char *text, const char *label)
{
	g_autofree char *start = g_strconcat("\n", label, NULL);
	const char *line = strstr(text, start);
	return line ? line + strlen(start) : NULL;
}

/* Takes a number of 4, 8 or 16 digits off *text, and the space that follows, if there is one. */
static bool take_hex(const char **text, unsigned *digits, uint64_t *ret)
{
	size_t n = strspn(*text, G_CSET_DIGITS "abcdef");
	char after = (*text)[n];
	if ((n != 4 && n != 8 && n != 16) || (after != ' ' && after != '\n'))
		return false;
	*digits = (unsigned)n;
	*ret = g_ascii_strtoull(*text, NULL, 16);
	*text += n + (after == ' ');
	return true;
}

static void set(struct vms_regs *regs, unsigned reg, uint64_t value)
{
	if (reg != N_REGS)
		vms_regs_set(regs, reg, value);
}

static bool parse_segment(const char *text, const struct segment *segment, bool long_mode,
			  struct vms_regs *regs)
{
	uint64_t selector, base, limit, flags;
	unsigned n[4];
	const char *line = find_line(text, segment->label);
	if (!line || !take_hex(&line, &n[0], &selector) || !take_hex(&line, &n[1], &base) ||
	    !take_hex(&line, &n[2], &limit) || !take_hex(&line, &n[3], &flags) || n[0] != 4 ||
	    n[1] == 4 || n[2] != 8 || n[3] != 8)
		return false;
	set(regs, segment->selector, selector);
	if (!segment->is_system || !long_mode || n[1] == 16)
		set(regs, segment->base, base);
	set(regs, segment->limit, limit);
	set(regs, segment->attr, flags >> X86_64_DESCRIPTOR_SHIFT & X86_64_ATTR_MASK);
	return true;
}

/* Parses the line of a descriptor table. Gives how many digits its address has. */
static bool parse_table(const char *text, size_t index, unsigned *digits, struct vms_regs *regs)
{
	uint64_t base, limit;
	unsigned n;
	const char *line = find_line(text, tables[index].label);
	if (!line || !take_hex(&line, digits, &base) || !take_hex(&line, &n, &limit) ||
	    *digits == 4 || n != 8 || limit > G_MAXUINT16)
		return false;
	vms_regs_set(regs, tables[index].base, base);
	vms_regs_set(regs, tables[index].limit, limit);
	return true;
}

/* Parses the debug registers, which follow each other on two lines. */
static bool parse_debug_registers(const char *text, struct vms_regs *regs)
{
	for (size_t i = 0; i < G_N_ELEMENTS(debug_registers); i++) {
		uint64_t value;
		unsigned n;
		text = strstr(text, debug_registers[i].label);
		if (!text)
			return false;
		text += strlen(debug_registers[i].label);
		const char *number = text;
		if (!take_hex(&number, &n, &value) || n == 4)
			return false;
		vms_regs_set(regs, debug_registers[i].reg, value);
	}
	return true;
}

bool vms_hmp_parse_x86_64_registers(const char *text, struct vms_regs *regs)
{
	struct vms_regs parsed = *regs;
	unsigned digits[G_N_ELEMENTS(tables)];
	for (size_t i = 0; i < G_N_ELEMENTS(tables); i++) {
		if (!parse_table(text, i, &digits[i], &parsed))
			return false;
	}
	for (size_t i = 0; i < G_N_ELEMENTS(segments); i++) {
		if (!parse_segment(text, &segments[i], digits[0] == 16, &parsed))
			return false;
	}
	if (digits[0] != digits[1] || !parse_debug_registers(text, &parsed))
		return false;
	*regs = parsed;
	return true;
}

/* The register of an item "RAX=0000000000000000". Outside of 64-bit code it is "EAX=00000000". */
static const struct {
	const char *label, *short_label;
	unsigned reg;
	bool optional; /* it is missing outside of 64-bit code */
} general_registers[] = {
	{ "RAX=", "EAX=", RAX, false }, { "RBX=", "EBX=", RBX, false },
	{ "RCX=", "ECX=", RCX, false }, { "RDX=", "EDX=", RDX, false },
	{ "RSI=", "ESI=", RSI, false }, { "RDI=", "EDI=", RDI, false },
	{ "RBP=", "EBP=", RBP, false }, { "RSP=", "ESP=", RSP, false },
	{ "R8 =", NULL, R8, true },	{ "R9 =", NULL, R9, true },
	{ "R10=", NULL, R10, true },	{ "R11=", NULL, R11, true },
	{ "R12=", NULL, R12, true },	{ "R13=", NULL, R13, true },
	{ "R14=", NULL, R14, true },	{ "R15=", NULL, R15, true },
	{ "RIP=", "EIP=", RIP, false }, { "RFL=", "EFL=", EFLAGS, false },
	{ "CR0=", NULL, CR0, false },	{ "CR2=", NULL, CR2, false },
	{ "CR3=", NULL, CR3, false },	{ "CR4=", NULL, CR4, false },
	{ "EFER=", NULL, EFER, false },
};

/* Finds the number behind a label that begins a line or follows a space. */
static bool find_item(const char *text, const char *label, uint64_t *ret)
{
	unsigned digits;
	for (const char *at = text; label && (at = strstr(at, label)); at++) {
		const char *number = at + strlen(label);
		if ((at == text || at[-1] == ' ' || at[-1] == '\n') &&
		    take_hex(&number, &digits, ret))
			return true;
	}
	return false;
}

/* Finds the selector and the base in "FS =0000 00007f0000000000 00000000 00000000 …". */
static bool find_segment(const char *text, const char *label, uint64_t *selector, uint64_t *base)
{
	const char *line = find_line(text, label);
	unsigned digits;
	return line && take_hex(&line, &digits, selector) && take_hex(&line, &digits, base);
}

bool vms_hmp_parse_x86_64_general(const char *text, struct vms_regs *regs)
{
	static const struct {
		const char *label;
		unsigned selector, base;
	} parts[] = { { "CS =", CS, N_REGS }, { "SS =", SS, N_REGS },  { "DS =", DS, N_REGS },
		      { "ES =", ES, N_REGS }, { "FS =", FS, FS_BASE }, { "GS =", GS, GS_BASE } };
	struct vms_regs parsed = *regs;
	uint64_t value, selector;
	for (size_t i = 0; i < G_N_ELEMENTS(general_registers); i++) {
		if (find_item(text, general_registers[i].label, &value) ||
		    find_item(text, general_registers[i].short_label, &value))
			vms_regs_set(&parsed, general_registers[i].reg, value);
		else if (!general_registers[i].optional)
			return false;
	}
	for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
		if (!find_segment(text, parts[i].label, &selector, &value))
			return false;
		vms_regs_set(&parsed, parts[i].selector, selector);
		set(&parsed, parts[i].base, value);
	}
	*regs = parsed;
	return true;
}

/* ---- wide registers ------------------------------------------------------------------- */

#define ST_COUNT 8u

/* Parses `size` bytes, the last one first, with spaces between groups. Returns what follows. */
static const char *take_bytes(const char *text, uint8_t *ret, size_t size)
{
	for (size_t i = size; i > 0; i--) {
		text += i < size && *text == ' ';
		const int high = g_ascii_xdigit_value(text[0]);
		const int low = high < 0 ? -1 : g_ascii_xdigit_value(text[1]);
		if (low < 0)
			return NULL;
		ret[i - 1] = (uint8_t)(high << 4 | low);
		text += 2;
	}
	return g_ascii_isxdigit(*text) ? NULL : text;
}

/* Parses "XMM00=… …", where the processor has no wider ones: else "YMM00=…" or "ZMM00=…". */
static void parse_vector(const char *text, unsigned number, struct vms_wide_regs *ret)
{
	static const struct {
		const char *name;
		uint8_t size;
	} widths[] = { { "XMM", 16 }, { "YMM", 32 }, { "ZMM", 64 } };
	for (size_t i = 0; i < G_N_ELEMENTS(widths) && !ret->size[number]; i++) {
		g_autofree char *label = g_strdup_printf("%s%02u=", widths[i].name, number);
		const char *value = strstr(text, label);
		if (value && take_bytes(value + strlen(label), ret->bytes[number], widths[i].size))
			ret->size[number] = widths[i].size;
	}
}

/* Parses "FPR0=c90fdaa22168c235 4000", the mantissa and the rest of a number of 80 bits. */
static bool parse_float(const char *text, unsigned physical, uint8_t ret[VMS_WIDE_80_BITS])
{
	g_autofree char *label = g_strdup_printf("FPR%u=", physical);
	const char *value = strstr(text, label);
	value = value ? take_bytes(value + strlen(label), ret, sizeof(uint64_t)) : NULL;
	return value && *value == ' ' &&
	       take_bytes(value + 1, ret + sizeof(uint64_t), sizeof(uint16_t));
}

/* Parses "FSW=3800 [ST=7]", the register at the top of the stack. */
static bool parse_top(const char *text, unsigned *ret)
{
	static const char label[] = " [ST=";
	const char *value = strstr(text, label);
	const int digit = value ? g_ascii_digit_value(value[strlen(label)]) : -1;
	*ret = (unsigned)digit;
	return digit >= 0 && *ret < ST_COUNT && value[strlen(label) + 1] == ']';
}

static void set_table(const struct vms_regs *regs, unsigned limit, unsigned base, unsigned number,
		      struct vms_wide_regs *ret)
{
	const uint16_t limit_le = GUINT16_TO_LE((uint16_t)regs->value[limit]);
	const uint64_t base_le = GUINT64_TO_LE(regs->value[base]);
	memcpy(ret->bytes[number], &limit_le, sizeof(limit_le));
	memcpy(ret->bytes[number] + sizeof(limit_le), &base_le, sizeof(base_le));
	ret->size[number] = VMS_WIDE_80_BITS;
}

bool vms_hmp_parse_x86_64_wide(const char *text, struct vms_wide_regs *ret)
{
	struct vms_regs regs = { 0 };
	unsigned top, digits;
	memset(ret->size, 0, sizeof(ret->size));
	if (!parse_table(text, 0, &digits, &regs) || !parse_table(text, 1, &digits, &regs) ||
	    !parse_top(text, &top))
		return false;
	set_table(&regs, GDTR_LIMIT, GDTR_BASE, VMS_WIDE_GDTR, ret);
	set_table(&regs, IDTR_LIMIT, IDTR_BASE, VMS_WIDE_IDTR, ret);
	for (unsigned i = 0; i < ST_COUNT; i++)
		if (parse_float(text, (top + i) % ST_COUNT, ret->bytes[VMS_WIDE_ST + i]))
			ret->size[VMS_WIDE_ST + i] = VMS_WIDE_80_BITS;
	for (unsigned i = 0; i < VMS_WIDE_VECTORS; i++)
		parse_vector(text, i, ret);
	return true;
}
