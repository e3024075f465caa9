/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch's allocator holds from the driver. One thread.
 *
 * A segment that can grow (expandable_segments) is mapped and unmapped in parts, and a part that goes
 * need not be one that came. Who reads a run wants pieces that go as they came; so a piece that
 * changes goes, and what it becomes comes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "ingest/torch_memory/torch_memory_inside.h"

static uint64_t end_of_piece(const struct torch_held *piece)
{
	return piece->address + piece->bytes;
}

/* The first piece that ends behind the address. */
static size_t find_piece(const struct torch_pieces *pieces, uint64_t address)
{
	size_t low = 0, high = pieces->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (end_of_piece(&pieces->all[middle]) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void tell_piece(const struct torch_pieces *pieces, enum torch_action action,
		       const struct torch_held *piece)
{
	if (pieces->tell)
		pieces->tell(pieces->context, action, piece->address, piece->bytes);
}

static struct torch_held take_piece(struct torch_pieces *pieces, size_t at)
{
	struct torch_held piece = pieces->all[at];

	memmove(pieces->all + at, pieces->all + at + 1,
		(pieces->n - at - 1) * sizeof(*pieces->all));
	pieces->n--;
	tell_piece(pieces, TORCH_RELEASE, &piece);
	return piece;
}

static int insert_piece(struct torch_pieces *pieces, uint64_t from, uint64_t to, bool mapped)
{
	struct torch_held piece = { .address = from, .bytes = to - from, .mapped = mapped };
	size_t at = find_piece(pieces, from);

	if (from >= to)
		return 0;
	if (array_grow(&pieces->all, &pieces->capacity, pieces->n + 1, sizeof(*pieces->all)) < 0)
		return -ENOMEM;
	memmove(pieces->all + at + 1, pieces->all + at, (pieces->n - at) * sizeof(*pieces->all));
	pieces->all[at] = piece;
	pieces->n++;
	tell_piece(pieces, TORCH_RESERVE, &piece);
	return 0;
}

int torch_pieces_remove(struct torch_pieces *pieces, uint64_t address, uint64_t bytes)
{
	uint64_t to = address + bytes;
	size_t at = find_piece(pieces, address);
	int r = 0;

	while (r >= 0 && bytes && at < pieces->n && pieces->all[at].address < to) {
		struct torch_held piece = take_piece(pieces, at);

		r = insert_piece(pieces, piece.address, address, piece.mapped);
		if (r >= 0)
			r = insert_piece(pieces, to, end_of_piece(&piece), piece.mapped);
		at = find_piece(pieces, address);
	}
	return r;
}

int torch_pieces_add(struct torch_pieces *pieces, uint64_t address, uint64_t bytes, bool mapped)
{
	uint64_t from = address, to = address + bytes;
	struct torch_held behind;
	int r = torch_pieces_remove(pieces, address, bytes);
	size_t at = find_piece(pieces, address);

	if (r < 0 || !bytes)
		return r;
	if (mapped && at < pieces->n && pieces->all[at].mapped && pieces->all[at].address == to) {
		behind = take_piece(pieces, at);
		to = end_of_piece(&behind);
	}
	if (mapped && at && pieces->all[at - 1].mapped &&
	    end_of_piece(&pieces->all[at - 1]) == from)
		from = take_piece(pieces, at - 1).address;
	return insert_piece(pieces, from, to, mapped);
}

void torch_pieces_release(struct torch_pieces *pieces)
{
	free(pieces->all);
	*pieces = (struct torch_pieces){ 0 };
}
