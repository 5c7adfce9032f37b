/* SPDX-License-Identifier: MIT */
/*
 * Finds a Linux kernel. The page tables of any vCPU show where its image is mapped. The image holds
 * the banner and kallsyms. The symbols lead to everything else.
 */
#include "guest/linux/detect.h"
#include "base/clock.h"
#include "guest/linux/core_vcpus.h"
#include "guest/linux/kallsyms.h"
#include "guest/linux/kernel_code.h"
#include "guest/linux/kernel_image.h"
#include "guest/linux/memory_map.h"
#include "guest/linux/module.h"
#include "guest/linux/orc_load.h"
#include "guest/linux/page_cache.h"
#include "guest/linux/process.h"
#include "guest/linux/task.h"
#include "guest/linux/task_facts.h"
#include "guest/linux/trampoline.h"
#include "guest/linux/types.h"
#include "guest/linux/unlisted_symbols.h"
#include "guest/linux/uts.h"
#include "guest/linux/vcpu_bases.h"
#include "guest/linux/vmcoreinfo.h"
#include "machine/refusal.h"
#include <vmscope/log.h>

/* How many pages that look like VMCOREINFO are tried: some are copies, or of earlier boots. */
#define SCAN_HITS_LIMIT 16
/* How often to look at a kernel that is understood in part, and the pause between two looks. */
#define LOOKS_LIMIT    3
#define LOOKS_PAUSE_US 20000
/* Offset of the frame record in struct pt_regs on aarch64, up to 6.13. */
#define USUAL_PT_REGS_RECORD 304

/* Logs how long a phase of the detection took, and begins the next. */
static void log_phase(const char *phase, uint64_t *begin_ns)
{
	uint64_t now_ns = vms_clock_now_ns();
	vms_log(VMS_LOG_DEBUG, "%s: %.1f ms", phase, (double)(now_ns - *begin_ns) / 1e6);
	*begin_ns = now_ns;
}

/* ---- the parts of a kernel that was found ----------------------------- */

/*
 * Loads the symbols; without kallsyms, makes an empty table. The image gets the bounds that the
 * symbols tell, because the mapping may be longer.
 */
static void load_symbols(struct vms_linux *guest, const struct vms_kernel_image *image)
{
	g_autoptr(GError) error = NULL;
	guest->image = image->va;
	guest->image_end = image->va + image->bytes.size;
	guest->symbols = vms_kallsyms_parse(image->bytes, image->va, &error);
	if (!guest->symbols) {
		vms_log(VMS_LOG_INFO, "%s", error->message);
		guest->symbols = vms_symbol_table_new("vmlinux");
		vms_symbol_table_finish(guest->symbols, guest->image_end);
	}
	uint64_t va;
	if (vms_linux_symbol(guest, "_text", &va) || vms_linux_symbol(guest, "_stext", &va))
		guest->image = va;
	if (vms_linux_symbol(guest, "_end", &va) && va > guest->image)
		guest->image_end = va;
}

/* Finds where code is. Without symbols it may be anywhere in the image. */
static void load_text(struct vms_linux *guest)
{
	static const char *const bounds[][2] = { { "_stext", "_etext" },
						 { "_sinittext", "_einittext" } };
	G_STATIC_ASSERT(G_N_ELEMENTS(bounds) == G_N_ELEMENTS(guest->text));
	for (size_t i = 0; i < G_N_ELEMENTS(bounds); i++) {
		uint64_t begin, end;
		if (!vms_linux_symbol(guest, bounds[i][0], &begin) ||
		    !vms_linux_symbol(guest, bounds[i][1], &end))
			continue;
		guest->text[i].begin = begin;
		guest->text[i].end = end;
	}
	if (!vms_linux_symbol(guest, "__entry_text_start", &guest->entry_text.begin) ||
	    !vms_linux_symbol(guest, "__entry_text_end", &guest->entry_text.end))
		guest->entry_text.begin = guest->entry_text.end = 0;
	if (guest->text[0].begin == guest->text[0].end) {
		guest->text[0].begin = guest->image;
		guest->text[0].end = guest->image_end;
	}
}

/* Finds the kernel's own root page table. If kallsyms has functions only, VMCOREINFO tells it. */
static bool find_root(const struct vms_linux *guest, const struct vms_linux_arch *arch,
		      uint64_t *ret)
{
	return vms_linux_symbol(guest, arch->root_symbol, ret) ||
	       (guest->vmcoreinfo &&
		vms_vmcoreinfo_hex(guest->vmcoreinfo, "SYMBOL(swapper_pg_dir)", ret));
}

/*
 * Replaces the page tables of a process by the kernel's own, if these can be found. The process may
 * have ended, and its tables may hold anything. So the tables' address is translated by the pages
 * that were found to map the image.
 */
static void use_own_page_tables(struct vms_linux *guest, const struct vms_linux_arch *arch,
				const GArray *pages)
{
	uint64_t root, pa;
	struct vms_page page;
	if (guest->has_own_tables || !find_root(guest, arch, &root) ||
	    !vms_kernel_image_translate(pages, root, &pa))
		return;
	struct vms_regs regs = *vms_memory_regs(guest->memory);
	arch->set_root(&regs, pa);
	g_autoptr(vms_memory) memory = vms_memory_new(guest->machine, &regs);
	guest->has_own_tables =
		vms_memory_translate(memory, root, &page) && page.pa + (root - page.va) == pa;
	if (guest->has_own_tables)
		vms_memory_set_regs(guest->memory, &regs);
}

/* Reads through the page tables of these registers from now on, if they map the kernel. */
static void renew_tables(struct vms_linux *guest, const struct vms_regs *regs)
{
	struct vms_page page;
	g_autoptr(vms_memory) memory = vms_memory_new(guest->machine, regs);
	if (!vms_memory_translate(memory, guest->image, &page))
		return;
	g_mutex_lock(&guest->lock);
	vms_memory_set_regs(guest->memory, regs);
	g_mutex_unlock(&guest->lock);
}

bool vms_linux_follow_tables(void *system, GError **error)
{
	struct vms_linux *guest = system;
	struct vms_regs regs;
	if (guest->has_own_tables)
		return true;
	if (!vms_machine_hold(guest->machine, 0, error))
		return false;
	bool read = vms_machine_regs(guest->machine, 0, &regs, error);
	if (read)
		renew_tables(guest, &regs);
	return vms_machine_release(guest->machine, 0, read ? error : NULL) && read;
}

/*
 * Loads the banner that /proc/version shows. An image may hold a second one, which was compiled
 * before the build's number was known (commit 2df8220cc511 ("kbuild: build init/built-in.a just
 * once") (in v6.1)).
 */
static void load_banner(struct vms_linux *guest, const struct vms_kernel_image *image)
{
	uint64_t va;
	if (!vms_linux_symbol(guest, "linux_banner", &va))
		return;
	char *banner = vms_linux_banner_at(image->bytes, va - image->va);
	if (banner) {
		g_free(guest->banner);
		guest->banner = banner;
	}
}

/* Loads VMCOREINFO from the page that the kernel's pointer leads to. */
static void load_vmcoreinfo(struct vms_linux *guest)
{
	uint64_t pointer, va;
	uint8_t page[VMS_VMCOREINFO_SIZE];
	if (guest->vmcoreinfo || !vms_linux_symbol(guest, "vmcoreinfo_data", &pointer) ||
	    !vms_memory_read_u64(guest->memory, pointer, &va) ||
	    !vms_memory_read(guest->memory, va, page, sizeof(page)))
		return;
	guest->vmcoreinfo = vms_vmcoreinfo_text((struct vms_bytes) { page, sizeof(page) });
}

static void load_uts(struct vms_linux *guest)
{
	uint64_t va;
	uint8_t ns[512];
	struct vms_uts uts;
	if (!vms_linux_symbol(guest, "init_uts_ns", &va) &&
	    !(guest->vmcoreinfo &&
	      vms_vmcoreinfo_hex(guest->vmcoreinfo, "SYMBOL(init_uts_ns)", &va)))
		va = 0;
	if (!va || !vms_memory_read(guest->memory, va, ns, sizeof(ns)) ||
	    !vms_uts_from_namespace((struct vms_bytes) { ns, sizeof(ns) }, guest->banner, &uts))
		vms_uts_from_banner(guest->banner, &uts);
	guest->release = uts.release;
	guest->version = uts.version;
	guest->hostname = uts.hostname;
}

static void load_kaslr_offset(struct vms_linux *guest, const struct vms_linux_arch *arch)
{
	if (!guest->vmcoreinfo ||
	    !vms_vmcoreinfo_hex(guest->vmcoreinfo, "KERNELOFFSET", &guest->kaslr_offset))
		guest->kaslr_offset = guest->image - arch->link_text;
}

static struct vms_btf *load_btf(struct vms_linux *guest, GError **error)
{
	/* A kernel's BTF has about 5 MiB. */
	const uint64_t limit = 64 << 20;
	uint64_t begin, end;
	if (!vms_linux_symbol(guest, "__start_BTF", &begin) ||
	    !vms_linux_symbol(guest, "__stop_BTF", &end) || end <= begin || end - begin > limit) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "the kernel carries no BTF");
		return NULL;
	}
	g_autofree uint8_t *data = g_malloc(end - begin);
	if (!vms_linux_read_constant(guest, begin, data, end - begin)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "the kernel's BTF cannot be read");
		return NULL;
	}
	return vms_btf_new((struct vms_bytes) { data, end - begin, guest->budget }, error);
}

static void load_types(struct vms_linux *guest)
{
	g_autoptr(GError) error = NULL;
	struct vms_btf_member record;
	guest->pt_regs_record = USUAL_PT_REGS_RECORD;
	guest->btf = load_btf(guest, &error);
	if (guest->btf && vms_btf_member(guest->btf, "pt_regs", "stackframe", &record))
		guest->pt_regs_record = record.offset;
	if (guest->btf)
		return;
	g_autofree char *text = g_strdup_printf(
		"no tasks, modules and memory areas can be read: %s", error->message);
	if (g_error_matches(error, VMS_ERROR, VMS_ERROR_NOT_FOUND))
		vms_log(VMS_LOG_INFO, "%s", text);
	else
		vms_linux_note_missing(guest, text);
}

/* Loads tasks, processes and modules. They need the types and unwind tables. */
static void load_tasks_and_modules(struct vms_linux *guest)
{
	g_autoptr(GError) error = NULL;
	guest->tasks = vms_linux_tasks_new(guest);
	guest->task_facts = vms_linux_task_facts_new(guest);
	guest->page_cache = vms_page_cache_new(guest);
	guest->processes = vms_linux_processes_new(guest);
	guest->modules = vms_linux_modules_new(guest);
	if (!vms_linux_refresh_code(guest, &error) && guest->modules)
		vms_linux_note_missing(guest, error->message);
}

/* ---- finding it ------------------------------------------------------- */

/*
 * Loads the guest whose image is mapped by `pages`. `regs` lead to page tables that map it.
 * `vmcoreinfo` may be NULL, and is copied. Returns NULL if the image is no Linux.
 */
static struct vms_linux *load_guest(struct vms_machine *machine, const struct vms_linux_arch *arch,
				    const struct vms_regs *regs, const GArray *pages,
				    const char *found_by, const char *vmcoreinfo)
{
	uint64_t phase_ns = vms_clock_now_ns();
	struct vms_kernel_image image;
	vms_kernel_image_read(machine, pages, &image);
	log_phase("Reading the kernel's image", &phase_ns);

	struct vms_linux *guest = NULL;
	char *banner = vms_linux_banner(image.bytes);
	if (banner) {
		guest = g_new0(struct vms_linux, 1);
		g_mutex_init(&guest->lock);
		guest->machine = vms_machine_ref(machine);
		guest->arch = arch->arch;
		guest->budget =
			vms_budget_new_first(vms_machine_budget(machine), "the guest's kernel");
		guest->memory = vms_memory_new(machine, regs);
		vms_memory_set_budget(guest->memory, guest->budget);
		image.bytes.budget = guest->budget;
		guest->banner = banner;
		guest->found_by = found_by;
		guest->vmcoreinfo = g_strdup(vmcoreinfo);
		guest->read_image = image.is_complete ? &image : NULL;
		guest->symbolizer = vms_symbolizer_new();
		load_symbols(guest, &image);
		load_text(guest);
		vms_linux_map_image(guest);
		vms_linux_find_image_pa(guest, pages);
		vms_linux_find_unlisted(guest, &image);
		load_banner(guest, &image);
		log_phase("Kernel symbols", &phase_ns);
		use_own_page_tables(guest, arch, pages);
		load_vmcoreinfo(guest);
		use_own_page_tables(guest, arch, pages);
		if (!guest->has_own_tables)
			vms_log(VMS_LOG_DEBUG,
				"the kernel's own page tables are not known: it is "
				"looked at through those that %s showed",
				found_by);
		load_uts(guest);
		load_kaslr_offset(guest, arch);
		guest->page_size = arch->page_size(vms_memory_regs(guest->memory));
		load_types(guest);
		vms_linux_find_unlisted_by_types(guest, &image);
		log_phase("Kernel types", &phase_ns);
		guest->orc = vms_linux_orc_load(guest);
		log_phase("Unwind tables", &phase_ns);
		guest->read_image = NULL;
		load_tasks_and_modules(guest);
		log_phase("Modules", &phase_ns);
	}
	vms_kernel_image_clear(&image);
	return guest;
}

static bool has_paging(struct vms_memory *memory, const struct vms_linux_arch *arch)
{
	struct vms_page page;
	return !vms_memory_translate(memory, arch->image_first, &page) || page.pa != page.va;
}

/*
 * Finds the pages of the image by the page tables of the vCPUs. The first vCPU that maps a kernel
 * decides. NULL if none does. `*paging` becomes true if any vCPU has paging on.
 */
static GArray *map_image_by_vcpus(struct vms_machine *machine, const struct vms_linux_arch *arch,
				  struct vms_regs *regs, bool *paging, GError **error)
{
	GArray *pages = NULL;
	uint64_t steps = VMS_PAGE_STEPS;
	for (unsigned i = 0; i < vms_machine_vcpus(machine) && !pages && steps > 0; i++) {
		if (!vms_machine_regs(machine, i, regs, error))
			return NULL;
		g_autoptr(vms_memory) memory = vms_memory_new(machine, regs);
		*paging |= has_paging(memory, arch);
		pages = vms_kernel_image_map(memory, arch, &steps);
		/* These lead to the kernel's tables, also if a user program runs. */
		*regs = *vms_memory_regs(memory);
		vms_log(VMS_LOG_DEBUG, "vCPU %u: %s, %s", i, arch->arch->paging_mode(regs),
			pages ? "a kernel is mapped" : "no kernel is mapped");
	}
	return pages;
}

/* True if the failure comes from the machine's present state, which may change. */
static bool may_pass(const GError *failure)
{
	return g_error_matches(failure, VMS_ERROR, VMS_ERROR_INVALID_STATE) ||
	       vms_hold_was_refused(failure);
}

/*
 * As map_image_by_vcpus, for a machine that is not held yet. It tries again in two cases: the hold
 * ended too early (the watchdog may end it), or the machine could only be observed and showed no
 * kernel (the process that ran may have ended meanwhile). `*refused` is true if the machine could
 * not even be observed.
 */
static GArray *map_image(struct vms_machine *machine, const struct vms_linux_arch *arch,
			 struct vms_regs *regs, bool *paging, bool *refused, GError **error)
{
	for (unsigned looks = 1;; looks++) {
		GError *failure = NULL;
		g_autoptr(GArray) pages = NULL;
		bool is_held = false, is_last = looks == LOOKS_LIMIT;
		*refused = !vms_machine_observe(machine, &failure);
		if (!*refused) {
			is_held = vms_machine_epoch(machine, VMS_ALL_VCPUS) != 0;
			pages = map_image_by_vcpus(machine, arch, regs, paging, &failure);
			vms_machine_release(machine, VMS_ALL_VCPUS, failure ? NULL : &failure);
		}
		if (!failure && (pages || is_held || is_last))
			return g_steal_pointer(&pages);
		if (failure && (*refused || !may_pass(failure) || is_last)) {
			g_propagate_error(error, failure);
			return NULL;
		}
		g_clear_error(&failure);
	}
}

/* Loads the kernel that a VMCOREINFO tells of. NULL if it is left from an earlier boot. */
static struct vms_linux *detect_by_vmcoreinfo(struct vms_machine *machine,
					      const struct vms_linux_arch *arch,
					      const char *vmcoreinfo, const char *found_by,
					      uint64_t *steps)
{
	struct vms_regs regs;
	if (!arch->regs_from_vmcoreinfo(vmcoreinfo, &regs))
		return NULL;
	g_autoptr(vms_memory) memory = vms_memory_new(machine, &regs);
	g_autoptr(GArray) pages = vms_kernel_image_map(memory, arch, steps);
	return pages ? load_guest(machine, arch, &regs, pages, found_by, vmcoreinfo) : NULL;
}

/* Searches memory for VMCOREINFO. `*is_cut` is true if not all memory could be searched. */
static struct vms_linux *detect_by_scan(struct vms_machine *machine,
					const struct vms_linux_arch *arch, bool *is_cut)
{
	uint64_t phase_ns = vms_clock_now_ns(), steps = VMS_PAGE_STEPS;
	struct vms_vmcoreinfo_search search = { 0 };
	struct vms_linux *guest = NULL;
	for (unsigned i = 0; i < SCAN_HITS_LIMIT && !guest; i++) {
		g_autofree char *vmcoreinfo = vms_vmcoreinfo_scan(machine, &search);
		if (!vmcoreinfo)
			break;
		guest = detect_by_vmcoreinfo(machine, arch, vmcoreinfo, "VMCOREINFO in memory",
					     &steps);
	}
	log_phase("Searching memory for VMCOREINFO", &phase_ns);
	*is_cut = search.is_cut;
	return guest;
}

static const struct vms_linux_arch *find_arch(struct vms_machine *machine, char **why)
{
	const struct vms_arch *arch = vms_machine_arch(machine);
	const struct vms_linux_arch *linux_arch = vms_linux_arch_of(arch);
	if (!linux_arch)
		*why = g_strdup_printf("Linux guests are not known on %s", arch->name);
	return linux_arch;
}

struct vms_linux *vms_linux_detect_by_scan(struct vms_machine *machine, char **why)
{
	const struct vms_linux_arch *arch = find_arch(machine, why);
	bool is_cut = false;
	struct vms_linux *guest = arch ? detect_by_scan(machine, arch, &is_cut) : NULL;
	size_t n_ranges;
	vms_machine_ranges(machine, &n_ranges);
	if (!arch || guest)
		return guest;
	if (is_cut)
		*why = g_strdup_printf(
			"the first %u MiB of memory hold no VMCOREINFO that leads to one; the "
			"rest is not searched, as the guest stands still while a gdb stub reads it",
			(unsigned)(VMS_VMCOREINFO_STOPPED_MAX >> 20));
	else
		*why = g_strdup(n_ranges ? "no page of memory holds a VMCOREINFO that leads to one"
					 : "it is not known where the machine has memory, so that "
					   "VMCOREINFO cannot be searched for");
	return NULL;
}

/* Loads the kernel that the VMCOREINFO of a core file leads to, or a search of memory. */
static struct vms_linux *detect_without_vcpus(struct vms_machine *machine,
					      const struct vms_linux_arch *arch, char **why)
{
	const char *vmcoreinfo = vms_machine_vmcoreinfo(machine);
	struct vms_linux *guest = NULL;
	uint64_t steps = VMS_PAGE_STEPS;
	if (vmcoreinfo)
		guest = detect_by_vmcoreinfo(machine, arch, vmcoreinfo, "VMCOREINFO of the file",
					     &steps);
	return guest ?: vms_linux_detect_by_scan(machine, why);
}

/*
 * Detects the kernel of a machine that can be neither held nor observed now, as during a migration.
 * Its memory can still be read. Takes `refusal`, which is the error if nothing is found.
 */
static struct vms_linux *detect_unheld(struct vms_machine *machine,
				       const struct vms_linux_arch *arch, GError *refusal,
				       GError **error)
{
	g_autofree char *why = NULL;
	vms_log(VMS_LOG_INFO, "a kernel is searched for in memory alone: %s", refusal->message);
	struct vms_linux *guest = detect_without_vcpus(machine, arch, &why);
	if (guest) {
		g_error_free(refusal);
		return guest;
	}
	vms_log(VMS_LOG_INFO, "%s", why);
	g_propagate_error(error, refusal);
	return NULL;
}

static struct vms_linux *detect_once(struct vms_machine *machine, const struct vms_linux_arch *arch,
				     char **why, GError **error)
{
	GError *failure = NULL;
	struct vms_regs regs;
	uint64_t phase_ns = vms_clock_now_ns();
	bool paging = false, refused, is_core = vms_machine_info(machine)->is_core;
	g_autoptr(GArray) pages = map_image(machine, arch, &regs, &paging, &refused, &failure);
	log_phase("Finding the kernel's image", &phase_ns);
	if (refused && may_pass(failure))
		return detect_unheld(machine, arch, failure, error);
	if (failure) {
		g_propagate_error(error, failure);
		return NULL;
	}
	struct vms_linux *guest = NULL;
	if (pages)
		guest = load_guest(machine, arch, &regs, pages, "the page tables of a vCPU", NULL);
	/* A core file may lack the registers that tell whether paging is on. */
	if (!guest && !paging && !is_core) {
		*why = g_strdup("no vCPU has paging on, as under firmware and early in a boot");
	} else if (!guest) {
		g_autofree char *why_no_scan = NULL;
		guest = detect_without_vcpus(machine, arch, &why_no_scan);
		if (!guest)
			*why = g_strconcat("no vCPU's page tables map a Linux kernel, and ",
					   why_no_scan, NULL);
	}
	return guest;
}

/*
 * Detects again what was understood in part: a kernel that boots or loads modules may show more a
 * moment later. Takes `guest`, and returns the last one. A core file does not change.
 */
static struct vms_linux *detect_again(struct vms_linux *guest, const struct vms_linux_arch *arch)
{
	struct vms_machine *machine = guest->machine;
	if (vms_machine_info(machine)->is_core)
		return guest;
	for (unsigned looks = 1; guest->missing && looks < LOOKS_LIMIT; looks++) {
		g_autofree char *why = NULL;
		if (vms_machine_ended(machine) == VMS_MACHINE_GONE)
			break;
		vms_log(VMS_LOG_DEBUG, "The guest is looked at again: %s", guest->missing);
		g_usleep(LOOKS_PAUSE_US);
		struct vms_linux *anew = detect_once(machine, arch, &why, NULL);
		if (!anew)
			continue;
		vms_linux_free(guest);
		guest = anew;
	}
	return guest;
}

void *vms_linux_detect(struct vms_machine *machine, char **why, GError **error)
{
	const struct vms_linux_arch *arch = find_arch(machine, why);
	struct vms_linux *guest = arch ? detect_once(machine, arch, why, error) : NULL;
	if (!guest)
		return NULL;
	guest = detect_again(guest, arch);
	if (!vms_linux_check_memory_map(guest, error)) {
		vms_linux_free(guest);
		return NULL;
	}
	if (guest->missing && vms_machine_ended(machine) == VMS_MACHINE_GONE) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED, "%s has ended, or hung up",
			    vms_machine_info(machine)->name);
		vms_linux_free(guest);
		return NULL;
	}
	/* After a reset, the remains of the last kernel may be found, and they lack a lot. */
	if (guest->missing)
		vms_log(vms_machine_resets(machine) > 0 ? VMS_LOG_INFO : VMS_LOG_WARNING, "%s",
			guest->missing);
	if (vms_machine_info(machine)->is_core)
		vms_linux_complete_vcpus(guest);
	else if (vms_machine_holds_each(machine))
		vms_linux_learn_bases(guest);
	return guest;
}

void vms_linux_free(void *system)
{
	struct vms_linux *guest = system;
	if (!guest)
		return;
	vms_symbol_table_unref(guest->bpf);
	vms_symbolizer_unref(guest->symbolizer);
	vms_linux_modules_free(guest->modules);
	vms_linux_processes_free(guest->processes);
	vms_page_cache_unref(guest->page_cache);
	vms_linux_task_facts_free(guest->task_facts);
	vms_linux_tasks_free(guest->tasks);
	vms_orc_free(guest->orc);
	vms_linux_types_free(guest->types);
	vms_btf_free(guest->btf);
	g_clear_pointer(&guest->variables, g_hash_table_unref);
	g_free(guest->vmcoreinfo);
	g_free(guest->missing);
	g_free(guest->banner);
	g_free(guest->release);
	g_free(guest->version);
	g_free(guest->hostname);
	vms_symbol_table_unref(guest->symbols);
	vms_memory_free(guest->memory);
	vms_budget_unref(guest->budget);
	vms_machine_unref(guest->machine);
	g_mutex_clear(&guest->lock);
	g_free(guest);
}
