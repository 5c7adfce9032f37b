/* SPDX-License-Identifier: MIT */
/*
 * All services of the agent. What begins is told to them in their order, what ends in reverse; a
 * vCPU that was kicked waits for the last of them first. The functions are those of struct service.
 */
#pragma once

#include "agent/service.h"

/* Returns the service for a kind of request; NULL: there is none. */
const struct service *services_find(uint32_t kind);
/* False: no memory for one of them. */
bool services_init(void);
void services_quit(void);
void services_client_gone(unsigned client);
/* True if any service needs code to be instrumented. */
bool services_need_code(void);
void services_translate(struct qemu_plugin_tb *tb);
void services_vcpu_begins(struct vcpu *vcpu);
void services_vcpu_ends(struct vcpu *vcpu);
/* True if any service has waited: they are to be asked again. */
bool services_vcpu_kicked(struct vcpu *vcpu);
void services_vcpu_halts(struct vcpu *vcpu, uint64_t next);
void services_vcpu_resumes(struct vcpu *vcpu);
