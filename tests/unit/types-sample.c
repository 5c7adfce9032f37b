/* SPDX-License-Identifier: MIT */
#include "types-sample.h"

struct mixed mixed_sample;

long probed(struct node *node, const char *path, int fd, size_t size, bool on, enum colour colour)
{
	return node->number + *path + fd + (long)size + on + (long)colour;
}

int by_value(struct pair pair, int last)
{
	return pair.a + pair.b + last;
}

int too_many(int a, int b, int c, int d, int e, int f, int g)
{
	return a + b + c + d + e + f + g;
}

int too_large(int first, struct mixed mixed, int last)
{
	return first + mixed.before + last;
}

void nothing(void)
{
	mixed_sample.before++;
}

struct node *find(const char *rsi)
{
	return rsi ? mixed_sample.node->next : NULL;
}

long measure(const struct line *line)
{
	return line->length + line->text[0];
}
