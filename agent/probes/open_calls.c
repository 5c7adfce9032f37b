/* SPDX-License-Identifier: MIT */
#include "agent/probes/open_calls.h"

#include <glib.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ROWS	  4096u /* a power of two */
#define LOCKS	  64u	/* row r is guarded by lock r % LOCKS */
#define MAX_CALLS (1U << 16)
#define MAX_BYTES (UINT64_C(64) << 20) /* of their values */

struct open_calls {
	_Atomic uint64_t n, bytes;
	GMutex locks[LOCKS];
	struct open_call *rows[ROWS];
};

struct open_calls *open_calls_new(void)
{
	struct open_calls *calls = calloc(1, sizeof(*calls));
	for (unsigned i = 0; calls && i < LOCKS; i++)
		g_mutex_init(&calls->locks[i]);
	return calls;
}

void open_calls_free(struct open_calls *calls)
{
	if (!calls)
		return;
	for (unsigned i = 0; i < ROWS; i++)
		for (struct open_call *call; (call = calls->rows[i]);) {
			calls->rows[i] = call->next;
			free(call);
		}
	for (unsigned i = 0; i < LOCKS; i++)
		g_mutex_clear(&calls->locks[i]);
	free(calls);
}

static unsigned find_row(const struct call_key *key)
{
	const uint64_t mixed =
		(key->sp ^ key->space << 20 ^ key->pc << 40) * UINT64_C(0x9e3779b97f4a7c15);
	return (unsigned)(mixed >> 52);
}

_Static_assert(ROWS == UINT64_C(1) << (64 - 52), "a row has as many bits as the hash");

static bool equal_keys(const struct call_key *a, const struct call_key *b)
{
	return a->sp == b->sp && a->pc == b->pc && a->space == b->space;
}

/* Removes a call from its row. */
static struct open_call *unlink_call(struct open_calls *calls, struct open_call **link)
{
	struct open_call *call = *link;
	*link = call->next;
	atomic_fetch_sub(&calls->n, 1);
	atomic_fetch_sub(&calls->bytes, call->size);
	return call;
}

/* Frees a call of the same place with the same key. The row is locked. */
static void forget_call(struct open_calls *calls, struct open_call **link,
			const struct open_call *call)
{
	for (; *link; link = &(*link)->next)
		if ((*link)->place == call->place && equal_keys(&(*link)->key, &call->key)) {
			free(unlink_call(calls, link));
			return;
		}
}

bool open_calls_add(struct open_calls *calls, const struct open_call *call, const void *values)
{
	const unsigned row = find_row(&call->key);
	struct open_call *copy = NULL;
	GMutex *lock = &calls->locks[row % LOCKS];
	if (atomic_load(&calls->n) < MAX_CALLS && atomic_load(&calls->bytes) < MAX_BYTES)
		copy = malloc(sizeof(*copy) + call->size);
	if (copy) {
		*copy = *call;
		memcpy(copy->values, values, call->size);
	}
	g_mutex_lock(lock);
	forget_call(calls, &calls->rows[row], call);
	if (copy) {
		copy->next = calls->rows[row];
		calls->rows[row] = copy;
		atomic_fetch_add(&calls->n, 1);
		atomic_fetch_add(&calls->bytes, copy->size);
	}
	g_mutex_unlock(lock);
	return copy;
}

struct open_call *open_calls_take(struct open_calls *calls, const struct call_key *key)
{
	const unsigned row = find_row(key);
	struct open_call *taken = NULL, **end = &taken;
	GMutex *lock = &calls->locks[row % LOCKS];
	g_mutex_lock(lock);
	for (struct open_call **link = &calls->rows[row]; *link;) {
		if (!equal_keys(&(*link)->key, key)) {
			link = &(*link)->next;
			continue;
		}
		*end = unlink_call(calls, link);
		end = &(*end)->next;
	}
	*end = NULL;
	g_mutex_unlock(lock);
	return taken;
}
