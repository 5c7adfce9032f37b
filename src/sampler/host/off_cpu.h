/* SPDX-License-Identifier: MIT */
/*
 * Threads that are off the CPU. Whoever is told of each switch away from a CPU, with the stack, and
 * of each switch back, knows what a thread waits for at every moment in between: this makes samples
 * of that, at the multiples of a period. One thread at a time.
 */
#pragma once

#include <vmscope/sample_record.h>

struct vms_off_cpu;

/*
 * Gets a sample. Only the frames that its stack has are allocated. `more` samples of the same wait
 * follow. False: there is no room for this one, nor for those, which are not given.
 */
typedef bool (*vms_off_cpu_give)(const struct vms_sample_record *sample, uint64_t more, void *data);

struct vms_off_cpu *vms_off_cpu_new(uint64_t period_ns, vms_off_cpu_give give, void *data);
void vms_off_cpu_free(struct vms_off_cpu *off_cpu);
/*
 * A thread is off the CPU from the time of `sample` on. One that is already known to be stays off,
 * with the newer sample.
 */
void vms_off_cpu_begin(struct vms_off_cpu *off_cpu, const struct vms_sample_record *sample);
/* It runs from `time_ns` on. Does nothing if it went off the CPU later, or is not known. */
void vms_off_cpu_end(struct vms_off_cpu *off_cpu, uint32_t tid, uint64_t time_ns);
/* Gives the samples of all threads before `until_ns`. */
void vms_off_cpu_advance(struct vms_off_cpu *off_cpu, uint64_t until_ns);
