/* SPDX-License-Identifier: MIT */
/* Opens the machine of a KVM process: its memory, its vCPUs, their threads, and the holder. */
#include "machine/kvm/kvm_engine.h"

#include "base/text.h"
#include "machine/host/proc_path.h"
#include "machine/kvm/infer_map.h"
#include "machine/kvm/kvm_machine.h"
#include "machine/kvm/obstacle.h"
#include "machine/kvm/pairing.h"
#include "machine/qemu/recover.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

static struct vms_kvm_vcpu *vcpu_at(GArray *vcpus, guint i)
{
	return &g_array_index(vcpus, struct vms_kvm_vcpu, i);
}

/* ---- vCPUs and the holder ------------------------------------------------------------------ */

/* A vCPU whose page is not mapped was unplugged, or is not used yet. */
static void drop_unmapped(GArray *vcpus)
{
	for (guint i = vcpus->len; i > 0; i--)
		if (!vcpu_at(vcpus, i - 1)->run_hva)
			g_array_remove_index(vcpus, i - 1);
}

static void prepare_slots(struct vms_kvm_machine *kvm)
{
	for (guint i = 0; i < kvm->vcpus->len; i++) {
		const struct vms_kvm_vcpu *vcpu = vcpu_at(kvm->vcpus, i);
		struct vms_kvm_slot *slot = vms_kvm_holder_slot(kvm->holder, i);
		slot->run_hva = vcpu->run_hva;
		memcpy(slot->fds, vcpu->fds, sizeof(slot->fds));
		slot->n_fds = vcpu->n_fds;
		atomic_store(&slot->tid, vcpu->thread);
		kvm->qemu.machine.vcpu_threads[i] = vcpu->thread;
	}
}

/* Starts the holder, which keeps the files that memory is read from. */
static bool start_holder(struct vms_kvm_machine *kvm, GError **error)
{
	kvm->files = vms_ram_files(vms_kvm_ram(kvm));
	kvm->holds = g_new0(struct vms_kvm_hold, kvm->vcpus->len);
	kvm->holder =
		vms_kvm_holder_new(&kvm->qemu.process, kvm->memory, kvm->vcpus->len + 1,
				   (const int *)(void *)kvm->files->data, kvm->files->len, error);
	return kvm->holder;
}

static bool list_vcpus(struct vms_kvm_machine *kvm, GError **error)
{
	const pid_t pid = kvm->qemu.process.pid;
	g_autofree char *path = vms_host_process_path(pid, "mem");
	kvm->memory = open(path, O_RDWR | O_CLOEXEC);
	if (kvm->memory < 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
			    "cannot have KVM store the registers of process %d: %s: %s", (int)pid,
			    path, g_strerror(errno));
		return false;
	}
	kvm->vcpus = vms_kvm_list_vcpus(pid, error);
	if (!kvm->vcpus)
		return false;
	drop_unmapped(kvm->vcpus);
	if (kvm->vcpus->len > 0)
		return true;
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
		"process %d has descriptors of vCPUs, but does not run any: look at the process "
		"that has created them",
		(int)pid);
	return false;
}

/* ---- a process of which nothing is known but /proc ------------------------------------------ */

/* The executable's name, fit for a terminal. */
static const char *name_process(struct vms_kvm_machine *kvm)
{
	g_autofree char *path = vms_host_process_path(kvm->qemu.process.pid, "exe");
	g_autofree char *target = g_file_read_link(path, NULL);
	g_autofree char *name = g_path_get_basename(target ? target : "kvm");
	vms_text_clean(name);
	return g_string_chunk_insert(kvm->qemu.strings, name);
}

static void describe(struct vms_kvm_machine *kvm)
{
	struct vms_machine_info *info = &kvm->qemu.machine.info;
	info->name = name_process(kvm);
	info->accelerator = "kvm";
	info->pid = kvm->qemu.process.pid;
	g_autofree char *description = g_strdup_printf("%s, KVM", info->name);
	info->description = g_string_chunk_insert(kvm->qemu.strings, description);
	kvm->qemu.machine.arch = vms_arch_by_name("x86_64");
}

static bool use_places(struct vms_kvm_machine *kvm, const struct vms_ram_place *places, size_t n,
		       GError **error)
{
	uint8_t byte;
	kvm->qemu.machine.ranges = g_array_new(FALSE, FALSE, sizeof(struct vms_range));
	vms_ram_open(&kvm->ram, &kvm->qemu.process, places, n);
	for (size_t i = 0; i < n; i++) {
		struct vms_range range = { places[i].pa, places[i].size, VMS_RANGE_RAM, "ram" };
		g_array_append_val(kvm->qemu.machine.ranges, range);
		if (vms_ram_covers(&kvm->ram, range.pa, range.size) &&
		    vms_ram_read(&kvm->ram, range.pa, &byte, 1))
			continue;
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "process %d has no memory at %#" G_GINT64_MODIFIER
			    "x to %#" G_GINT64_MODIFIER "x that could be read",
			    (int)kvm->qemu.process.pid, places[i].hva,
			    places[i].hva + places[i].size);
		return false;
	}
	return true;
}

/* Finds the places of memory. The holder is there for that, and without the memory's files. */
static bool infer_places(struct vms_kvm_machine *kvm, GError **error)
{
	g_autofree struct vms_kvm_guess *guess = vms_kvm_infer_map(
		kvm->holder, &kvm->qemu.process, kvm->vcpus, kvm->qemu.machine.arch, error);
	g_clear_pointer(&kvm->holder, vms_kvm_holder_free);
	g_clear_pointer(&kvm->files, g_array_unref);
	g_clear_pointer(&kvm->holds, g_free);
	kvm->qemu.machine.info.has_inferred_map = true;
	return guess && use_places(kvm, guess->places, guess->n, error) && start_holder(kvm, error);
}

/* `n` is 0 if the places are not known. */
static bool open_process(struct vms_kvm_machine *kvm, pid_t pid, const struct vms_ram_place *places,
			 size_t n, GError **error)
{
	struct vms_machine *machine = &kvm->qemu.machine;
	kvm->qemu.strings = g_string_chunk_new(256);
	if (!vms_host_identity_open(&kvm->qemu.process, pid, error) ||
	    !vms_kvm_check_process(pid, error) || !list_vcpus(kvm, error))
		return false;
	describe(kvm);
	machine->n_vcpus = kvm->vcpus->len;
	machine->vcpu_threads = g_new0(pid_t, machine->n_vcpus);
	if ((n && !use_places(kvm, places, n, error)) || !start_holder(kvm, error) ||
	    !vms_kvm_pair_threads(kvm->holder, machine->n_vcpus, pid, NULL, kvm->vcpus, error))
		return false;
	prepare_slots(kvm);
	if (n)
		return true;
	if (!infer_places(kvm, error))
		return false;
	prepare_slots(kvm);
	return true;
}

/* ---- QEMU with QMP ----------------------------------------------------------------------------
 */

/* The first vCPU that no thread of QEMU's list is known to run; vcpus->len: none. */
static guint find_unpaired(GArray *vcpus, const pid_t *threads, unsigned n)
{
	for (guint i = 0; i < vcpus->len; i++) {
		bool paired = false;
		for (unsigned j = 0; j < n && !paired; j++)
			paired = vcpu_at(vcpus, i)->thread &&
				 vcpu_at(vcpus, i)->thread == threads[j];
		if (!paired)
			return i;
	}
	return vcpus->len;
}

static guint find_thread(GArray *vcpus, pid_t thread)
{
	for (guint i = 0; i < vcpus->len; i++)
		if (vcpu_at(vcpus, i)->thread == thread)
			return i;
	return vcpus->len;
}

/*
 * Puts the vCPUs into QEMU's order. KVM's numbers are APIC ids, and ascend as QEMU's indices do: by
 * that a vCPU is found that has not run since it was looked for. Each hold checks it.
 */
static bool order_vcpus(struct vms_kvm_machine *kvm, GError **error)
{
	const struct vms_machine *machine = &kvm->qemu.machine;
	GArray *ordered = g_array_new(FALSE, FALSE, sizeof(struct vms_kvm_vcpu));
	for (unsigned i = 0; i < machine->n_vcpus; i++) {
		pid_t thread = machine->vcpu_threads[i];
		guint at = find_thread(kvm->vcpus, thread);
		if (at == kvm->vcpus->len)
			at = find_unpaired(kvm->vcpus, machine->vcpu_threads, machine->n_vcpus);
		if (at == kvm->vcpus->len || !thread)
			break;
		vcpu_at(kvm->vcpus, at)->thread = thread;
		g_array_append_vals(ordered, vcpu_at(kvm->vcpus, at), 1);
	}
	g_array_unref(kvm->vcpus);
	kvm->vcpus = ordered;
	if (ordered->len == machine->n_vcpus)
		return true;
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		"the threads of the vCPUs that QEMU lists were not found among those of process "
		"%d",
		(int)machine->info.pid);
	return false;
}

static bool check_qemu(const struct vms_kvm_machine *kvm, GError **error)
{
	const struct vms_machine *machine = &kvm->qemu.machine;
	const struct vms_ram *ram = vms_qemu_ram((struct vms_qemu *)&kvm->qemu);
	if (kvm->qemu.process.pid && g_strcmp0(machine->info.accelerator, "kvm") == 0 &&
	    machine->arch == vms_arch_by_name("x86_64") && ram->parts && ram->parts->len > 0)
		return true;
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		"%s does not run by KVM on x86-64, or its memory cannot be read from its process",
		machine->info.name);
	return false;
}

static bool open_qemu(struct vms_kvm_machine *kvm, pid_t pid, const char *const *qmp,
		      GError **error)
{
	struct vms_machine *machine = &kvm->qemu.machine;
	kvm->has_qmp = true;
	if (!vms_qemu_open(&kvm->qemu, qmp, pid, error) || !check_qemu(kvm, error) ||
	    !list_vcpus(kvm, error))
		return false;
	vms_qemu_recover(&kvm->qemu);
	if (!start_holder(kvm, error) ||
	    !vms_kvm_pair_threads(kvm->holder, kvm->vcpus->len, pid, machine, kvm->vcpus, error) ||
	    !order_vcpus(kvm, error))
		return false;
	prepare_slots(kvm);
	return true;
}

/* ---- the engine --------------------------------------------------------------------------------
 */

static struct vms_kvm_machine *new_machine(void)
{
	struct vms_kvm_machine *kvm = g_new0(struct vms_kvm_machine, 1);
	kvm->memory = -1;
	return kvm;
}

/* Frees a machine whose opening has failed. */
static struct vms_machine *finish_opening(struct vms_kvm_machine *kvm, bool opened,
					  const struct vms_engine *engine)
{
	kvm->qemu.machine.info.engine = "kvm";
	if (!opened) {
		vms_kvm_close(&kvm->qemu.machine);
		return NULL;
	}
	vms_machine_init(&kvm->qemu.machine, engine);
	return &kvm->qemu.machine;
}

struct vms_machine *vms_kvm_open_places(pid_t pid, const struct vms_ram_place *places, size_t n,
					GError **error)
{
	struct vms_kvm_machine *kvm = new_machine();
	return finish_opening(kvm, open_process(kvm, pid, places, n, error), &vms_kvm_engine);
}

struct vms_machine *vms_kvm_open_qemu(pid_t pid, const char *const *qmp, GError **error)
{
	/* First what needs no connection: who falls back to the stub connects again. */
	if (!vms_kvm_check_process(pid, error))
		return NULL;
	struct vms_kvm_machine *kvm = new_machine();
	return finish_opening(kvm, open_qemu(kvm, pid, qmp, error), &vms_kvm_qemu_engine);
}
