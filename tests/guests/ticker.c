/* SPDX-License-Identifier: MIT */
/*
 * A bare guest that shows that it runs: every vCPU counts the interrupts of its timer, at an
 * address that is known outside. The first vCPU also works and writes memory, the others wait in
 * HLT. The power button sends the guest to sleep (ACPI S3); waking it up makes it tick on.
 */
#include "ticker.h"
#include "bare.h"

#define NMI_VECTOR	 2
#define TIMER_VECTOR	 0x40
#define TIMER_PERIOD_NS	 2000000 /* QEMU's local APIC counts nanoseconds */
#define DIRTY_PAGES	 256
#define DIRTIED_PER_TICK 8
#define WORK_ROUNDS	 100000
#define START_TRIES	 100

#define LAPIC		   0xfee00000
#define LAPIC_EOI	   0x0b0
#define LAPIC_SPURIOUS	   0x0f0
#define LAPIC_COMMAND	   0x300
#define LAPIC_TIMER	   0x320
#define LAPIC_TIMER_COUNT  0x380
#define LAPIC_TIMER_DIVIDE 0x3e0
#define SEND_INIT	   0x000c4500 /* to all but this vCPU */
#define SEND_STARTUP	   (0x000c4600 | TRAMPOLINE >> 12)

#define PANIC_PORT   0x505 /* QEMU's pvpanic device */
#define POWER_BUTTON 0x0100
#define SLEEP_S3     0x2401 /* SLP_EN, SLP_TYP 1 as QEMU's tables say, SCI_EN */

#define FADT_FACS	 36
#define FADT_PM1_EVENT	 56
#define FADT_PM1_CONTROL 64
#define FACS_WAKING	 12

struct interrupt_frame;

static volatile struct ticker *const ticker = (volatile struct ticker *)TICKER;
static uint8_t dirty[DIRTY_PAGES][4096];
static uint64_t idt[2 * 256];
static uint16_t power_event, power_control;
static uint32_t *waking_vector;
static volatile uint64_t others_run;

extern const uint8_t trampoline_code[], trampoline_end[];

static volatile uint32_t *lapic(uint32_t reg)
{
	return (volatile uint32_t *)(uintptr_t)(LAPIC + reg);
}

static uint64_t this_vcpu(void)
{
	uint32_t eax = 1, ebx, ecx = 0, edx;
	__asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
	return (ebx >> 24) % TICKER_VCPUS;
}

static void out_byte(uint16_t port, uint8_t value)
{
	__asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static void out_word(uint16_t port, uint16_t value)
{
	__asm__ volatile("outw %0, %1" : : "a"(value), "Nd"(port));
}

static uint16_t in_word(uint16_t port)
{
	uint16_t value;
	__asm__ volatile("inw %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static void copy(uint8_t *to, const uint8_t *from, const uint8_t *end)
{
	while (from < end)
		*to++ = *from++;
}

__attribute__((interrupt)) static void count_tick(
	__attribute__((unused)) struct interrupt_frame *frame)
{
	ticker->ticks[this_vcpu()]++;
	*lapic(LAPIC_EOI) = 0;
}

__attribute__((interrupt)) static void panic(__attribute__((unused)) struct interrupt_frame *frame)
{
	out_byte(PANIC_PORT, 1);
}

static void set_interrupt(int vector, void (*function)(struct interrupt_frame *))
{
	uint64_t handler = (uint64_t)function;
	idt[2 * vector] =
		(handler & 0xffff) | 8 << 16 | 0x8e00ULL << 32 | (handler >> 16 & 0xffff) << 48;
	idt[2 * vector + 1] = handler >> 32;
}

static void set_interrupt_table(void)
{
	set_interrupt(TIMER_VECTOR, count_tick);
	set_interrupt(NMI_VECTOR, panic);
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) pointer = { sizeof(idt) - 1, (uint64_t)idt };
	__asm__ volatile("lidt %0" : : "m"(pointer));
}

static void start_timer(void)
{
	*lapic(LAPIC_SPURIOUS) = 0x1ff;
	*lapic(LAPIC_TIMER_DIVIDE) = 0xb; /* by one */
	*lapic(LAPIC_TIMER) = 0x20000 | TIMER_VECTOR;
	*lapic(LAPIC_TIMER_COUNT) = TIMER_PERIOD_NS;
}

/* The firmware's table with this signature, from the root table; NULL without one. */
static uint8_t *find_acpi_table(const char *signature)
{
	const uint64_t root_mark = 0x2052545020445352; /* "RSD PTR " */
	for (uint64_t pa = 0xe0000; pa < 0x100000; pa += 16) {
		if (*(uint64_t *)pa != root_mark)
			continue;
		uint32_t *rsdt = (uint32_t *)(uintptr_t) * (uint32_t *)(pa + 16);
		for (uint32_t i = 9; i < rsdt[1] / 4; i++) {
			uint8_t *table = (uint8_t *)(uintptr_t)rsdt[i];
			if (*(uint32_t *)table == *(const uint32_t *)signature)
				return table;
		}
	}
	return (uint8_t *)0;
}

static void watch_power_button(void)
{
	uint8_t *fadt = find_acpi_table("FACP");
	if (!fadt)
		return;
	power_event = (uint16_t) * (uint32_t *)(fadt + FADT_PM1_EVENT);
	power_control = (uint16_t) * (uint32_t *)(fadt + FADT_PM1_CONTROL);
	uint8_t *facs = (uint8_t *)(uintptr_t) * (uint32_t *)(fadt + FADT_FACS);
	waking_vector = (uint32_t *)(facs + FACS_WAKING);
	out_word(power_event, POWER_BUTTON);	 /* QEMU says that it woke the guest up */
	out_word(power_event + 2, POWER_BUTTON); /* behind the status, what is enabled */
}

/* Where the button was pressed: sleeps. Waking up leads through the trampoline to guest_main. */
static void sleep_if_asked(void)
{
	if (!power_event || !(in_word(power_event) & POWER_BUTTON))
		return;
	out_word(power_event, POWER_BUTTON);
	*waking_vector = TRAMPOLINE;
	out_word(power_control, SLEEP_S3);
}

NOINLINE void work(uint64_t rounds)
{
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(rounds));
}

static void dirty_pages(uint64_t tick)
{
	for (uint64_t i = 0; i < DIRTIED_PER_TICK; i++)
		dirty[(tick * DIRTIED_PER_TICK + i) % DIRTY_PAGES][0]++;
}

/* A startup that comes too soon behind the reset is lost: until one of them has come. */
static void start_others(void)
{
	others_run = 0;
	for (int try = 0; try < START_TRIES && !others_run; try++) {
		*lapic(LAPIC_COMMAND) = SEND_INIT;
		work(WORK_ROUNDS);
		*lapic(LAPIC_COMMAND) = SEND_STARTUP;
		work(10 * WORK_ROUNDS);
	}
}

static void start_machine(uint64_t woken)
{
	upper_table[3] = 0xc0000083; /* the fourth GiB as a page: there is the local APIC */
	out_byte(0x21, 0xff);	     /* nothing from the old interrupt controllers */
	out_byte(0xa1, 0xff);
	copy((uint8_t *)TRAMPOLINE, trampoline_code, trampoline_end);
	watch_power_button();
	start_others();
	if (woken) {
		ticker->wakes++;
		return;
	}
	for (int i = 0; i < TICKER_VCPUS; i++)
		ticker->ticks[i] = 0;
	ticker->wakes = 0;
	print("READY\n");
}

/* Every vCPU. `through_trampoline`: all others, and the first one when it wakes up. */
void run_vcpu(uint64_t through_trampoline)
{
	uint64_t vcpu = this_vcpu();
	if (vcpu == 0)
		start_machine(through_trampoline);
	else
		others_run = 1;
	set_interrupt_table();
	start_timer();
	for (uint64_t tick = 0;; tick++) {
		__asm__ volatile("sti; hlt; cli");
		if (vcpu)
			continue;
		work(WORK_ROUNDS);
		dirty_pages(tick);
		if (tick % 8 == 0)
			sleep_if_asked();
	}
}
