/* SPDX-License-Identifier: MIT */
/* Whether this is a build with AddressSanitizer. */
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define VMS_IS_SANITIZED 1
#elif defined(__has_feature)
#define VMS_IS_SANITIZED __has_feature(address_sanitizer)
#else
#define VMS_IS_SANITIZED 0
#endif
