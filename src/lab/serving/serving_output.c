/* SPDX-License-Identifier: Apache-2.0
 *
 * Serving figures as JSON and as text; see serving.h.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text/format.h"
#include "lab/serving/serving.h"

static const struct {
	const char *key, *title;
} metrics[SERVING_METRICS] = {
	[SERVING_TTFT] = { "ttft_ms", "TTFT" },	      [SERVING_TPOT] = { "tpot_ms", "TPOT" },
	[SERVING_ITL] = { "itl_ms", "ITL" },	      [SERVING_ICL] = { "icl_ms", "ICL" },
	[SERVING_E2EL] = { "e2el_ms", "end to end" },
};

static const struct {
	const char *key, *title;
	size_t offset;
} rates[SERVING_RATES] = {
	[SERVING_DURATION] = { "duration_s", "duration, s", offsetof(struct serving, duration_s) },
	[SERVING_REQUESTS_PER_S] = { "requests_per_s", "requests/s",
				     offsetof(struct serving, requests_per_s) },
	[SERVING_OUTPUT_TOKENS_PER_S] = { "output_tokens_per_s", "output tokens/s",
					  offsetof(struct serving, output_tokens_per_s) },
	[SERVING_TOTAL_TOKENS_PER_S] = { "total_tokens_per_s", "all tokens/s",
					 offsetof(struct serving, total_tokens_per_s) },
	[SERVING_GOODPUT] = { "goodput_per_s", "goodput/s",
			      offsetof(struct serving, goodput_per_s) },
	[SERVING_CONCURRENCY_MEAN] = { "concurrency_mean", "concurrency",
				       offsetof(struct serving, concurrency_mean) },
	[SERVING_CONCURRENCY_MAX] = { "concurrency_max", "concurrency, most",
				      offsetof(struct serving, concurrency_max) },
};

const char *serving_metric_key(enum serving_metric metric)
{
	return metrics[metric].key;
}

double serving_rate(const struct serving *serving, enum serving_rate rate)
{
	double value;

	memcpy(&value, (const char *)serving + rates[rate].offset, sizeof(value));
	return value;
}

/* null, and KEY_reason next to it. */
static void put_absent(struct json *json, const char *key, const char *reason)
{
	char name[64];

	json_key(json, key);
	json_null(json);
	snprintf(name, sizeof(name), "%s_reason", key);
	json_key(json, name);
	json_string(json, reason);
}

static void put_distribution(struct json *json, const char *key, const struct distribution *d,
			     const char *formula)
{
	const struct {
		const char *key;
		double value;
	} members[] = {
		{ "mean", d->mean }, { "std", d->std }, { "min", d->min }, { "max", d->max },
		{ "p50", d->p50 },   { "p90", d->p90 }, { "p95", d->p95 }, { "p99", d->p99 },
	};

	if (!d->n) {
		put_absent(json, key, d->reason);
		return;
	}
	json_key(json, key);
	json_object_line(json);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		json_key(json, members[i].key);
		json_double(json, members[i].value);
	}
	json_key(json, "n");
	json_uint(json, d->n);
	json_key(json, "formula");
	json_string(json, formula);
	json_object_end(json);
}

static void put_tokens(struct json *json, const char *key, int64_t tokens)
{
	if (tokens < 0) {
		put_absent(json, key, "the server did not say");
		return;
	}
	json_key(json, key);
	json_int(json, tokens);
}

void serving_write_json(const struct serving *serving, struct json *json)
{
	const struct {
		const char *key;
		size_t n;
	} counts[] = {
		{ "ok", serving->ok },
		{ "failed", serving->failed },
		{ "cancelled", serving->cancelled },
		{ "timeout", serving->timeouts },
		{ "unfinished", serving->unfinished },
	};

	json_object(json);
	json_key(json, "owner");
	json_string(json, serving_owner(serving->dialect));
	for (int i = 0; i < SERVING_METRICS; i++)
		put_distribution(json, metrics[i].key, &serving->metrics[i],
				 serving_formula(serving->dialect, (enum serving_metric)i));
	for (int i = 0; i < SERVING_RATES; i++) {
		double value = serving_rate(serving, (enum serving_rate)i);

		if (isnan(value)) {
			put_absent(json, rates[i].key, serving->rate_reasons[i]);
			continue;
		}
		json_key(json, rates[i].key);
		json_double(json, value);
	}
	put_tokens(json, "prompt_tokens", serving->prompt_tokens);
	put_tokens(json, "output_tokens", serving->output_tokens);
	json_key(json, "server_counts");
	json_bool(json, serving->server_counts);
	put_distribution(json, "lateness_ms", &serving->lateness, "sent - due, of this client");
	json_key(json, "requests_by_end");
	json_object_line(json);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		json_key(json, counts[i].key);
		json_uint(json, counts[i].n);
	}
	json_object_end(json);
	json_key(json, "formulas");
	json_object(json);
	for (int i = 0; i < SERVING_RATES; i++) {
		const char *formula = serving_rate_formula(serving->dialect, (enum serving_rate)i);

		if (!formula)
			continue;
		json_key(json, rates[i].key);
		json_string(json, formula);
	}
	json_object_end(json);
	json_object_end(json);
}

static void put_row(struct text_table *table, const char *title, const struct distribution *d)
{
	const double values[] = { d->mean, d->std, d->p50, d->p90, d->p95, d->p99, d->max };

	text_table_cell(table, title, TEXT_PLAIN);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if (d->n)
			text_table_cellf(table, TEXT_PLAIN, "%.2f", values[i]);
		else
			text_table_cell(table, "n/a", TEXT_DIM);
	}
	text_table_cellf(table, TEXT_PLAIN, "%s", format_count((double)d->n).text);
}

static int print_table(const struct serving *serving, const struct text_layout *layout, FILE *out)
{
	static const struct text_column columns[] = {
		{ "ms", TEXT_LEFT, false },   { "mean", TEXT_RIGHT, false },
		{ "std", TEXT_RIGHT, false }, { "p50", TEXT_RIGHT, false },
		{ "p90", TEXT_RIGHT, false }, { "p95", TEXT_RIGHT, false },
		{ "p99", TEXT_RIGHT, false }, { "max", TEXT_RIGHT, false },
		{ "n", TEXT_RIGHT, false },
	};
	struct text_table *table = text_table_new(columns, sizeof(columns) / sizeof(columns[0]));
	int r;

	if (!table)
		return -ENOMEM;
	for (int i = 0; i < SERVING_METRICS; i++)
		if (serving_formula(serving->dialect, (enum serving_metric)i))
			put_row(table, metrics[i].title, &serving->metrics[i]);
	if (serving->lateness.n)
		put_row(table, "client late", &serving->lateness);
	r = text_table_print(table, layout, out);
	text_table_free(table);
	return r;
}

static void print_formulas(const struct serving *serving, const struct text_layout *layout,
			   FILE *out)
{
	size_t width = layout->width > 0 ? (size_t)layout->width : 100;

	fprintf(out, "\n%*sHow %s computes them:\n", layout->indent, "",
		serving_owner(serving->dialect));
	for (int i = 0; i < SERVING_METRICS + SERVING_RATES; i++) {
		int rate = i - SERVING_METRICS;
		const char *formula =
			rate < 0 ? serving_formula(serving->dialect, (enum serving_metric)i)
				 : serving_rate_formula(serving->dialect, (enum serving_rate)rate);

		if (!formula)
			continue;
		fprintf(out, "%*s%-17s  ", layout->indent + 2, "",
			rate < 0 ? metrics[i].title : rates[rate].title);
		text_wrap(out, formula, width, (size_t)layout->indent + 21,
			  (size_t)layout->indent + 21);
	}
}

int serving_print(const struct serving *serving, const struct text_layout *layout, bool formulas,
		  FILE *out)
{
	int r;

	fprintf(out, "%*sServing, as %s counts: %zu ok, %zu failed", layout->indent, "",
		serving_owner(serving->dialect), serving->ok, serving->failed);
	if (serving->cancelled)
		fprintf(out, ", %zu cancelled", serving->cancelled);
	if (serving->timeouts)
		fprintf(out, ", %zu timed out", serving->timeouts);
	if (serving->unfinished)
		fprintf(out, ", %zu unfinished", serving->unfinished);
	fputc('\n', out);
	r = print_table(serving, layout, out);
	if (r < 0)
		return r;
	for (int i = 0; i < SERVING_RATES; i++) {
		double value = serving_rate(serving, (enum serving_rate)i);

		if (!serving_rate_formula(serving->dialect, (enum serving_rate)i))
			continue;
		fprintf(out, "%*s%-17s  ", layout->indent, "", rates[i].title);
		if (isnan(value))
			fprintf(out, "n/a: %s\n", serving->rate_reasons[i]);
		else
			fprintf(out, "%.5g\n", value);
	}
	if (formulas)
		print_formulas(serving, layout, out);
	return 0;
}
