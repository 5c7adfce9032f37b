/* SPDX-License-Identifier: MIT */
/*
 * The functions of plain_calls.h. Included by those who count them, by their ENTERED(name), and who
 * say what is done AT_THE_BOTTOM() of a deep stack.
 */
#pragma once

#include "plain_calls.h"

NOINLINE void leaf(void)
{
	ENTERED(leaf);
}

NOINLINE void middle(void)
{
	ENTERED(middle);
	leaf();
	leaf();
	STAY();
}

NOINLINE void outer(void)
{
	ENTERED(outer);
	middle();
	leaf();
	middle();
	STAY();
}

NOINLINE void recurse(unsigned depth)
{
	ENTERED(recurse);
	if (depth > 0)
		recurse(depth - 1);
	else
		AT_THE_BOTTOM();
	STAY();
}

NOINLINE unsigned tail_end(unsigned value)
{
	ENTERED(tail_end);
	return value + 1;
}

NOINLINE unsigned tail_next(unsigned value)
{
	ENTERED(tail_next);
	return tail_end(value + 1);
}

NOINLINE unsigned tail_begin(unsigned value)
{
	ENTERED(tail_begin);
	leaf();
	return tail_next(value + 1);
}

static unsigned (*volatile tail)(unsigned) = tail_begin;

NOINLINE unsigned tail_pointer(unsigned value)
{
	ENTERED(tail_pointer);
	return tail(value);
}

NOINLINE void pointed(void)
{
	ENTERED(pointed);
	leaf();
	STAY();
}

static void (*volatile pointer)(void) = pointed;
