/* SPDX-License-Identifier: MIT */
/* Types and functions that the compiler describes (BTF), and values of them that it makes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum colour { RED, GREEN = 5, BLUE = -1 };
enum mode { MODE_NONE, MODE_READ, MODE_WRITE, MODE_EXEC = 4, MODE_ALL = 7, MODE_LAST = 64 };
typedef uint16_t __be16;
typedef uint32_t __be32;
typedef unsigned long word;

struct name {
	const char *text;
	unsigned length;
};

struct node {
	struct node *next;
	int number;
	char label[8];
	unsigned char raw[6];
	uint8_t bytes[4];
	struct name name;
	unsigned flag : 1, kind : 3;
	int small : 4;
	int64_t far : 40;
	enum colour colour;
	enum mode mode;
	bool on;
	char letter;
	signed char tiny;
	__be16 port;
	__be32 address;
	word large;
	struct name array[3];
	int matrix[3][3]; /* gcc before 13.3 writes different dimensions the wrong way round */
	int (*call)(int);
	struct name *names;
};

struct mixed {
	int before;
	union {
		uint32_t whole;
		struct {
			uint16_t low, high;
		};
	};
	const struct node *const node;
	struct unknown *unknown;
	int tail[];
};

struct pair {
	int a, b;
};

struct line {
	long length;
	char text[];
};

long probed(struct node *node, const char *path, int fd, size_t size, bool on, enum colour colour);
int by_value(struct pair pair, int last);
int too_many(int a, int b, int c, int d, int e, int f, int g);
int too_large(int first, struct mixed mixed, int last);
void nothing(void);
struct node *find(const char *rsi);
long measure(const struct line *line);
