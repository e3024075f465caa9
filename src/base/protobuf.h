/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing protobuf by hand into memory that the caller has made room for: no allocation, no check of
 * the room. Any thread, a place of its own each.
 *
 * A message inside another is written after one byte for its length; what turns out longer than that
 * byte can say is moved.
 */
#ifndef BASE_PROTOBUF_H
#define BASE_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PROTO_VARINT_MOST 10

enum proto_wire { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_LENGTH = 2 };

static inline uint8_t *proto_varint(uint8_t *at, uint64_t value)
{
	while (value >= 0x80) {
		*at++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*at++ = (uint8_t)value;
	return at;
}

static inline uint8_t *proto_tag(uint8_t *at, uint32_t field, enum proto_wire wire)
{
	return proto_varint(at, (uint64_t)field << 3 | wire);
}

static inline uint8_t *proto_uint(uint8_t *at, uint32_t field, uint64_t value)
{
	return proto_varint(proto_tag(at, field, PROTO_VARINT), value);
}

static inline uint8_t *proto_int(uint8_t *at, uint32_t field, int64_t value)
{
	return proto_uint(at, field, (uint64_t)value);
}

/* Little-endian, as the format wants it, on any machine. */
static inline uint8_t *proto_fixed64(uint8_t *at, uint32_t field, uint64_t value)
{
	at = proto_tag(at, field, PROTO_FIXED64);
	for (int i = 0; i < 8; i++)
		*at++ = (uint8_t)(value >> 8 * i);
	return at;
}

static inline uint8_t *proto_double(uint8_t *at, uint32_t field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return proto_fixed64(at, field, bits);
}

static inline uint8_t *proto_bytes(uint8_t *at, uint32_t field, const void *bytes, size_t size)
{
	at = proto_varint(proto_tag(at, field, PROTO_LENGTH), size);
	memcpy(at, bytes, size);
	return at + size;
}

/* A message: its content goes after proto_open's result, which proto_close takes back together with
 * the end of the content. */
static inline uint8_t *proto_open(uint8_t *at, uint32_t field)
{
	return proto_tag(at, field, PROTO_LENGTH) + 1;
}

uint8_t *proto_close_long(uint8_t *content, uint8_t *end);

static inline uint8_t *proto_close(uint8_t *content, uint8_t *end)
{
	if (end - content >= 0x80)
		return proto_close_long(content, end);
	content[-1] = (uint8_t)(end - content);
	return end;
}

#endif
