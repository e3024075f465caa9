/* SPDX-License-Identifier: Apache-2.0
 *
 * Long messages; see protobuf.h.
 */
#include "base/protobuf.h"

uint8_t *proto_close_long(uint8_t *content, uint8_t *end)
{
	uint8_t length[PROTO_VARINT_MOST];
	size_t size = (size_t)(end - content);
	size_t bytes = (size_t)(proto_varint(length, size) - length);

	memmove(content + bytes - 1, content, size);
	memcpy(content - 1, length, bytes);
	return end + bytes - 1;
}
