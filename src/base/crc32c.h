/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C (Castagnoli), by the processor's instruction where there is one.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* `crc` 0 to begin with; the value so far to go on. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);
/* The portable computation, for tests of the other one. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size);

#endif
