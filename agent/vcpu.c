/* SPDX-License-Identifier: MIT */
#include "vcpu.h"

#include <string.h>
#include <unistd.h>

#define ALL UINT_MAX

static struct {
	qemu_plugin_id_t id;
	const struct arch *arch;
	struct vcpu *vcpu;
	unsigned max;
	_Atomic bool one_thread, idles;
	qemu_plugin_u64 flag;
} all;

static _Thread_local struct vcpu *current;

bool vcpus_new(qemu_plugin_id_t id, const struct arch *arch, unsigned max)
{
	all.id = id;
	all.arch = arch;
	all.max = MIN(max, VMS_AGENT_MAX_VCPUS);
	all.vcpu = g_try_new0(struct vcpu, all.max);
	if (!all.vcpu)
		return false;
	for (unsigned i = 0; i < all.max; i++) {
		all.vcpu[i].index = i;
		g_mutex_init(&all.vcpu[i].lock);
	}
	all.flag.score = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	return all.flag.score;
}

unsigned vcpus_max(void)
{
	return all.max;
}

struct vcpu *vcpu_get(unsigned index)
{
	return index < all.max ? &all.vcpu[index] : NULL;
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

bool vcpus_have_idled(void)
{
	return all.idles;
}

struct vcpu *vcpu_current(void)
{
	return current;
}

const struct arch *vcpu_arch(void)
{
	return all.arch;
}

/* The first of a name that can be read: QEMU 11.0 has registers without a handle. */
static void find_registers(struct vcpu *vcpu)
{
	g_autoptr(GArray) found = qemu_plugin_get_registers();
	guint size = g_array_get_element_size(found);
	memset(vcpu->handles, 0, sizeof(vcpu->handles));
	for (guint i = 0; i < found->len; i++) {
		const qemu_plugin_reg_descriptor *reg = (const void *)(found->data + i * size);
		for (unsigned n = 0; reg->name && n < all.arch->n_regs; n++) {
			if (!vcpu->handles[n] && strcmp(reg->name, all.arch->regs[n]) == 0) {
				vcpu->handles[n] = reg->handle;
				break;
			}
		}
	}
}

struct vcpu *vcpu_init(unsigned index)
{
	struct vcpu *vcpu = vcpu_get(index);
	if (!vcpu)
		return NULL;
	if (!vcpu->bytes)
		vcpu->bytes = g_byte_array_new();
	find_registers(vcpu);
	if (current && current != vcpu)
		all.one_thread = true;
	current = vcpu;
	vcpu->thread = (uint32_t)gettid();
	return vcpu;
}

bool vcpu_read(struct vcpu *vcpu, unsigned reg, uint64_t *ret)
{
	*ret = 0;
	if (!vcpu->handles[reg])
		return false;
	g_byte_array_set_size(vcpu->bytes, 0);
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
	if (size == 0 || !qemu_plugin_read_memory_vaddr(va, vcpu->bytes, size) ||
	    vcpu->bytes->len < size)
		return false;
	memcpy(buf, vcpu->bytes->data, size);
	return true;
}

/* ---- the flag ----------------------------------------------------------- */

/* May code that ends in this instruction leave a function or go round a loop? */
static bool leaves(const uint8_t *bytes, size_t size)
{
	struct branch branch = all.arch->branch(bytes, size);
	switch (branch.kind) {
	case BRANCH_NONE:
	case BRANCH_STACK_LOAD: return false;
	case BRANCH_JUMP:
	case BRANCH_JUMP_CONDITIONAL: return branch.displacement < 0;
	case BRANCH_CALL:
	case BRANCH_CALL_REGISTER:
	case BRANCH_CALL_MEMORY:
	case BRANCH_RETURN:
	case BRANCH_JUMP_REGISTER:
	case BRANCH_JUMP_MEMORY:
	case BRANCH_FAR:
	case BRANCH_EXCEPTION_RETURN:
	case BRANCH_REPEAT:
	default: return true;
	}
}

void vcpu_translate(struct qemu_plugin_tb *tb, qemu_plugin_vcpu_udata_cb called,
		    qemu_plugin_vcpu_udata_cb halts)
{
	uint8_t bytes[16];
	size_t n = qemu_plugin_tb_n_insns(tb);
	if (all.max == 1 && !all.idles) /* several are told apart by their threads */
		all.one_thread = true;
	if (n == 0 || vcpus_mixed_up())
		return;
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, n - 1);
	size_t size = qemu_plugin_insn_data(last, bytes, sizeof(bytes));
	if (leaves(bytes, size))
		qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, called, QEMU_PLUGIN_CB_R_REGS,
							  QEMU_PLUGIN_COND_NE, all.flag, 0, NULL);
	if (all.one_thread && all.arch->halts(bytes, size))
		qemu_plugin_register_vcpu_insn_exec_cb(
			last, halts, QEMU_PLUGIN_CB_R_REGS,
			(void *)(uintptr_t)(qemu_plugin_insn_vaddr(last) + size));
}

static _Thread_local unsigned calling; /* index, or ALL */

static void set_flag QEMU_CALLBACK(unsigned index)
{
	if (calling == ALL || calling == index)
		qemu_plugin_u64_set(all.flag, index, 1);
}

/*
 * The memory of scoreboards moves when vCPUs are added; the lock that qemu_plugin_vcpu_for_each
 * takes keeps it where it is.
 */
void vcpu_call(unsigned index)
{
	calling = index;
	atomic_thread_fence(memory_order_seq_cst);
	QEMU_REGISTER(qemu_plugin_vcpu_for_each, all.id, set_flag);
}

void vcpu_call_all(void)
{
	vcpu_call(ALL);
}

void vcpu_call_self(struct vcpu *vcpu)
{
	qemu_plugin_u64_set(all.flag, vcpu->index, 1);
}

void vcpu_called(struct vcpu *vcpu)
{
	qemu_plugin_u64_set(all.flag, vcpu->index, 0);
	atomic_thread_fence(memory_order_seq_cst);
}
