/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects when a server gets more requests than it can serve; see saturation.h.
 */
#include "lab/load/saturation.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/buf.h"

#define BETWEEN_TESTS_S 0.25

void saturation_release(struct saturation *saturation)
{
	free(saturation->under_way.at_s);
	free(saturation->under_way.value);
	free(saturation->ttft.at_s);
	free(saturation->ttft.value);
	*saturation = (struct saturation){ 0 };
}

static int add_sample_at(struct saturation_series *series, double at_s, double value)
{
	if (array_grow(&series->at_s, &series->at_capacity, series->n + 1, sizeof(double)) < 0 ||
	    array_grow(&series->value, &series->value_capacity, series->n + 1, sizeof(double)) < 0)
		return -ENOMEM;
	series->at_s[series->n] = at_s;
	series->value[series->n++] = value;
	return 0;
}

int saturation_sent(struct saturation *saturation, double at_s, size_t under_way)
{
	return add_sample_at(&saturation->under_way, at_s, (double)under_way);
}

int saturation_first_token(struct saturation *saturation, double at_s, double ttft_s)
{
	return add_sample_at(&saturation->ttft, at_s, ttft_s);
}

void saturation_ended(struct saturation *saturation, double latency_s)
{
	if (saturation->shortest_s == 0 || latency_s < saturation->shortest_s)
		saturation->shortest_s = latency_s;
}

/* A least-squares line through the later half: whether its slope is above 0 by two standard errors,
 * and its end above its beginning by the growth. */
static bool series_grows(struct saturation_series *series, double from_s)
{
	double n, t = 0, y = 0, tt = 0, ty = 0, yy = 0, slope, error, begin, end;

	while (series->first < series->n && series->at_s[series->first] < from_s)
		series->first++;
	n = (double)(series->n - series->first);
	if (n < SATURATION_SAMPLES)
		return false;
	for (size_t i = series->first; i < series->n; i++) {
		t += series->at_s[i] / n;
		y += series->value[i] / n;
	}
	for (size_t i = series->first; i < series->n; i++) {
		double dt = series->at_s[i] - t, dy = series->value[i] - y;

		tt += dt * dt;
		ty += dt * dy;
		yy += dy * dy;
	}
	if (!(tt > 0))
		return false;
	slope = ty / tt;
	error = sqrt(fmax(yy - slope * ty, 0) / (n - 2) / tt);
	begin = y + slope * (series->at_s[series->first] - t);
	end = y + slope * (series->at_s[series->n - 1] - t);
	return slope > 2 * error && end > SATURATION_GROWTH * fmax(begin, 0);
}

bool saturation_test(struct saturation *saturation, double now_s)
{
	/* While the first requests are in flight their number grows anyway. */
	if (now_s < SATURATION_SECONDS || now_s < saturation->next_test_s ||
	    saturation->shortest_s == 0 || now_s < 3 * saturation->shortest_s)
		return false;
	saturation->next_test_s = now_s + BETWEEN_TESTS_S;
	return series_grows(&saturation->under_way, now_s / 2) &&
	       series_grows(&saturation->ttft, now_s / 2);
}
