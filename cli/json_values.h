/* SPDX-License-Identifier: MIT */
/* Values in JSON output that commands print alike. */
#pragma once

#include <json-c/json.h>
#include <stdint.h>

/* An address as text in hexadecimal, since a number of JSON may not hold 64 bits. */
struct json_object *json_address(uint64_t va);
