/* SPDX-License-Identifier: MIT */
#include "base/histogram.h"
#include <glib.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static uint64_t random_value(void)
{
	uint64_t value = (uint64_t)g_random_int() << 32 | g_random_int();
	return value >> g_random_int_range(0, 64);
}

/* Quantiles against the sorted values, which they may miss by the width of a bucket. */
static void test_quantiles(void)
{
	static const double shares[] = { 0, 0.01, 0.5, 0.9, 0.99, 1 };
	enum { N = 10000 };
	struct vms_histogram *histogram = g_new0(struct vms_histogram, 1);
	g_autofree uint64_t *values = g_new(uint64_t, N);

	for (int i = 0; i < N; i++) {
		values[i] = random_value();
		vms_histogram_add(histogram, values[i]);
	}
	qsort(values, N, sizeof(*values), compare);
	for (size_t i = 0; i < G_N_ELEMENTS(shares); i++) {
		size_t rank = (size_t)(shares[i] * N);
		uint64_t exact = values[rank ? rank - 1 : 0];
		uint64_t found = vms_histogram_quantile(histogram, shares[i]);
		uint64_t error = found > exact ? found - exact : exact - found;
		g_assert_cmpuint(error, <=, exact / 16);
	}
	g_assert_cmpuint(histogram->max, ==, values[N - 1]);
	g_free(histogram);
}

/* The ends of the range, and small values, exactly. */
static void test_exact(void)
{
	static const uint64_t values[] = { 0, 1, 15, 16, 31, UINT64_MAX };

	for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
		struct vms_histogram *histogram = g_new0(struct vms_histogram, 1);
		g_assert_cmpuint(vms_histogram_quantile(histogram, 0.5), ==, 0);
		vms_histogram_add(histogram, values[i]);
		uint64_t found = vms_histogram_quantile(histogram, 0.5);
		g_assert_cmpuint(values[i] - found, <=, values[i] / 32);
		g_assert_cmpuint(histogram->max, ==, values[i]);
		if (values[i] < 32)
			g_assert_cmpuint(found, ==, values[i]);
		g_free(histogram);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/histogram/quantiles", test_quantiles);
	g_test_add_func("/histogram/exact", test_exact);
	return g_test_run();
}
