/* SPDX-License-Identifier: MIT */
/*
 * Registers of x86-64 read from QEMU's memory: those that neither its gdb stub nor its monitor
 * tells, and, where these would be too slow, those that a walk of stacks needs.
 *
 * QEMU has a table that says for migrations where in a vCPU's state each register is
 * (vmstate_x86_cpu), and a list of its vCPUs (cpus_queue). A QEMU that can load modules, as those
 * of distributions can, names both to the dynamic linker. Of other QEMUs these registers stay
 * unknown. Nothing is guessed: a vCPU's state is believed if the registers that are known otherwise
 * are in it, by the same table.
 */
#include "arch/x86_64.h"
#include "base/proc_text.h"
#include "machine/host/proc_path.h"
#include "machine/qemu/qemu.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FIELDS_MAX    512 /* of the table; QEMU 10.0 has 90 */
#define LEADING_MAX   16  /* words before the table's pointer to its fields */
#define NAME_BYTES    32
#define SYMBOLS_MAX   (1 << 20) /* QEMU 10.0 has 19,000 */
#define BLOCKS_MAX    8
#define VCPUS_AT_ONCE 64  /* that one system call reads: it takes 1024 blocks */
#define BLOCK_GAP     512 /* bytes that are cheaper to read than another block */
#define PAGE_SIZE     UINT64_C(4096)
#define PAGE_MASK     (PAGE_SIZE - 1)

/* What QEMU calls a register in its table. */
struct name {
	const char *name;
	unsigned reg;
};

/* Known otherwise. They are first of all the general registers: env.regs, in QEMU's order. */
static const struct name known[] = {
	{ "env.eip", RIP },
	{ "env.cr[3]", CR3 },
	{ "env.efer", EFER },
	{ "env.kernelgsbase", K_GS_BASE },
};
static const unsigned general[] = { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI,
				    R8,	 R9,  R10, R11, R12, R13, R14, R15 };
#define GENERAL "env.regs"

/* The other registers that the stub tells, but CR8, which is not in the table. */
static const struct name usual[] = {
	{ "env.eip", RIP },   { "env.eflags", EFLAGS },
	{ "env.cr[0]", CR0 }, { "env.cr[2]", CR2 },
	{ "env.cr[3]", CR3 }, { "env.cr[4]", CR4 },
	{ "env.efer", EFER }, { "env.kernelgsbase", K_GS_BASE },
};
/* Segments, in QEMU's order (SegmentCache). Only FS and GS have a base in 64-bit mode. */
struct segment {
	uint32_t selector, padding;
	uint64_t base;
	uint32_t limit, flags;
};
static const unsigned selectors[] = { ES, CS, SS, DS, FS, GS };
#define SEGMENTS   "env.segs"
#define FLAGS	   "env.hflags"
#define IN_64_BITS (UINT64_C(1) << 15) /* HF_CS64_MASK of FLAGS */

static const struct name wanted[] = {
	{ "env.star", STAR },
	{ "env.lstar", LSTAR },
	{ "env.cstar", CSTAR },
	{ "env.fmask", SFMASK },
	{ "env.pat", PAT },
	{ "env.tsc_aux", TSC_AUX },
	{ "env.sysenter_cs", SYSENTER_CS },
	{ "env.sysenter_esp", SYSENTER_ESP },
	{ "env.sysenter_eip", SYSENTER_EIP },
	{ "env.xcr0", XCR0 },
};

/* VMStateField of QEMU, as far as it matters (include/migration/vmstate.h). */
struct field {
	uint64_t name, hint, offset, size, start;
	int32_t n, padding;
	uint64_t n_offset, size_offset, kind;
	uint32_t flags, more_padding;
	uint64_t table;
	int32_t version, table_version;
	uint64_t exists;
};

/* Where in a vCPU's state a register is, in bytes; size 0: not known. */
struct place {
	uint64_t offset, size;
};

/* Bytes of a vCPU's state that are read at once. */
struct block {
	uint64_t offset, size;
	uint64_t at; /* where they are in the bytes that were read */
};

struct vms_vcpu_state {
	uint64_t queue; /* address of cpus_queue; 0: this QEMU does not tell */
	struct place general, known[G_N_ELEMENTS(known)], wanted[G_N_ELEMENTS(wanted)];
	struct place usual[G_N_ELEMENTS(usual)], segments, flags;
	GArray *vcpus; /* uint64_t: addresses of their states, in QEMU's order */
	/* What vms_vcpu_state_read reads of each vCPU. */
	struct block blocks[BLOCKS_MAX];
	unsigned n_blocks;
	uint64_t n_bytes;
	GArray *proved;	   /* uint64_t: the addresses by the machine's numbers of vCPUs */
	GByteArray *bytes; /* that were read last, of all vCPUs */
};

/* ---- QEMU's memory ----------------------------------------------------- */

static bool read_qemu(const struct vms_qemu *qemu, uint64_t va, void *buf, size_t size)
{
	struct iovec local = { buf, size }, remote = { (void *)(uintptr_t)va, size };
	return process_vm_readv(qemu->process.pid, &local, 1, &remote, 1, 0) == (ssize_t)size &&
	       vms_host_identity_is_alive(&qemu->process);
}

/* A page of QEMU's that was read last: what the table needs lies close together. */
struct window {
	uint64_t page; /* its address; 0: none */
	uint8_t bytes[PAGE_SIZE];
};

static bool read_window(const struct vms_qemu *qemu, struct window *window, uint64_t va, void *buf,
			size_t size)
{
	while (size > 0) {
		uint64_t page = va & ~PAGE_MASK;
		size_t part = MIN(size, PAGE_SIZE - (va - page));
		bool there = window->page == page ||
			     read_qemu(qemu, page, window->bytes, sizeof(window->bytes));
		window->page = there ? page : 0;
		if (!there)
			return false;
		memcpy(buf, window->bytes + (va - page), part);
		buf = (uint8_t *)buf + part;
		va += part;
		size -= part;
	}
	return true;
}

/* Reads a name of the table; "" if there is none. It may be the last on its page. */
static void read_name(const struct vms_qemu *qemu, struct window *window, uint64_t va,
		      char buf[NAME_BYTES])
{
	size_t size = (size_t)MIN(NAME_BYTES - 1, PAGE_SIZE - (va & PAGE_MASK));
	memset(buf, 0, NAME_BYTES);
	if (!read_window(qemu, window, va, buf, size))
		*buf = '\0';
}

/* Where QEMU's executable is loaded; 0: nobody knows. A program of another user is not looked at.
 */
static uint64_t find_executable(const struct vms_qemu *qemu, const char *path)
{
	g_autofree char *maps_path = vms_host_process_path(qemu->process.pid, "maps");
	struct vms_proc_mapping mapping;
	struct stat file;
	char *line = NULL;
	size_t size = 0;
	uint64_t found = 0;
	if (stat(path, &file) != 0 || (file.st_uid != 0 && file.st_uid != geteuid()))
		return 0;
	FILE *maps = fopen(maps_path, "re");
	while (maps && !found && getline(&line, &size, maps) > 0) {
		if (vms_proc_parse_mapping(line, &mapping) && mapping.inode == file.st_ino &&
		    mapping.device == file.st_dev && mapping.file_offset == 0)
			found = mapping.start;
	}
	free(line);
	if (maps)
		fclose(maps);
	return found;
}

/* ---- the table --------------------------------------------------------- */

/* Where the table's fields are: the first has the general registers. 0: there are none. */
static uint64_t find_fields(const struct vms_qemu *qemu, uint64_t table)
{
	uint64_t words[LEADING_MAX], at;
	struct window names = { 0 };
	char name[NAME_BYTES];
	if (!read_qemu(qemu, table, words, sizeof(words)))
		return 0;
	read_name(qemu, &names, words[0], name);
	for (size_t i = 1; strcmp(name, "cpu") == 0 && i < G_N_ELEMENTS(words); i++) {
		char first[NAME_BYTES] = "";
		if (read_qemu(qemu, words[i], &at, sizeof(at)))
			read_name(qemu, &names, at, first);
		if (strcmp(first, GENERAL) == 0)
			return words[i];
	}
	return 0;
}

static void take_field(const struct field *field, const char *name, const struct name *names,
		       size_t n, struct place *places)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(name, names[i].name) == 0 &&
		    (field->size == sizeof(uint32_t) || field->size == sizeof(uint64_t)))
			places[i] = (struct place) { field->offset, field->size };
	}
}

static bool read_table(const struct vms_qemu *qemu, uint64_t table, struct vms_vcpu_state *state)
{
	static const struct name registers = { GENERAL, RAX }, flags = { FLAGS, 0 };
	uint64_t at = find_fields(qemu, table);
	struct window fields = { 0 }, names = { 0 };
	struct field field = { 0 };
	char name[NAME_BYTES];
	for (unsigned i = 0; at && i < FIELDS_MAX; i++, at += sizeof(field)) {
		if (!read_window(qemu, &fields, at, &field, sizeof(field)) || field.name == 0)
			break;
		read_name(qemu, &names, field.name, name);
		take_field(&field, name, &registers, 1, &state->general);
		take_field(&field, name, &flags, 1, &state->flags);
		take_field(&field, name, usual, G_N_ELEMENTS(usual), state->usual);
		if (strcmp(name, SEGMENTS) == 0 && field.size == sizeof(struct segment))
			state->segments = (struct place) { field.offset, field.size };
		take_field(&field, name, known, G_N_ELEMENTS(known), state->known);
		take_field(&field, name, wanted, G_N_ELEMENTS(wanted), state->wanted);
	}
	return state->general.size == sizeof(uint64_t) && state->known[0].size;
}

/* Where symbols for the dynamic linker are, as the file counts; 0: it has none of that name. */
static void find_symbols(Elf *elf, const char *const *names, uint64_t *ret, size_t n)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header = { 0 };
	while ((section = elf_nextscn(elf, section)) && gelf_getshdr(section, &header) &&
	       header.sh_type != SHT_DYNSYM)
		;
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	size_t size = gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT);
	size_t n_symbols = data && size ? MIN(data->d_size / size, SYMBOLS_MAX) : 0;
	for (size_t i = 0; i < n_symbols; i++) {
		GElf_Sym symbol;
		const char *name = gelf_getsym(data, (int)i, &symbol)
					   ? elf_strptr(elf, header.sh_link, symbol.st_name)
					   : NULL;
		for (size_t j = 0; name && j < n; j++) {
			if (symbol.st_shndx != SHN_UNDEF && strcmp(name, names[j]) == 0)
				ret[j] = symbol.st_value;
		}
	}
}

static uint64_t first_address(Elf *elf)
{
	GElf_Phdr header;
	for (int i = 0; gelf_getphdr(elf, i, &header); i++) {
		if (header.p_type == PT_LOAD)
			return header.p_vaddr & ~PAGE_MASK;
	}
	return 0;
}

/* ---- what is read for a walk of stacks ---------------------------------- */

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Adds a place to the blocks, which come by offset. False if there are too many. */
static bool add_to_blocks(struct vms_vcpu_state *state, struct place place)
{
	struct block *last = state->n_blocks ? &state->blocks[state->n_blocks - 1] : NULL;
	const uint64_t end = place.offset + place.size;
	if (last && place.offset <= last->offset + last->size + BLOCK_GAP) {
		last->size = MAX(last->size, end - last->offset);
		return true;
	}
	if (state->n_blocks == BLOCKS_MAX)
		return false;
	state->blocks[state->n_blocks++] = (struct block) { place.offset, place.size, 0 };
	return true;
}

/* Plans the blocks. Leaves none if the table lacks a register. */
static void plan_blocks(struct vms_vcpu_state *state)
{
	struct place places[G_N_ELEMENTS(usual) + 3];
	bool ok = state->general.size && state->segments.size && state->flags.size;
	memcpy(places, state->usual, sizeof(state->usual));
	places[G_N_ELEMENTS(usual)] = state->flags;
	places[G_N_ELEMENTS(usual) + 1] =
		(struct place) { state->general.offset, G_N_ELEMENTS(general) * sizeof(uint64_t) };
	places[G_N_ELEMENTS(usual) + 2] =
		(struct place) { state->segments.offset,
				 G_N_ELEMENTS(selectors) * sizeof(struct segment) };
	qsort(places, G_N_ELEMENTS(places), sizeof(places[0]), compare_places);
	for (size_t i = 0; ok && i < G_N_ELEMENTS(places); i++)
		ok = places[i].size && add_to_blocks(state, places[i]);
	if (!ok)
		state->n_blocks = 0;
	for (unsigned i = 0; i < state->n_blocks; i++) {
		state->blocks[i].at = state->n_bytes;
		state->n_bytes += state->blocks[i].size;
	}
}

/* Finds QEMU's table and list, which takes a few milliseconds. */
static struct vms_vcpu_state *find_state(const struct vms_qemu *qemu)
{
	static const char *const names[] = { "vmstate_x86_cpu", "cpus_queue" };
	uint64_t symbols[G_N_ELEMENTS(names)] = { 0 };
	struct vms_vcpu_state *state = g_new0(struct vms_vcpu_state, 1);
	g_autofree char *path = vms_host_process_path(qemu->process.pid, "exe");
	uint64_t loaded = qemu->process.pid ? find_executable(qemu, path) : 0;
	int fd = loaded ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	elf_version(EV_CURRENT);
	Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
	state->vcpus = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	state->proved = g_array_new(FALSE, FALSE, sizeof(uint64_t));
	state->bytes = g_byte_array_new();
	if (elf && elf_kind(elf) == ELF_K_ELF) {
		find_symbols(elf, names, symbols, G_N_ELEMENTS(names));
		loaded -= first_address(elf);
	}
	if (symbols[0] && symbols[1] && read_table(qemu, symbols[0] + loaded, state))
		state->queue = symbols[1] + loaded;
	plan_blocks(state);
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	return state;
}

void vms_vcpu_state_free(struct vms_vcpu_state *state)
{
	if (!state)
		return;
	g_array_unref(state->vcpus);
	g_array_unref(state->proved);
	g_byte_array_unref(state->bytes);
	g_free(state);
}

/* ---- vCPUs ------------------------------------------------------------- */

/*
 * Lists the vCPUs. The list's head has the addresses of the first vCPU and of the last one's link;
 * a link those of the next vCPU and of the link before (QTAILQ). Links lie at one offset in a vCPU.
 */
static void list_vcpus(const struct vms_qemu *qemu, struct vms_vcpu_state *state)
{
	uint64_t head[2], link[2], links[VMS_QEMU_VCPUS_MAX];
	size_t n = 0;
	g_array_set_size(state->vcpus, 0);
	if (!read_qemu(qemu, state->queue, head, sizeof(head)))
		return;
	for (uint64_t at = head[1]; at != state->queue; at = link[1]) {
		if (n == VMS_QEMU_VCPUS_MAX || !read_qemu(qemu, at, link, sizeof(link)))
			return;
		links[n++] = at;
	}
	for (size_t i = n; i > 0; i--) {
		uint64_t vcpu = links[i - 1] - (links[n - 1] - head[0]);
		g_array_append_val(state->vcpus, vcpu);
	}
}

static bool read_place(const struct vms_qemu *qemu, uint64_t vcpu, struct place place,
		       uint64_t *ret)
{
	*ret = 0;
	return place.size && read_qemu(qemu, vcpu + place.offset, ret, place.size);
}

/* Has this state the registers that are known? */
static bool is_state_of(const struct vms_qemu *qemu, const struct vms_vcpu_state *state,
			uint64_t vcpu, const struct vms_regs *regs)
{
	uint64_t values[G_N_ELEMENTS(general)], value;
	if (!read_qemu(qemu, vcpu + state->general.offset, values, sizeof(values)))
		return false;
	for (size_t i = 0; i < G_N_ELEMENTS(general); i++) {
		if (!vms_regs_have(regs, general[i]) || values[i] != regs->value[general[i]])
			return false;
	}
	for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
		if (vms_regs_have(regs, known[i].reg) && state->known[i].size &&
		    (!read_place(qemu, vcpu, state->known[i], &value) ||
		     value != regs->value[known[i].reg]))
			return false;
	}
	return true;
}

/* The vCPU's state, 0 if it cannot be told. QEMU lists vCPUs as they were made, so mostly in order.
 */
static uint64_t find_vcpu(const struct vms_qemu *qemu, const struct vms_vcpu_state *state,
			  unsigned vcpu, const struct vms_regs *regs)
{
	for (guint i = 0; i < state->vcpus->len; i++) {
		uint64_t at = g_array_index(state->vcpus, uint64_t, (vcpu + i) % state->vcpus->len);
		if (is_state_of(qemu, state, at, regs))
			return at;
	}
	return 0;
}

bool vms_vcpu_state_find(struct vms_qemu *qemu)
{
	if (!qemu->vcpu_state)
		qemu->vcpu_state = find_state(qemu);
	return qemu->vcpu_state->queue;
}

void vms_qemu_add_state_regs(struct vms_qemu *qemu, unsigned vcpu, struct vms_regs *regs)
{
	uint64_t value;
	if (!vms_vcpu_state_find(qemu))
		return;
	struct vms_vcpu_state *state = qemu->vcpu_state;
	uint64_t at = find_vcpu(qemu, state, vcpu, regs);
	if (!at) {
		list_vcpus(qemu, state);
		at = find_vcpu(qemu, state, vcpu, regs);
	}
	for (size_t i = 0; at && i < G_N_ELEMENTS(wanted); i++) {
		if (read_place(qemu, at, state->wanted[i], &value))
			vms_regs_set(regs, wanted[i].reg, value);
	}
}

/* ---- all vCPUs at once -------------------------------------------------- */

/* Reads the blocks of these vCPUs into `state->bytes`. */
static bool read_blocks(const struct vms_qemu *qemu, struct vms_vcpu_state *state,
			const GArray *vcpus)
{
	struct iovec remote[BLOCKS_MAX * VCPUS_AT_ONCE];
	g_byte_array_set_size(state->bytes, (guint)(vcpus->len * state->n_bytes));
	for (guint i = 0; i < vcpus->len; i += VCPUS_AT_ONCE) {
		const guint n = MIN(vcpus->len - i, VCPUS_AT_ONCE);
		struct iovec local = { state->bytes->data + i * state->n_bytes,
				       n * state->n_bytes };
		unsigned n_remote = 0;
		for (guint j = i; j < i + n; j++) {
			for (unsigned k = 0; k < state->n_blocks; k++) {
				uint64_t va =
					g_array_index(vcpus, uint64_t, j) + state->blocks[k].offset;
				remote[n_remote++] = (struct iovec) { (void *)(uintptr_t)va,
								      state->blocks[k].size };
			}
		}
		if (process_vm_readv(qemu->process.pid, &local, 1, remote, n_remote, 0) !=
		    (ssize_t)local.iov_len)
			return false;
	}
	return vms_host_identity_is_alive(&qemu->process);
}

/* Takes a part of what was read of a vCPU. */
static void take(const struct vms_vcpu_state *state, guint vcpu, uint64_t offset, void *buf,
		 size_t size)
{
	for (unsigned i = 0; i < state->n_blocks; i++) {
		const struct block *block = &state->blocks[i];
		if (offset >= block->offset && offset + size <= block->offset + block->size)
			memcpy(buf,
			       state->bytes->data + vcpu * state->n_bytes + block->at +
				       (offset - block->offset),
			       size);
	}
}

static uint64_t take_place(const struct vms_vcpu_state *state, guint vcpu, struct place place)
{
	uint64_t value = 0;
	take(state, vcpu, place.offset, &value, place.size);
	return value;
}

/* Outside of 64-bit mode registers have the form that the stub gives them: 32 bits. */
static struct vms_regs take_regs(const struct vms_vcpu_state *state, guint vcpu)
{
	uint64_t values[G_N_ELEMENTS(general)];
	struct segment segments[G_N_ELEMENTS(selectors)];
	struct vms_regs regs = { 0 };
	const uint64_t flags = take_place(state, vcpu, state->flags);
	const uint64_t mask = flags & IN_64_BITS ? UINT64_MAX : UINT32_MAX;
	take(state, vcpu, state->general.offset, values, sizeof(values));
	take(state, vcpu, state->segments.offset, segments, sizeof(segments));
	for (size_t i = 0; i < G_N_ELEMENTS(general); i++)
		vms_regs_set(&regs, general[i], values[i] & mask);
	for (size_t i = 0; i < G_N_ELEMENTS(usual); i++)
		vms_regs_set(&regs, usual[i].reg, take_place(state, vcpu, state->usual[i]) & mask);
	for (size_t i = 0; i < G_N_ELEMENTS(selectors); i++) {
		vms_regs_set(&regs, selectors[i], segments[i].selector);
		if (selectors[i] == FS || selectors[i] == GS)
			vms_regs_set(&regs, selectors[i] == FS ? FS_BASE : GS_BASE,
				     segments[i].base & mask);
	}
	return regs;
}

/* True if both have the same value of each register that was read from QEMU's memory. */
static bool are_equal(const struct vms_regs *read, const struct vms_regs *told)
{
	for (unsigned i = 0; i < N_REGS; i++)
		if (vms_regs_have(read, i) &&
		    (!vms_regs_have(told, i) || read->value[i] != told->value[i]))
			return false;
	return true;
}

/* Returns the index of the only state that has these registers. -1: there is none, or several. */
static int find_only(const struct vms_regs *states, guint n, const struct vms_regs *regs)
{
	int found = -1;
	for (guint i = 0; i < n; i++) {
		if (!are_equal(&states[i], regs))
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

bool vms_vcpu_state_prove(struct vms_qemu *qemu, const struct vms_regs *regs, unsigned n)
{
	struct vms_vcpu_state *state = qemu->vcpu_state;
	g_array_set_size(state->proved, 0);
	if (!state->n_blocks)
		return false;
	list_vcpus(qemu, state);
	if (state->vcpus->len != n || !read_blocks(qemu, state, state->vcpus))
		return false;
	g_autofree struct vms_regs *states = g_new(struct vms_regs, n);
	for (unsigned i = 0; i < n; i++)
		states[i] = take_regs(state, i);
	for (unsigned i = 0; i < n; i++) {
		const int at = find_only(states, n, &regs[i]);
		if (at < 0)
			break;
		g_array_append_val(state->proved, g_array_index(state->vcpus, uint64_t, at));
	}
	return state->proved->len == n;
}

bool vms_vcpu_state_read(struct vms_qemu *qemu, struct vms_regs *ret, unsigned n)
{
	struct vms_vcpu_state *state = qemu->vcpu_state;
	if (state->proved->len != n || !read_blocks(qemu, state, state->proved))
		return false;
	for (unsigned i = 0; i < n; i++)
		ret[i] = take_regs(state, i);
	return true;
}
