/* SPDX-License-Identifier: MIT */
/*
 * A dynamic program whose time is known: it sorts by the C library's qsort, with an order of its
 * own, random numbers of the library's rand_r, asks for the time, and does nothing else.
 */
#include <stdlib.h>
#include <time.h>

#define N 4096

static int numbers[N];

int compare_numbers(const void *a, const void *b)
{
	const int *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

int main(void)
{
	unsigned seed = 1;
	for (;;) {
		for (int i = 0; i < 16 * N; i++)
			numbers[i % N] = rand_r(&seed);
		struct timespec now;
		for (int i = 0; i < N; i++)
			clock_gettime(CLOCK_REALTIME_COARSE, &now);
		qsort(numbers, N, sizeof(numbers[0]), compare_numbers);
	}
}
