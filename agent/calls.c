/* SPDX-License-Identifier: MIT */
#include "calls.h"

void calls_translate(__attribute__((unused)) struct qemu_plugin_tb *tb)
{
}

void calls_vcpu_init(__attribute__((unused)) struct vcpu *vcpu)
{
}

void calls_vcpu_exit(__attribute__((unused)) struct vcpu *vcpu)
{
}

void calls_request(__attribute__((unused)) unsigned client,
		   __attribute__((unused)) const struct vms_agent_message *message,
		   __attribute__((unused)) size_t size, __attribute__((unused)) int fd,
		   struct reply *reply)
{
	reply_error(reply, VMS_ERROR_UNSUPPORTED, "this agent cannot trace calls");
}

void calls_client_gone(__attribute__((unused)) unsigned client)
{
}

void calls_exit(void)
{
}
