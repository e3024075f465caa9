/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of the requests of an inference run.
 */
#include "base/text/format.h"
#include "subjects/inference/inference.h"
#include "subjects/pages/pages.h"

#define TOP_REQUESTS 8

static void latency_line(const char *name, const struct stats_summary *s, struct page *page)
{
	if (s->n)
		page_line(page, 2, "%-5s p50 %s, p95 %s, p99 %s, max %s", name,
			  format_ns(s->p50).text, format_ns(s->p95).text, format_ns(s->p99).text,
			  format_ns(s->max).text);
	else
		page_line(page, 2, "%-5s n/a", name);
}

static void stage_line(const char *name, const struct inference_stage *stage, struct page *page)
{
	page_words(page, 2, 10, "%-7s ", name);
	if (!stage->time_ns.known) {
		page_put_in(page, TONE_PLAIN, "n/a: %s", stage->time_ns.reason);
		return;
	}
	page_put_in(page, TONE_PLAIN, "%s, %s tokens", format_ns(stage->time_ns.v).text,
		    format_count(stage->tokens.v).text);
	if (stage->tokens_per_s.known)
		page_put(page, ", %s tokens/s", format_count(stage->tokens_per_s.v).text);
	if (stage->range_ns.known)
		page_put(page, "; in its ranges %s", format_ns(stage->range_ns.v).text);
	if (stage->device_ns.known)
		page_put(page, ", on devices %s", format_ns(stage->device_ns.v).text);
}

static void request_rows(const struct scene *scene, struct page *page)
{
	struct field_row from = { .run = scene->run, .item = answer_inference(scene->answers) };
	struct grid *grid = page_grid(page);
	int r = grid ? grid_fill(grid, &requests_fields, &from) : 0;

	if (grid && r >= 0)
		r = grid_sort(grid, "ttft_ns", NULL);
	if (r < 0)
		page->error = r;
	page_table(page, grid, TOP_REQUESTS, ": moescope report --json");
}

static bool has_requests(const struct inference *f)
{
	return f->requests || f->without_begin;
}

static void sums(const struct inference *f, struct page *page)
{
	page_line(page, 2, "%zu request%s (%zu finished), %s prompt tokens, %s tokens generated",
		  f->requests, f->requests == 1 ? "" : "s", f->finished,
		  format_count((double)f->prompt_tokens).text,
		  format_count((double)f->tokens).text);
	if (f->tokens_per_s.known)
		page_put(page, ", %s tokens/s", format_count(f->tokens_per_s.v).text);
	latency_line("TTFT", &f->ttft_ns, page);
	latency_line("TPOT", &f->tpot_ns, page);
	latency_line("ITL", &f->itl_ns, page);
	stage_line("prefill", &f->stages[STAGE_PREFILL], page);
	stage_line("decode", &f->stages[STAGE_DECODE], page);
	if (f->without_begin)
		page_line(page, 2, "%zu token records belong to requests whose begin is missing",
			  f->without_begin);
}

static void requests_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct inference *f = answer_inference(scene->answers);

	if (!has_requests(f)) {
		page_words(page, 2, 2,
			   "no requests in this run; programs mark them with "
			   "moescope_request_begin");
		return;
	}
	page_sampled(scene, "device time ", page);
	if (grid->n)
		page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	sums(f, page);
}

/* Its rows are ordered by their first token, which a person waits for. */
void inference_report(const struct scene *scene, struct page *page)
{
	const struct inference *f = answer_inference(scene->answers);

	if (!has_requests(f))
		return;
	page_title(page, "Inference");
	sums(f, page);
	if (f->n_rows)
		request_rows(scene, page);
}

const struct section section_requests = {
	.name = "requests",
	.schema = "request_times", /* "requests" is the file of an experiment */
	.sql = "request_times",
	.reads = READS(&subject_inference, &subject_coverage),
	.device = true,
	.subject = &subject_inference,
	.rows = &requests_fields,
	.total = &inference_total,
	.page = requests_page,
	.command = {
		.place = 20,
		.summary = "latency and tokens of each inference request",
		.description = "One row per request: its begin, tokens given and produced, time "
			       "to the first token (TTFT), time per token after it (TPOT), time "
			       "to the last token, and tokens per second.",
		.examples = EXAMPLES({ "moescope requests",
				       "The newest run here, in the order in which requests began." },
				     { "moescope requests a.mscope --sort ttft_ns",
				       "Slowest first token first." }),
	},
};
