/* SPDX-License-Identifier: MIT */
#include "base/keyed_hash.h"
#include <string.h>
#include <sys/random.h>

struct key {
	uint64_t k0, k1;
};

/* The state of SipHash. */
struct state {
	uint64_t v0, v1, v2, v3;
};

/* The secret of this process. It is not written again once it was made. */
static const struct key *get_key(void)
{
	static struct key key;
	static gsize is_made;
	if (g_once_init_enter(&is_made)) {
		if (getrandom(&key, sizeof(key), 0) != sizeof(key))
			key = (struct key) { (uint64_t)g_random_int() << 32 | g_random_int(),
					     (uint64_t)g_random_int() << 32 | g_random_int() };
		g_once_init_leave(&is_made, 1);
	}
	return &key;
}

static uint64_t rotate(uint64_t value, unsigned bits)
{
	return value << bits | value >> (64 - bits);
}

static inline void do_round(struct state *s)
{
	s->v0 += s->v1;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

static void add_word(struct state *s, uint64_t word)
{
	s->v3 ^= word;
	do_round(s);
	s->v0 ^= word;
}

static struct state begin_hash(void)
{
	const struct key *key = get_key();
	return (struct state) {
		.v0 = key->k0 ^ UINT64_C(0x736f6d6570736575),
		.v1 = key->k1 ^ UINT64_C(0x646f72616e646f6d),
		.v2 = key->k0 ^ UINT64_C(0x6c7967656e657261),
		.v3 = key->k1 ^ UINT64_C(0x7465646279746573),
	};
}

static uint64_t end_hash(struct state *s)
{
	s->v2 ^= 0xff;
	do_round(s);
	do_round(s);
	do_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

uint64_t vms_keyed_hash(const void *bytes, size_t size)
{
	struct state state = begin_hash();
	const uint8_t *at = bytes;
	uint64_t word;
	size_t left = size;
	for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		add_word(&state, GUINT64_FROM_LE(word));
	}
	word = (uint64_t)size << 56;
	for (size_t i = 0; i < left; i++)
		word |= (uint64_t)at[i] << (8 * i);
	add_word(&state, word);
	return end_hash(&state);
}

uint64_t vms_keyed_hash_u64(uint64_t number)
{
	struct state state = begin_hash();
	add_word(&state, number);
	return end_hash(&state);
}

guint vms_hash_text(gconstpointer text)
{
	return (guint)vms_keyed_hash(text, strlen(text));
}

guint vms_hash_int64(gconstpointer number)
{
	return (guint)vms_keyed_hash_u64(*(const uint64_t *)number);
}

guint vms_hash_direct(gconstpointer number)
{
	return (guint)vms_keyed_hash_u64((uintptr_t)number);
}
