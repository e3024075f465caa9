/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks (fold.h), for flame graphs of other tools: lines of "outer;inner;… nanoseconds".
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

static int export_stacks(const struct run *run, FILE *out, struct err *err, bool device)
{
	uint32_t *path = NULL;
	size_t capacity = 0;
	struct fold f;
	int r = fold_make(&f, run, device ? FOLD_DEVICE : 0);

	for (size_t i = 1; r == 0 && i < f.n; i++) {
		int64_t ns = device ? f.nodes[i].device_ns : f.nodes[i].host_ns;

		if (ns > 0)
			r = put_line(&f, (uint32_t)i, ns, &path, &capacity, out);
	}
	free(path);
	fold_release(&f);
	return r < 0 ? err_sys(err, r, "cannot write the stacks of '%s'", run->info.name) : 0;
}

int export_folded(const struct run *run, FILE *out, struct err *err)
{
	return export_stacks(run, out, err, true);
}

int export_folded_host(const struct run *run, FILE *out, struct err *err)
{
	return export_stacks(run, out, err, false);
}
