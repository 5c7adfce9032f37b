/* SPDX-License-Identifier: MIT */
/* Binary search. */
#pragma once

#include <stddef.h>

/*
 * Searches `n` items that are sorted. Gives the index of the first item for which `comes_before`,
 * an expression of the index `i`, is false, or `n` if it is true for all. It has to be true for all
 * items before that one.
 */
#define VMS_SEARCH(n, i, comes_before)                                                             \
	({                                                                                         \
		size_t search_low = 0, search_high = (n);                                          \
		while (search_low < search_high) {                                                 \
			size_t i = search_low + (search_high - search_low) / 2;                    \
			if (comes_before)                                                          \
				search_low = i + 1;                                                \
			else                                                                       \
				search_high = i;                                                   \
		}                                                                                  \
		search_low;                                                                        \
	})
