/* SPDX-License-Identifier: Apache-2.0
 *
 * One line about a run in progress. Pure.
 */
#include "documents/progress_line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/routing/routing_metrics.h"

static void append(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void append(char *out, size_t size, const char *format, ...)
{
	size_t used = strlen(out);
	va_list args;

	va_start(args, format);
	vsnprintf(out + used, size - used, format, args);
	va_end(args);
}

static bool last_counter(const struct run *run, const char *name, double *ret_value)
{
	for (size_t i = run->counter.n; i-- > 0;) {
		if (strcmp(run_string(run, run->counter.name[i]), name) == 0) {
			*ret_value = run->counter.value[i];
			return true;
		}
	}
	return false;
}

static bool tokens_per_second(const struct run *run, size_t first, double *ret_rate)
{
	double tokens = 0, ns = 0;

	for (size_t i = first; i < run->step.n; i++) {
		if (!run->step.tokens_known[i] || run->step.unfinished[i])
			continue;
		tokens += (double)run->step.tokens[i];
		ns += (double)run->step.duration_ns[i];
	}
	if (ns <= 0)
		return false;
	*ret_rate = tokens / ns * 1e9;
	return true;
}

/* Mean over the layers of the newest routed step of max/mean load. */
static int newest_imbalance(const struct run *run, bool *ret_known, double *ret_imbalance)
{
	size_t n = run->routing.n, layers = 0;
	int64_t step = n ? run->routing.step[n - 1] : 0;
	double sum = 0;

	for (size_t i = n; i-- > 0 && run->routing.step[i] == step;) {
		uint32_t experts = run->routing.experts[i];
		const uint32_t *load = run->routing.load + run->routing.load_first[i];
		uint64_t *wide = calloc(experts ? experts : 1, sizeof(*wide));
		struct load_metrics metrics;
		int r;

		if (!wide)
			return -ENOMEM;
		for (uint32_t e = 0; e < experts; e++)
			wide[e] = load[e];
		r = load_metrics_compute(wide, experts, &metrics);
		free(wide);
		if (r < 0)
			return r;
		if (metrics.known) {
			sum += metrics.imbalance;
			layers++;
		}
	}
	*ret_known = layers > 0;
	*ret_imbalance = layers ? sum / (double)layers : 0;
	return 0;
}

int progress_line(const struct run *run, size_t first, char *out, size_t size)
{
	double value;
	bool known;
	int r;

	out[0] = '\0';
	if (run->step.n == 0)
		return 0;
	append(out, size, "step %lld", (long long)run->step.step[run->step.n - 1]);
	if (last_counter(run, "loss", &value))
		append(out, size, "  loss %.3f", value);
	if (tokens_per_second(run, first, &value))
		append(out, size, "  %s tokens/s", format_count(value).text);
	r = newest_imbalance(run, &known, &value);
	if (r < 0)
		return r;
	if (known)
		append(out, size, "  imbalance %.2f", value);
	if (loss_total(&run->loss))
		append(out, size, "  lost %llu", (unsigned long long)loss_total(&run->loss));
	return 0;
}
