/* SPDX-License-Identifier: MIT */
#include "agent/services.h"

#include "agent/calls/calls.h"
#include "agent/coverage/coverage.h"
#include "agent/hold/hold.h"
#include "agent/period/period.h"
#include "agent/probes/probes.h"
#include "agent/tasks/tasks.h"

/* A service comes after the services that it uses, so that their callbacks in code run first. */
static const struct service *const services[] = { &hold_service,     &tasks_service,
						  &calls_service,    &probes_service,
						  &coverage_service, &period_service };

const struct service *services_find(uint32_t kind)
{
	for (size_t i = 0; i < G_N_ELEMENTS(services); i++)
		if (kind >= services[i]->first_kind && kind <= services[i]->last_kind)
			return services[i];
	return NULL;
}

bool services_init(void)
{
	bool ok = true;
	for (size_t i = 0; i < G_N_ELEMENTS(services); i++)
		if (services[i]->init)
			ok &= services[i]->init();
	return ok;
}

void services_quit(void)
{
	for (size_t i = G_N_ELEMENTS(services); i-- > 0;)
		if (services[i]->quit)
			services[i]->quit();
}

void services_client_gone(unsigned client)
{
	for (size_t i = G_N_ELEMENTS(services); i-- > 0;)
		if (services[i]->client_gone)
			services[i]->client_gone(client);
}

bool services_need_code(void)
{
	bool any = false;
	for (size_t i = 0; i < G_N_ELEMENTS(services); i++)
		any |= services[i]->needs_code && services[i]->needs_code();
	return any;
}

void services_translate(struct qemu_plugin_tb *tb)
{
	for (size_t i = 0; i < G_N_ELEMENTS(services); i++)
		if (services[i]->translate)
			services[i]->translate(tb);
}

void services_vcpu_begins(struct vcpu *vcpu)
{
	for (size_t i = 0; i < G_N_ELEMENTS(services); i++)
		if (services[i]->vcpu_begins)
			services[i]->vcpu_begins(vcpu);
}

void services_vcpu_ends(struct vcpu *vcpu)
{
	for (size_t i = G_N_ELEMENTS(services); i-- > 0;)
		if (services[i]->vcpu_ends)
			services[i]->vcpu_ends(vcpu);
}

bool services_vcpu_kicked(struct vcpu *vcpu)
{
	bool waited = false;
	for (size_t i = G_N_ELEMENTS(services); i-- > 0;)
		waited |= services[i]->vcpu_kicked && services[i]->vcpu_kicked(vcpu);
	return waited;
}

void services_vcpu_halts(struct vcpu *vcpu, uint64_t next)
{
	for (size_t i = 0; i < G_N_ELEMENTS(services); i++)
		if (services[i]->vcpu_halts)
			services[i]->vcpu_halts(vcpu, next);
}

void services_vcpu_resumes(struct vcpu *vcpu)
{
	for (size_t i = 0; i < G_N_ELEMENTS(services); i++)
		if (services[i]->vcpu_resumes)
			services[i]->vcpu_resumes(vcpu);
}
