/* SPDX-License-Identifier: MIT */
#include "services.h"

#include "calls.h"
#include "hold.h"

static const struct service *const services[] = { &hold_service, &calls_service };

const struct service *services_find(uint32_t kind)
{
	for (size_t i = 0; i < G_N_ELEMENTS(services); i++)
		if (kind >= services[i]->first_kind && kind <= services[i]->last_kind)
			return services[i];
	return NULL;
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
