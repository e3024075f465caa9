/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of copies and sets.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/transfers/transfers.h"

static const char *bytes_text(struct format *text, uint64_t bytes, uint64_t not_told,
			      uint64_t count)
{
	*text = format_bytes((double)bytes);
	return not_told && not_told == count ? "n/a bytes" : text->text;
}

static void sums(const struct transfers *t, FILE *out)
{
	struct format bytes;

	fprintf(out, "  copies: %s, %s in %s, %s of them below %d bytes\n",
		format_count((double)t->count).text,
		bytes_text(&bytes, t->bytes, t->bytes_not_told, t->count),
		format_ns((double)t->time_ns).text, format_count((double)t->small).text,
		TRANSFER_SMALL_BYTES);
	if (t->sets)
		fprintf(out, "  sets: %s, %s in %s\n", format_count((double)t->sets).text,
			bytes_text(&bytes, t->set_bytes, t->set_bytes_not_told, t->sets),
			format_ns((double)t->set_time_ns).text);
	if (t->bytes_not_told || t->set_bytes_not_told)
		fprintf(out, "  without bytes: copies %" PRIu64 ", sets %" PRIu64 "; %s\n",
			t->bytes_not_told, t->set_bytes_not_told, NOT_IN_FILE);
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].limit_pct.known)
			fprintf(out, "  against the limit: %s %s, %s of %s/s\n", t->rows[i].kind,
				t->rows[i].memory, format_pct(t->rows[i].limit_pct.v).text,
				format_bytes(t->rows[i].limit_bytes_per_s.v).text);
	for (size_t i = 0; i < t->n_staged; i++)
		fprintf(out, "  staged through the host: gpu %u to gpu %u, %s moves, %s in %s\n",
			t->staged[i].src, t->staged[i].dst,
			format_count((double)t->staged[i].count).text,
			format_bytes((double)t->staged[i].bytes).text,
			format_ns((double)t->staged[i].time_ns).text);
	if (t->untimed || t->sets_untimed)
		fprintf(out, "  without times: %" PRIu64 "; they count, their time does not\n",
			t->untimed + t->sets_untimed);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct transfers *t = answer_transfers(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r = 0;

	if (!scene_has_device(scene->run)) {
		scene_no_device(scene, out);
		return 0;
	}
	scene_sampled(scene, "", out);
	if (grid->n) {
		r = grid_print(grid, limit, &layout, out);
		scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
		sums(t, out);
	} else {
		fputs("  no copies or sets in this run or window\n", out);
	}
	if (t->without_call)
		fprintf(out, "  left out: %" PRIu64 " whose call was not recorded\n",
			t->without_call);
	return r;
}

const struct section section_transfers = {
	.name = "transfers",
	.sql = "transfer_summary",
	.reads = READS(&subject_transfers, &subject_coverage),
	.device = true,
	.subject = &subject_transfers,
	.rows = &transfers_fields,
	.total = &transfers_total,
	.text = text,
};
