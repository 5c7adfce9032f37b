/* SPDX-License-Identifier: MIT */
/*
 * The guest of the tests' own KVM monitor. Each vCPU has a stack and a mode of its own (vcpus.h),
 * and counts its rounds. Entered in 64-bit mode, with the vCPU's number and its mode.
 */
#include "vcpus.h"
#include "bare.h"

uint64_t rounds[VCPUS_MAX];

NOINLINE void work(uint64_t steps)
{
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(steps));
}

NOINLINE void major(void)
{
	work(3000);
	__asm__ volatile("");
}

NOINLINE void helper(void)
{
	work(1000);
	__asm__ volatile("");
}

NOINLINE void minor(void)
{
	helper();
	__asm__ volatile("");
}

/* R12 is what memory has, or one more. */
NOINLINE void count_rounds(uint64_t vcpu)
{
	__asm__ volatile("xorl %%r12d, %%r12d\n"
			 "1: incq %%r12\n"
			 "movq %%r12, %0\n"
			 "jmp 1b"
			 : "=m"(rounds[vcpu])
			 :
			 : "r12");
	__builtin_unreachable();
}

NOINLINE void write_port(uint64_t vcpu, uint16_t port)
{
	for (;;) {
		__asm__ volatile("outb %0, %1" : : "a"((uint8_t)vcpu), "d"(port));
		__atomic_fetch_add(&rounds[vcpu], 1, __ATOMIC_RELAXED);
	}
}

/* vcpus_x86_64.S */
void spin_known(void) __attribute__((noreturn));
void halt_known(void) __attribute__((noreturn));

void run_vcpu(uint64_t vcpu, uint64_t mode);

void run_vcpu(uint64_t vcpu, uint64_t mode)
{
	if (mode == VCPUS_COUNTS)
		count_rounds(vcpu);
	if (mode == VCPUS_EXITS)
		write_port(vcpu, VCPUS_EXIT_PORT);
	if (mode == VCPUS_SLEEPS)
		write_port(vcpu, VCPUS_SLEEP_PORT);
	if (mode == VCPUS_SPINS)
		spin_known();
	if (mode == VCPUS_HALTS)
		halt_known();
	for (;;) {
		major();
		minor();
		__atomic_fetch_add(&rounds[vcpu], 1, __ATOMIC_RELAXED);
	}
}
