/* SPDX-License-Identifier: MIT */
/*
 * Calls the functions of all services (struct service). Functions for something that begins are
 * called in the order of the table, those for something that ends in reverse order. A kicked vCPU
 * also goes through the table in reverse order.
 */
#pragma once

#include "agent/service.h"

/* Returns the service for a kind of request, or NULL. */
const struct service *services_find(uint32_t kind);
/* False if there is no memory for a service. */
bool services_init(void);
void services_quit(void);
void services_client_gone(unsigned client);
/* True if any service needs code to be instrumented. */
bool services_need_code(void);
void services_translate(struct qemu_plugin_tb *tb);
void services_vcpu_begins(struct vcpu *vcpu);
void services_vcpu_ends(struct vcpu *vcpu);
/* True if any service has waited for a client: call this again before the vCPU executes more. */
bool services_vcpu_kicked(struct vcpu *vcpu);
void services_vcpu_halts(struct vcpu *vcpu, uint64_t next);
void services_vcpu_resumes(struct vcpu *vcpu);
