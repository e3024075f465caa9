/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks (fold.h), for flame graphs of other tools: lines of "outer;inner;… nanoseconds", or bytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/utf8.h"
#include "exports/exports.h"
#include "exports/stacks/fold.h"

/* A name without what separates names and lines. */
static void put_text(struct buf *out, const char *text)
{
	size_t length = strlen(text), taken;

	for (size_t i = 0; i < length; i += taken) {
		uint32_t point;
		int valid;

		taken = utf8_decode(text + i, length - i, &point, &valid);
		if (!valid)
			buf_append(out, "\xef\xbf\xbd", 3);
		else if (point == ';')
			buf_append(out, ":", 1);
		else if (!utf8_is_harmless(point))
			buf_append(out, " ", 1);
		else
			buf_append(out, text + i, taken);
	}
}

static int put_line(struct fold *f, uint32_t node, int64_t ns, uint32_t **path, size_t *capacity,
		    FILE *out)
{
	struct buf line = { 0 };
	size_t depth = 0;
	int r = 0;

	for (; node; node = f->nodes[node].parent) {
		r = array_grow(path, capacity, depth + 1, sizeof(**path));
		if (r < 0)
			return r;
		(*path)[depth++] = f->nodes[node].label;
	}
	while (depth) {
		put_text(&line, interned_key(&f->labels.texts, (*path)[--depth]));
		buf_append(&line, depth ? ";" : " ", 1);
	}
	buf_printf(&line, "%" PRId64 "\n", ns);
	if (line.failed)
		r = -ENOMEM;
	else if (fwrite(line.data, 1, line.size, out) != line.size)
		r = errno ? -errno : -EIO;
	buf_release(&line);
	return r;
}

static int64_t device_ns(const struct fold_node *node)
{
	return node->device_ns;
}

static int64_t host_ns(const struct fold_node *node)
{
	return node->host_ns;
}

static int64_t heap_bytes(const struct fold_node *node)
{
	return node->heap_bytes;
}

/* made: what fold_make… returned. */
static int export_stacks(struct fold *f, int made, int64_t (*weight)(const struct fold_node *),
			 FILE *out, struct err *err)
{
	const char *name = f->run->info.name;
	uint32_t *path = NULL;
	size_t capacity = 0;
	int r = made;

	for (size_t i = 1; r == 0 && i < f->n; i++)
		if (weight(&f->nodes[i]) > 0)
			r = put_line(f, (uint32_t)i, weight(&f->nodes[i]), &path, &capacity, out);
	free(path);
	fold_release(f);
	return r < 0 ? err_sys(err, r, "cannot write the stacks of '%s'", name) : 0;
}

int export_folded(const struct run *run, FILE *out, struct err *err)
{
	struct fold f;

	return export_stacks(&f, fold_make(&f, run, FOLD_DEVICE), device_ns, out, err);
}

int export_folded_host(const struct run *run, FILE *out, struct err *err)
{
	struct fold f;

	return export_stacks(&f, fold_make(&f, run, 0), host_ns, out, err);
}

int export_folded_heap(const struct run *run, FILE *out, struct err *err)
{
	struct fold f;

	return export_stacks(&f, fold_make_heap(&f, run), heap_bytes, out, err);
}
