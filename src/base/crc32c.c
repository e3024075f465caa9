/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C: one bit-reflected table for any machine, the crc32 instructions of SSE 4.2 and
 * ARMv8 where the processor has them. Pure functions.
 */
#include "base/crc32c.h"

#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define HARDWARE_TARGET __attribute__((target("sse4.2")))
#define CRC_8(crc, v) ((uint32_t)_mm_crc32_u64(crc, v))
#define CRC_1(crc, v) _mm_crc32_u8(crc, v)
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#define HARDWARE_TARGET __attribute__((target("+crc")))
#define CRC_8(crc, v) __crc32cd(crc, v)
#define CRC_1(crc, v) __crc32cb(crc, v)
#endif

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size)
{
	const uint8_t *p = data;

	crc = ~crc;
	while (size--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

#ifdef HARDWARE_TARGET
HARDWARE_TARGET static uint32_t crc32c_hardware(uint32_t crc, const void *data, size_t size)
{
	const uint8_t *p = data;

	crc = ~crc;
	for (; size >= 8; size -= 8, p += 8) {
		uint64_t v;

		memcpy(&v, p, sizeof(v));
		crc = CRC_8(crc, v);
	}
	while (size--)
		crc = CRC_1(crc, *p++);
	return ~crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return crc32c_hardware(crc, data, size);
#elif defined(__aarch64__)
	if (getauxval(AT_HWCAP) & HWCAP_CRC32)
		return crc32c_hardware(crc, data, size);
#endif
	return crc32c_portable(crc, data, size);
}
