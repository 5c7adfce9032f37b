/* SPDX-License-Identifier: MIT */
/* All services of the agent. What begins is told to them in their order, what ends in reverse. */
#pragma once

#include "service.h"

/* Returns the service for a kind of request; NULL: there is none. */
const struct service *services_find(uint32_t kind);
void services_client_gone(unsigned client);
/* True if any service needs code to be instrumented. */
bool services_need_code(void);
void services_translate(struct qemu_plugin_tb *tb);
void services_vcpu_begins(struct vcpu *vcpu);
void services_vcpu_ends(struct vcpu *vcpu);
