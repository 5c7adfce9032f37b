/* SPDX-License-Identifier: MIT */
#include "interrupts.h"

#define UNSEEN_MAX 3

static const int signals[INTERRUPTS] = { SIGINT, SIGTERM, SIGHUP };
static volatile sig_atomic_t came, unseen;
static struct vms_budget *volatile hurried; /* or NULL */

static void note_signal(int number)
{
	struct vms_budget *budget = hurried;
	if (budget && (number != SIGINT || came))
		vms_budget_hurry(budget);
	came = 1;
	unseen = unseen + 1;
	if (unseen < UNSEEN_MAX)
		return;
	signal(number, SIG_DFL);
	raise(number);
}

void interrupts_catch(struct interrupts *interrupts, struct vms_budget *budget)
{
	struct sigaction action = { .sa_handler = note_signal, .sa_flags = SA_RESTART };
	sigemptyset(&action.sa_mask);
	interrupts_forget();
	hurried = budget;
	for (unsigned i = 0; i < INTERRUPTS; i++)
		sigaction(signals[i], &action, &interrupts->before[i]);
}

void interrupts_hurry(struct vms_budget *budget)
{
	came = 1;
	hurried = budget;
}

bool interrupts_came(void)
{
	unseen = 0;
	return came;
}

void interrupts_forget(void)
{
	came = 0;
	unseen = 0;
}

void interrupts_release(const struct interrupts *interrupts)
{
	for (unsigned i = 0; i < INTERRUPTS; i++)
		sigaction(signals[i], &interrupts->before[i], NULL);
}
