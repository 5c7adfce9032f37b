/* SPDX-License-Identifier: MIT */
#include "words.h"

#include "base/text.h"

#define OPTIONS_SIZE 2
#define WORD_SIZE    5 /* of the input */
#define WORDS	     (WORDS_SIZE / 8)
#define READS_LIMIT  4000000
#define SYMBOLS	     32

/* What is made of a value, then shifted by 16 bits once or more, then mixed into the word. */
enum { MAKE = 3, POINTER = 1, INVERTED = 2, TWICE = 3, SHIFT = 12 };

static unsigned u16(const uint8_t *data)
{
	return data[0] | (unsigned)data[1] << 8;
}

unsigned words_options(const uint8_t *data, size_t size)
{
	return size < OPTIONS_SIZE ? 0 : u16(data);
}

static bool is_met(const struct words_condition *condition, unsigned options)
{
	return (options & condition->with) == condition->with && !(options & condition->without);
}

static GByteArray *make_types(const struct words_kernel *kernel, unsigned options)
{
	struct encoder encoder = encoder_new();
	for (const struct words_structure *s = kernel->structures; s->type; s++) {
		unsigned n = 0;
		uint32_t end = 0;
		for (; s->members[n].name; n++)
			end = MAX(end, s->members[n].offset + s->members[n].size);
		if (is_met(&s->when, options))
			put_structure(&encoder, s->type, (end + 7) & ~7u, n, s->members);
	}
	unsigned n = 0;
	while (n < G_N_ELEMENTS(kernel->enumerators) && kernel->enumerators[n])
		n++;
	put_type(&encoder, "", ENUM, n, false, 4);
	for (unsigned i = 0; i < n; i++) {
		put(&encoder, name_offset(&encoder, kernel->enumerators[i]));
		put(&encoder, i);
	}
	return finish(&encoder);
}

static uint64_t make_value(unsigned kind, uint64_t value)
{
	switch (kind & MAKE) {
	case POINTER: value = WORDS_RAM + value % WORDS_SIZE; break;
	case INVERTED: value = ~value; break;
	case TWICE: value |= value << 32; break;
	default: break;
	}
	return value << (kind & SHIFT) / 4 * 16;
}

static void fill(struct vms_machine *machine, const uint8_t *data, size_t size)
{
	uint64_t words[WORDS] = { 0 };
	for (size_t i = 0; i + WORD_SIZE <= size; i += WORD_SIZE)
		words[u16(data + i) % WORDS] ^= make_value(data[i + 2], u16(data + i + 3));
	for (size_t i = 0; i < WORDS; i++)
		words[i] = GUINT64_TO_LE(words[i]);
	memcpy(fake_machine_at(machine, WORDS_RAM), words, sizeof(words));
}

struct vms_linux *words_linux_new(const struct words_kernel *kernel, const uint8_t *data,
				  size_t size)
{
	unsigned options = words_options(data, size), n = 0;
	struct fake_symbol symbols[SYMBOLS + 1] = { 0 };
	struct vms_machine *machine = fake_machine_new(kernel->arch, 1);
	fake_machine_add_ram(machine, WORDS_RAM, WORDS_SIZE);
	if (size > OPTIONS_SIZE)
		fill(machine, data + OPTIONS_SIZE, size - OPTIONS_SIZE);
	for (const struct words_symbol *s = kernel->symbols; s->name; s++) {
		g_assert_cmpuint(n, <, SYMBOLS);
		if (is_met(&s->when, options))
			symbols[n++] = (struct fake_symbol) { s->name, s->va };
	}
	struct vms_linux *guest = fake_linux_new(machine, symbols, make_types(kernel, options));
	vms_machine_unref(machine);
	return guest;
}

void words_check_name(const char *name)
{
	g_autofree char *clean = g_strdup(name);
	vms_text_clean(clean);
	g_assert_cmpstr(name, ==, clean);
}

void words_linux_free(struct vms_linux *guest)
{
	g_assert_cmpuint(fake_machine_reads(guest->machine), <, READS_LIMIT);
	vms_linux_free(guest);
}
