/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_parse on arbitrary text, and the decision for any schedule and step. The first eight
 * bytes are the step, the text follows.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "probe/core/probe.h"

/* The definition, one step after another; slow and obvious. */
static int records_slowly(const struct moescope_schedule *s, int64_t step)
{
	uint64_t recorded = 0, cycle = (uint64_t)s->wait + s->warmup + s->active;
	int now = 0;

	for (int64_t i = 0; i <= step; i++) {
		uint64_t in = (uint64_t)i - s->skip_first;

		now = i >= s->skip_first &&
		      (!cycle || ((!s->repeat || in / cycle < s->repeat) &&
				  in % cycle >= (uint64_t)s->wait + s->warmup));
		if (now && s->sample > 1)
			now = recorded++ % s->sample == 0;
	}
	return now;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct moescope_schedule schedule;
	int64_t step = 0;
	char *text;

	if (size < sizeof(step))
		return 0;
	memcpy(&step, data, sizeof(step));
	text = strndup((const char *)data + sizeof(step), size - sizeof(step));
	if (!text)
		abort();
	if (schedule_parse(text, &schedule) == 0) {
		int records = moescope_schedule_records(&schedule, step);

		if (step < 0 && records)
			abort();
		step &= 255;
		if (!moescope_schedule_records(&schedule, step) != !records_slowly(&schedule, step))
			abort();
	}
	free(text);
	return 0;
}
