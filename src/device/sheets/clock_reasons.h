/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a device's clocks are below their maximum: the bits of the sample "clock_limit_reasons",
 * which are NVML's, in words.
 */
#ifndef DEVICE_CLOCK_REASONS_H
#define DEVICE_CLOCK_REASONS_H

#define CLOCK_REASON_BITS 64

/* bit: its number, 0 to CLOCK_REASON_BITS - 1. NULL: NVML has given that bit no meaning. */
const char *clock_reason_words(unsigned int bit);

#endif
