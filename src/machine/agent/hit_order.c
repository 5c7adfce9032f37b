/* SPDX-License-Identifier: MIT */
#include "machine/agent/hit_order.h"

struct held {
	struct vms_agent_hit hit;
	guint offset; /* of its values */
};

void vms_hit_order_init(struct vms_hit_order *order)
{
	order->held = g_array_new(FALSE, FALSE, sizeof(struct held));
	order->bytes = g_byte_array_new();
	order->next = 1;
	order->lost = 0;
}

void vms_hit_order_clear(struct vms_hit_order *order)
{
	g_array_unref(order->held);
	g_byte_array_unref(order->bytes);
}

void vms_hit_order_add(struct vms_hit_order *order, const struct vms_agent_hit *hit,
		       const uint8_t *values)
{
	const struct held held = { *hit, order->bytes->len };
	g_array_append_val(order->held, held);
	g_byte_array_append(order->bytes, values, hit->size);
}

/* Returns the values of a hit. `bytes->data` may be NULL if no hit has values. */
static const guint8 *get_values(const GByteArray *bytes, const struct held *held)
{
	return held->hit.size > 0 ? bytes->data + held->offset : (const guint8 *)"";
}

static gint compare_hits(gconstpointer a, gconstpointer b)
{
	const struct held *x = a, *y = b;
	return x->hit.number < y->hit.number ? -1 : x->hit.number > y->hit.number;
}

/* Removes the first `n` hits, which were delivered, and their values. */
static void drop_first_hits(struct vms_hit_order *order, guint n)
{
	GByteArray *bytes = order->bytes;
	g_array_remove_range(order->held, 0, n);
	order->bytes = g_byte_array_new();
	for (guint i = 0; i < order->held->len; i++) {
		struct held *held = &g_array_index(order->held, struct held, i);
		const guint8 *values = get_values(bytes, held);
		held->offset = order->bytes->len;
		g_byte_array_append(order->bytes, values, held->hit.size);
	}
	g_byte_array_unref(bytes);
}

/* Counts the missing numbers below `end` as lost, as far as they are settled. */
static void skip_lost_numbers(struct vms_hit_order *order, uint64_t end, uint64_t settled)
{
	const uint64_t to = MIN(end, settled + (settled < UINT64_MAX));
	if (to <= order->next)
		return;
	order->lost += to - order->next;
	order->next = to;
}

size_t vms_hit_order_run(struct vms_hit_order *order, uint64_t settled,
			 void (*each)(const struct vms_agent_hit *hit, const uint8_t *values,
				      void *data),
			 void *data)
{
	guint done = 0;
	size_t n = 0;
	g_array_sort(order->held, compare_hits);
	for (; done < order->held->len; done++) {
		const struct held *held = &g_array_index(order->held, struct held, done);
		skip_lost_numbers(order, held->hit.number, settled);
		if (held->hit.number > order->next)
			break;
		if (held->hit.number < order->next)
			continue; /* too late, or a duplicate */
		each(&held->hit, get_values(order->bytes, held), data);
		order->next++;
		n++;
	}
	if (done > 0)
		drop_first_hits(order, done);
	skip_lost_numbers(order, UINT64_MAX, settled);
	return n;
}

uint64_t vms_hit_order_first(const struct vms_hit_order *order)
{
	uint64_t first = 0;
	for (guint i = 0; i < order->held->len; i++) {
		const uint64_t number = g_array_index(order->held, struct held, i).hit.number;
		first = first ? MIN(first, number) : number;
	}
	return first;
}
