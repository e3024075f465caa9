/* SPDX-License-Identifier: Apache-2.0
 *
 * The window of a run that is followed; see window.h.
 *
 * Trimming costs some passes over the rows that are there, so it is done when the tables are a quarter larger
 * than it leaves them.
 */
#include "tables/window.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tables/room.h"

#define BINS 1024
#define NARROWINGS 8	  /* of the time looked at, if nearly all rows are in one bin */
#define COUNTER_KEPT 1024 /* rows of a counter that are older than the window */

/* How rows of a kind that are older than the window are let go. */
enum rule {
	RULE_TIME, /* all of them */
	RULE_STAY, /* none: they are few, and needed whenever */
	RULE_LAST, /* but the last of each thing: it says how it is since */
	RULE_BLOCKS,
	RULE_COUNTER,
	RULE_SAMPLE,
	RULE_TOKEN,
	RULE_ROUTED,
};

static enum rule rule_of(unsigned int kind)
{
	static const enum rule rules[RECORD_KIND_LIMIT] = {
		[RECORD_GRAPH_NODE] = RULE_STAY,  [RECORD_POOL] = RULE_STAY,
		[RECORD_GEAR] = RULE_LAST,	  [RECORD_PROCESS] = RULE_LAST,
		[RECORD_MEMORY] = RULE_BLOCKS,	  [RECORD_DEVICE_MEMORY] = RULE_BLOCKS,
		[RECORD_COUNTER] = RULE_COUNTER,  [RECORD_SAMPLE] = RULE_SAMPLE,
		[RECORD_TOKEN] = RULE_TOKEN,	  [RECORD_ROUTED] = RULE_ROUTED,
		[RECORD_HOST_SAMPLE] = RULE_LAST, [RECORD_HEAP_SAMPLE] = RULE_STAY,
	};

	if (kind != RECORD_ROUTED && kind_desc(kind)->time_column < 0)
		return RULE_STAY;
	return rules[kind];
}

int window_number(struct window_keys *keys, struct window_key key, size_t *ret_number)
{
	uint32_t hash = hash_bytes(&key, sizeof(key)), number;
	struct hash_walk walk = hash_map_walk(&keys->map, hash);

	while ((number = hash_map_next(&keys->map, &walk)))
		if (!memcmp(&keys->items[number - 1], &key, sizeof(key))) {
			*ret_number = number - 1;
			return 0;
		}
	if (keys->n == UINT32_MAX - 1 ||
	    array_grow(&keys->items, &keys->capacity, keys->n + 1, sizeof(*keys->items)) < 0 ||
	    hash_map_add(&keys->map, hash, (uint32_t)keys->n + 1) < 0)
		return -ENOMEM;
	keys->items[keys->n] = key;
	*ret_number = keys->n++;
	return 0;
}

void window_keys_release(struct window_keys *keys)
{
	hash_map_release(&keys->map);
	free(keys->items);
	*keys = (struct window_keys){ 0 };
}

void window_want(struct run_want *want)
{
	for (unsigned int k = RECORD_LAUNCH + 1; want->window_bytes && k < RECORD_KIND_LIMIT; k++) {
		const struct kind_desc *desc = kind_desc(k);

		if (!want->columns[k])
			continue;
		if (rule_of(k) != RULE_TIME)
			want->columns[k] = 0;
		else
			want->columns[k] |= UINT64_C(1) << desc->time_column;
		if (k == RECORD_STEP)
			want->columns[k] |= WANT_COLUMN(step, step);
	}
}

/* The times of the rows of a kind; NULL: there are none. */
static int64_t *times(struct run *run, unsigned int kind)
{
	int8_t column = kind_desc(kind)->time_column;

	return column < 0 ? NULL : room_column(run, kind, (unsigned int)column);
}

/* Bytes of rows by time. */
struct bins {
	int64_t first_ns, last_ns;
	double bytes[BINS];
};

static void find_times(struct run *run, struct bins *bins)
{
	bins->first_ns = INT64_MAX;
	bins->last_ns = INT64_MIN;
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		const int64_t *t = rule_of(k) == RULE_STAY ? NULL : times(run, k);

		for (size_t i = 0; t && i < *room_rows(run, k); i++) {
			bins->first_ns = t[i] < bins->first_ns ? t[i] : bins->first_ns;
			bins->last_ns = t[i] > bins->last_ns ? t[i] : bins->last_ns;
		}
	}
	if (run->gone.any && bins->first_ns < run->gone.since_ns)
		bins->first_ns = run->gone.since_ns;
}

static size_t bin_of(const struct bins *bins, int64_t time_ns)
{
	double part = (double)(time_ns - bins->first_ns) /
		      ((double)(bins->last_ns - bins->first_ns) + 1) * BINS;

	return part < 0 ? 0 : part >= BINS ? BINS - 1 : (size_t)part;
}

static int64_t bin_start(const struct bins *bins, size_t bin)
{
	double width = ((double)(bins->last_ns - bins->first_ns) + 1) / BINS;

	return bins->first_ns + (int64_t)(width * (double)bin);
}

static void fill_bins(struct run *run, struct bins *bins)
{
	memset(bins->bytes, 0, sizeof(bins->bytes));
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		const int64_t *t = rule_of(k) == RULE_STAY ? NULL : times(run, k);
		double row_bytes;

		if (!t)
			continue;
		room_bytes(run, k, &row_bytes);
		for (size_t i = 0; i < *room_rows(run, k); i++)
			if (t[i] >= bins->first_ns)
				bins->bytes[bin_of(bins, t[i])] += row_bytes;
	}
}

/* From when on the newest rows take that many bytes. */
static int64_t find_moment(struct run *run, double bytes)
{
	struct bins bins;
	double sum = 0;
	size_t b = BINS;

	find_times(run, &bins);
	if (bins.first_ns >= bins.last_ns)
		return bins.last_ns;
	for (int n = 0; n < NARROWINGS && b == BINS && bins.first_ns < bins.last_ns; n++) {
		fill_bins(run, &bins);
		for (sum = 0; b > 0 && sum + bins.bytes[b - 1] <= bytes; b--)
			sum += bins.bytes[b - 1];
		if (b == BINS) /* the newest one has more */
			bins.first_ns = bin_start(&bins, BINS - 1);
	}
	return bin_start(&bins, b < BINS ? b : BINS - 1);
}

/* The first step that begins then or soon after: steps are whole or gone. */
static int64_t find_step(const struct run *run, int64_t moment_ns)
{
	const struct table_step *t = &run->step;
	int64_t best = INT64_MAX, last = moment_ns;

	for (size_t i = 0; t->start_ns && i < t->n; i++) {
		if (t->start_ns[i] >= moment_ns && t->start_ns[i] < best)
			best = t->start_ns[i];
		last = t->start_ns[i] > last ? t->start_ns[i] : last;
	}
	return best < INT64_MAX && best - moment_ns <= (last - moment_ns) / 2 ? best : moment_ns;
}

/* Of each process, device or whatever, the last row before the window: rows come by time. */
static int keep_last(struct run *run, unsigned int kind, int64_t since_ns, bool *keep)
{
	int64_t *t = times(run, kind);
	struct window_keys keys = { 0 };
	size_t *last = calloc(*room_rows(run, kind), sizeof(*last));
	int r = last ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < *room_rows(run, kind); i++) {
		struct window_key key = { .shard = kind == RECORD_GEAR ? run->gear.shard[i]
						   : kind == RECORD_PROCESS
							   ? run->process.shard[i]
							   : run->host_sample.shard[i] };
		size_t number;

		if (t[i] >= since_ns)
			continue;
		if (kind == RECORD_PROCESS)
			key = (struct window_key){ key.shard, run->process.device[i],
						   (uint64_t)run->process.pid[i] << 8 |
							   run->process.kind[i] };
		if (kind == RECORD_HOST_SAMPLE)
			key = (struct window_key){ key.shard, run->host_sample.place[i],
						   (uint64_t)run->host_sample.name[i] << 32 |
							   run->host_sample.metric[i] };
		r = window_number(&keys, key, &number);
		if (r == 0)
			last[number] = i;
	}
	for (size_t i = 0; r == 0 && i < keys.n; i++) {
		keep[last[i]] = true;
		/* It is how things were when the window began. */
		t[last[i]] = since_ns;
	}
	free(last);
	window_keys_release(&keys);
	return r;
}

/* A counter's rows so far. */
struct counted {
	size_t first, least, largest, n_old;
	int64_t first_ns, kept_ns; /* of the first, and of the last old one that stays */
};

static void count_in(const struct table_counter *t, size_t i, int64_t since_ns, struct counted *c)
{
	if (!isfinite(t->value[c->first]) && isfinite(t->value[i]))
		c->first = c->least = c->largest = i;
	if (t->value[i] < t->value[c->least])
		c->least = i;
	if (t->value[i] > t->value[c->largest])
		c->largest = i;
	c->n_old += t->time_ns[i] < since_ns;
}

/* First, least and largest, and enough of the others for a picture of the whole run. */
static int keep_counters(const struct table_counter *t, int64_t since_ns, bool *keep)
{
	struct window_keys keys = { 0 };
	struct counted *counted = calloc(t->n, sizeof(*counted));
	size_t *number = calloc(t->n, sizeof(*number));
	int r = counted && number ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < t->n; i++) {
		size_t before = keys.n;

		r = window_number(&keys, (struct window_key){ t->shard[i], t->name[i], 0 },
				  &number[i]);
		if (r == 0 && keys.n > before)
			counted[number[i]] =
				(struct counted){ i, i, i, 0, t->time_ns[i], INT64_MIN };
		if (r == 0)
			count_in(t, i, since_ns, &counted[number[i]]);
	}
	for (size_t i = 0; r == 0 && i < t->n; i++) {
		struct counted *c = &counted[number[i]];
		int64_t apart = (since_ns - c->first_ns) / COUNTER_KEPT;

		if (t->time_ns[i] >= since_ns ||
		    (c->n_old > COUNTER_KEPT && c->kept_ns != INT64_MIN &&
		     t->time_ns[i] < c->kept_ns + apart))
			continue;
		keep[i] = true;
		c->kept_ns = t->time_ns[i];
	}
	for (size_t i = 0; r == 0 && i < keys.n; i++)
		keep[counted[i].first] = keep[counted[i].least] = keep[counted[i].largest] = true;
	free(counted);
	free(number);
	window_keys_release(&keys);
	return r;
}

/* The most bytes that were ever in use: readings of anything else are of their moment. */
static int keep_samples(const struct run *run, bool *keep)
{
	const struct table_sample *t = &run->sample;
	struct window_keys keys = { 0 };
	size_t *most = calloc(t->n, sizeof(*most)), number;
	int r = most ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < t->n; i++) {
		size_t before = keys.n;

		if (!strstr(run_string(run, t->metric[i]), "bytes"))
			continue;
		r = window_number(&keys,
				  (struct window_key){ t->shard[i], t->device[i], t->metric[i] },
				  &number);
		if (r == 0 && (keys.n > before || t->value[i] > t->value[most[number]]))
			most[number] = i;
	}
	for (size_t i = 0; r == 0 && i < keys.n; i++)
		keep[most[i]] = true;
	free(most);
	window_keys_release(&keys);
	return r;
}

enum { TOKEN_BEGIN = 0, TOKEN_END = 2 };

/* All of the requests that go on in the window. */
static int keep_requests(const struct table_token *t, int64_t since_ns, bool *keep)
{
	struct window_keys keys = { 0 };
	struct {
		size_t begin; /* its last one before the window, + 1; 0: none */
		bool goes_on; /* it has not ended, and there is more of it */
	} *requests = calloc(t->n, sizeof(*requests));
	size_t *number = calloc(t->n, sizeof(*number));
	int r = requests && number ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < t->n; i++) {
		r = window_number(&keys, (struct window_key){ t->shard[i], t->request[i], 0 },
				  &number[i]);
		if (r < 0)
			break;
		if (t->time_ns[i] >= since_ns) {
			if (requests[number[i]].begin && t->event[i] != TOKEN_BEGIN)
				requests[number[i]].goes_on = true;
		} else if (t->event[i] == TOKEN_BEGIN) {
			requests[number[i]].begin = i + 1;
		} else if (t->event[i] == TOKEN_END) {
			requests[number[i]].begin = 0;
		}
	}
	for (size_t i = 0; r == 0 && i < t->n; i++)
		if (requests[number[i]].goes_on && i + 1 >= requests[number[i]].begin)
			keep[i] = true;
	free(requests);
	free(number);
	window_keys_release(&keys);
	return r;
}

/* It has steps and no times: as far back as the routing of the layers that it is part of. */
static void keep_routed(const struct run *run, int64_t since_ns, bool *keep)
{
	int64_t first = INT64_MAX;

	for (size_t i = 0; i < run->routing.n; i++)
		if (run->routing.time_ns[i] >= since_ns && run->routing.step[i] < first)
			first = run->routing.step[i];
	for (size_t i = 0; i < run->routed.n; i++)
		keep[i] = run->routed.step[i] >= first;
}

static int mark_rows(struct run *run, unsigned int kind, int64_t since_ns, bool *keep)
{
	const int64_t *t = times(run, kind);

	for (size_t i = 0; t && i < *room_rows(run, kind); i++)
		keep[i] = t[i] >= since_ns;
	switch (rule_of(kind)) {
	case RULE_LAST:
		return keep_last(run, kind, since_ns, keep);
	case RULE_BLOCKS:
		return kind == RECORD_MEMORY
			       ? window_keep_blocks(&run->memory, since_ns, keep)
			       : window_keep_device_blocks(&run->device_memory, since_ns, keep);
	case RULE_COUNTER:
		return keep_counters(&run->counter, since_ns, keep);
	case RULE_SAMPLE:
		return keep_samples(run, keep);
	case RULE_TOKEN:
		return keep_requests(&run->token, since_ns, keep);
	case RULE_ROUTED:
		keep_routed(run, since_ns, keep);
		return 0;
	case RULE_STAY:
	case RULE_TIME:
		break;
	}
	return 0;
}

static void sum_up(struct run *run, unsigned int kind, const bool *keep)
{
	int8_t column = kind_desc(kind)->duration_column;
	const int64_t *durations = column < 0 ? NULL : room_column(run, kind, (unsigned int)column);
	struct run_gone *gone = &run->gone;

	for (size_t i = 0; i < *room_rows(run, kind); i++) {
		if (keep[i])
			continue;
		gone->rows[kind]++;
		gone->durations_ns[kind] += durations ? (uint64_t)durations[i] : 0;
		if (kind == RECORD_STEP &&
		    (!gone->has_step || run->step.step[i] > gone->last_step)) {
			gone->has_step = true;
			gone->last_step = run->step.step[i];
		}
	}
}

static int trim_kind(struct run *run, unsigned int kind, int64_t since_ns)
{
	size_t n = *room_rows(run, kind);
	bool *keep = calloc(n, sizeof(*keep));
	int r = keep ? mark_rows(run, kind, since_ns, keep) : -ENOMEM;

	if (r == 0) {
		sum_up(run, kind, keep);
		room_keep(run, kind, keep);
	}
	free(keep);
	return r;
}

static size_t all_bytes(struct run *run)
{
	size_t bytes = 0;
	double row_bytes;

	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++)
		bytes += room_bytes(run, k, &row_bytes);
	return bytes;
}

/* Routed rows are chosen by routing rows that are still there. */
static int trim_all(struct run *run, int64_t since_ns)
{
	int r = run->routed.n ? trim_kind(run, RECORD_ROUTED, since_ns) : 0;

	for (unsigned int k = RECORD_LAUNCH + 1; r == 0 && k < RECORD_KIND_LIMIT; k++)
		if (k != RECORD_ROUTED && *room_rows(run, k) && rule_of(k) != RULE_STAY)
			r = trim_kind(run, k, since_ns);
	return r;
}

int window_trim(struct run *run)
{
	size_t window = run->internal->want.window_bytes, left;
	int64_t since_ns;
	int r;

	if (!window || all_bytes(run) <= (run->internal->trim_bytes ?: window))
		return 0;
	since_ns = find_step(run, find_moment(run, (double)window * 3 / 4));
	r = trim_all(run, since_ns);
	if (r < 0)
		return r;
	run->gone.any = true;
	run->gone.since_ns = since_ns;
	/* What stays whatever the window may be larger than that. */
	left = all_bytes(run) + window / 4;
	run->internal->trim_bytes = left > window ? left : window;
	return 0;
}
