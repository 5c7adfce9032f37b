/* SPDX-License-Identifier: MIT */
/* The rows of "vmscope top": samples of a round by function, process, container, vCPU and guest. */
#pragma once

#include "base/texts.h"
#include "top_rounds.h"

/* What a row stands for: any of these together. */
enum top_key {
	TOP_BY_GUEST = 1 << 0,
	TOP_BY_VCPU = 1 << 1,
	TOP_BY_PROCESS = 1 << 2,
	TOP_BY_FUNCTION = 1 << 3,
	TOP_BY_CONTAINER = 1 << 4,
};

/* What of a round is shown, and in which order. */
struct top_view {
	unsigned keys; /* enum top_key */
	bool with_idle;
	bool by_total; /* sorted by total, not by self */
};

/* Members that are no key of the view are NULL or 0; others are NULL if they are not known. */
struct top_row {
	const char *guest, *container, *process, *function, *module;
	unsigned vcpu;
	/* In percent of a vCPU's time: two busy vCPUs have 200. */
	double self, total;
	uint64_t samples; /* of `total` */
	uint64_t counted; /* the last stack that was counted in `total` */
};

struct top_rows {
	struct vms_texts *strings;
	GArray *rows; /* struct top_row, sorted */
};

struct top_rows *top_rows_new(const struct top_round *round, const struct top_view *view);
void top_rows_free(struct top_rows *rows);
