/* SPDX-License-Identifier: MIT */
#include "agent/qemu/vcpu.h"

#include "agent/qemu/internals.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static struct {
	const struct arch *arch;
	struct vcpu *vcpu;
	unsigned max;
	_Atomic bool one_thread, idles;
	struct internals_state kept[VMS_AGENT_MAX_REGS]; /* size 0: the register is not kept */
	struct internals_state kept_flags;		 /* size 0: the processor has none */
} all;

static _Thread_local struct vcpu *current;

bool vcpus_new(const struct arch *arch, unsigned max)
{
	all.arch = arch;
	all.max = MIN(max, VMS_AGENT_MAX_VCPUS);
	all.vcpu = g_try_new0(struct vcpu, all.max);
	if (!all.vcpu)
		return false;
	for (unsigned i = 0; i < all.max; i++) {
		all.vcpu[i].index = i;
		g_mutex_init(&all.vcpu[i].lock);
	}
	return true;
}

unsigned vcpus_max(void)
{
	return all.max;
}

struct vcpu *vcpu_get(unsigned index)
{
	return index < all.max ? &all.vcpu[index] : NULL;
}

bool vcpu_is_there(unsigned index)
{
	struct vcpu *vcpu = &all.vcpu[index];
	g_mutex_lock(&vcpu->lock);
	bool is_there = vcpu->state != VMS_AGENT_ABSENT;
	g_mutex_unlock(&vcpu->lock);
	return is_there;
}

bool vcpus_one_thread(void)
{
	return all.one_thread;
}

bool vcpus_mixed_up(void)
{
	return all.one_thread && all.max > 1;
}

void vcpus_idle(void)
{
	all.idles = true;
}

void vcpus_run(void)
{
	if (all.max == 1 && !all.idles) /* with several vCPUs, vcpu_init compares threads */
		all.one_thread = true;
}

struct vcpu *vcpu_current(void)
{
	return current;
}

const struct arch *vcpu_arch(void)
{
	return all.arch;
}

void vcpu_each_handle(void (*each)(const char *name, struct qemu_plugin_register *handle,
				   void *data),
		      void *data)
{
	g_autoptr(GArray) found = qemu_plugin_get_registers();
	guint size = g_array_get_element_size(found);
	for (guint i = 0; i < found->len; i++) {
		const qemu_plugin_reg_descriptor *reg = (const void *)(found->data + i * size);
		if (reg->name)
			each(reg->name, reg->handle, data);
	}
}

/* Takes the first handle of each name: in QEMU 11.0 some registers have none. */
static void note_handle(const char *name, struct qemu_plugin_register *handle, void *data)
{
	struct vcpu *vcpu = data;
	for (unsigned i = 0; i < all.arch->n_regs; i++) {
		if (!vcpu->handles[i] && strcmp(name, all.arch->regs[i]) == 0) {
			vcpu->handles[i] = handle;
			break;
		}
	}
}

static void find_kept(void)
{
	const struct arch *arch = all.arch;
	for (unsigned i = 0; i < arch->n_regs; i++) {
		if (!arch->kept[i].name)
			continue;
		all.kept[i] = internals_find_state(arch->state_table, arch->kept[i].name);
		all.kept[i].offset += arch->kept[i].element * all.kept[i].size;
	}
	if (arch->kept_flags)
		all.kept_flags = internals_find_state(arch->state_table, arch->kept_flags);
}

/* True if the kept value of a register is its value in the vCPU's current mode. */
static bool shows_kept(const struct vcpu *vcpu, unsigned reg)
{
	if (!vcpu->qemu || !all.kept[reg].size)
		return false;
	return vcpu->numbers[reg] < 0 || !all.arch->shows_kept ||
	       (all.kept_flags.size &&
		all.arch->shows_kept(internals_read_state(vcpu->qemu, all.kept_flags)));
}

/*
 * Compares the kept registers with QEMU's gdb stub. A kept register with another value is not used,
 * because QEMU's table has another meaning than expected.
 */
static void check_kept(const struct vcpu *vcpu)
{
	for (unsigned i = 0; i < all.arch->n_regs; i++) {
		uint64_t value = 0;
		if (!all.kept[i].size || vcpu->numbers[i] < 0)
			continue;
		g_byte_array_set_size(vcpu->bytes, 0);
		internals_read_register(vcpu->qemu, vcpu->numbers[i], vcpu->bytes);
		memcpy(&value, vcpu->bytes->data, MIN(vcpu->bytes->len, sizeof(value)));
		if (value != internals_read_state(vcpu->qemu, all.kept[i]))
			all.kept[i].size = 0;
	}
}

struct vcpu *vcpu_init(unsigned index)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return NULL;
	if (!vcpu->bytes)
		vcpu->bytes = g_byte_array_new();
	g_mutex_lock(&vcpu->lock);
	vcpu->qemu = internals_vcpu(index);
	atomic_store(&vcpu->is_kicked, false);
	g_mutex_unlock(&vcpu->lock);
	if (vcpu->qemu) {
		pthread_once(&once, find_kept);
		internals_find_registers(vcpu->qemu, all.arch->regs, all.arch->n_regs,
					 vcpu->numbers);
		check_kept(vcpu);
	} else {
		memset(vcpu->handles, 0, sizeof(vcpu->handles));
		vcpu_each_handle(note_handle, vcpu);
	}
	if (current && current != vcpu)
		all.one_thread = true;
	current = vcpu;
	vcpu->thread = (uint32_t)gettid();
	return vcpu;
}

void vcpu_exit(struct vcpu *vcpu)
{
	g_mutex_lock(&vcpu->lock);
	vcpu->qemu = NULL;
	g_mutex_unlock(&vcpu->lock);
}

bool vcpu_read(struct vcpu *vcpu, unsigned reg, uint64_t *ret)
{
	*ret = 0;
	if (shows_kept(vcpu, reg)) {
		*ret = internals_read_state(vcpu->qemu, all.kept[reg]);
		return true;
	}
	g_byte_array_set_size(vcpu->bytes, 0);
	if (vcpu->qemu && vcpu->numbers[reg] < 0)
		return all.arch->read_state && all.arch->read_state(vcpu->qemu, reg, ret);
	if (vcpu->qemu)
		internals_read_register(vcpu->qemu, vcpu->numbers[reg], vcpu->bytes);
	else if (vcpu->handles[reg])
		qemu_plugin_read_register(vcpu->handles[reg], vcpu->bytes);
	if (vcpu->bytes->len == 0 || vcpu->bytes->len > sizeof(*ret))
		return false;
	memcpy(ret, vcpu->bytes->data, vcpu->bytes->len); /* both guests are little-endian */
	return true;
}

uint64_t vcpu_value(unsigned index, unsigned reg)
{
	struct vcpu *vcpu = vcpu_get(index);
	uint64_t value = 0;
	if (vcpu)
		vcpu_read(vcpu, reg, &value);
	return value;
}

uint64_t vcpu_argument(struct vcpu *vcpu, unsigned n)
{
	uint64_t value;
	vcpu_read(vcpu, all.arch->arguments[n], &value);
	return value;
}

void vcpu_read_all(struct vcpu *vcpu, uint32_t has_regs[VMS_AGENT_MAX_REGS / 32],
		   uint64_t regs[VMS_AGENT_MAX_REGS])
{
	for (unsigned i = 0; i < all.arch->n_regs; i++) {
		uint32_t bit = UINT32_C(1) << i % 32;
		if (vcpu_read(vcpu, i, &regs[i]))
			has_regs[i / 32] |= bit;
		else
			has_regs[i / 32] &= ~bit;
	}
}

bool vcpu_read_memory(struct vcpu *vcpu, uint64_t va, void *buf, size_t size)
{
	if (size == 0)
		return false;
	uint64_t before;
	const bool is_open = all.arch->open_memory && all.arch->open_memory(vcpu, va, &before);
	const bool is_read = qemu_plugin_read_memory_vaddr(va, vcpu->bytes, size);
	if (is_open)
		all.arch->close_memory(vcpu, before);
	if (!is_read || vcpu->bytes->len < size)
		return false;
	memcpy(buf, vcpu->bytes->data, size);
	return true;
}
