/* SPDX-License-Identifier: Apache-2.0
 *
 * How near the run comes to what its devices can do: MFU, and kernel classes (or operations)
 * against their roof.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/efficiency/efficiency.h"

static void line(const struct scene *scene, const char *words, FILE *out)
{
	fputs("  ", out);
	text_wrap(out, words, (size_t)scene_layout(scene, 0).width, 2, 4);
}

static void model_line(const struct scene *scene, FILE *out)
{
	const struct efficiency *e = answer_efficiency(scene->answers);
	char words[640];

	if (e->mfu_pct.known)
		snprintf(words, sizeof(words), "MFU %s of %s (%s): %s FLOP in %zu step%s (%s)",
			 format_pct(e->mfu_pct.v).text,
			 peak_dtype_name((enum peak_dtype)(int)e->dtype.v), e->dtype_source,
			 format_count(e->model_flops.v).text, e->steps, e->steps == 1 ? "" : "s",
			 e->flops_source);
	else
		snprintf(words, sizeof(words), "MFU n/a: %s", e->mfu_pct.reason);
	line(scene, words, out);
	if (!e->mfu_pct.known && e->model_flops_per_s.known) {
		snprintf(words, sizeof(words), "model: %s in %zu step%s (%s)",
			 format_flops(e->model_flops_per_s.v).text, e->steps,
			 e->steps == 1 ? "" : "s", e->flops_source);
		line(scene, words, out);
	}
}

static void device_line(const struct scene *scene, const struct efficiency_device *d, FILE *out)
{
	char words[640], where[48], peak[64] = "n/a";

	snprintf(where, sizeof(where), d->cpu ? "processor" : "rank %u, gpu %u", d->rank,
		 d->device);
	if (!d->source) {
		snprintf(words, sizeof(words), "%s: %s", where, d->reason);
		line(scene, words, out);
		return;
	}
	if (d->peak_flops_per_s.known)
		snprintf(peak, sizeof(peak), "%s", format_flops(d->peak_flops_per_s.v).text);
	snprintf(words, sizeof(words), "%s: %s, peak %s, memory %s/s; %s", where, d->name, peak,
		 d->memory_bytes_per_s.known ? format_bytes(d->memory_bytes_per_s.v).text : "n/a",
		 d->source);
	line(scene, words, out);
	if (!d->gpm[GPM_SM].known && !d->gpm[GPM_TENSOR].known && !d->gpm[GPM_DRAM].known)
		return;
	snprintf(words, sizeof(words), "measured: SM active %s, tensor active %s, DRAM %s",
		 d->gpm[GPM_SM].known ? format_pct(d->gpm[GPM_SM].v).text : "n/a",
		 d->gpm[GPM_TENSOR].known ? format_pct(d->gpm[GPM_TENSOR].v).text : "n/a",
		 d->gpm[GPM_DRAM].known ? format_pct(d->gpm[GPM_DRAM].v).text : "n/a");
	fputs("  ", out);
	line(scene, words, out);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct efficiency *e = answer_efficiency(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r = 0;

	model_line(scene, out);
	for (size_t i = 0; i < e->n_devices && i < 8; i++)
		device_line(scene, &e->devices[i], out);
	if (e->n_devices > 8)
		fprintf(out, "  ... %zu more devices: moescope efficiency --json\n",
			e->n_devices - 8);
	if (e->on_device)
		scene_sampled(scene, "", out);
	if (!grid->n) {
		fputs(e->on_device ? "  no kernels in this run or window\n"
		      : run_is_foreign(scene->run)
			      ? "  no operation of the file tells FLOPs or bytes\n"
			      : "  no operation told FLOPs or bytes: see moescope_op_end()\n",
		      out);
		return 0;
	}
	if (e->on_device && !efficiency_is_told(e)) {
		fputs("  work against its roof: n/a (no kernel's operation told FLOPs or bytes)\n",
		      out);
		return 0;
	}
	r = grid_print(grid, limit, &layout, out);
	scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
	fputs(e->on_device ? "  rates are over the covered time: kernels whose operation told "
			     "FLOPs or bytes\n"
			   : "  rates and roof are of one thread; est.: all cores share the peak "
			     "alike\n",
	      out);
	return r;
}

const struct section section_efficiency = {
	.name = "efficiency",
	.sql = "efficiency_summary",
	.reads = READS(&subject_efficiency, &subject_routing, &subject_coverage),
	.device = true,
	.subject = &subject_efficiency,
	.rows = &efficiency_fields,
	.total = &efficiency_total,
	.text = text,
};
