/* SPDX-License-Identifier: MIT */
/* Includes all of libvmscope's public interface. */
#pragma once

#include <vmscope/address_space.h>
#include <vmscope/aggregate.h>
#include <vmscope/arch.h>
#include <vmscope/budget.h>
#include <vmscope/calls.h>
#include <vmscope/cfg.h>
#include <vmscope/comparison.h>
#include <vmscope/core.h>
#include <vmscope/coverage.h>
#include <vmscope/debug_files.h>
#include <vmscope/dump.h>
#include <vmscope/error.h>
#include <vmscope/export.h>
#include <vmscope/facts.h>
#include <vmscope/flow.h>
#include <vmscope/flow_profile.h>
#include <vmscope/guest.h>
#include <vmscope/launch.h>
#include <vmscope/log.h>
#include <vmscope/machine.h>
#include <vmscope/memory.h>
#include <vmscope/profile.h>
#include <vmscope/recording.h>
#include <vmscope/run_facts.h>
#include <vmscope/sample.h>
#include <vmscope/sample_record.h>
#include <vmscope/sampler.h>
#include <vmscope/symbol.h>
#include <vmscope/symbolizer.h>
#include <vmscope/syscall.h>
#include <vmscope/table.h>
#include <vmscope/types.h>
#include <vmscope/unwind.h>
