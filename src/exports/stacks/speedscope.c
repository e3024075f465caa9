/* SPDX-License-Identifier: Apache-2.0
 *
 * A run in the file format of speedscope: a profile of events for each thread and each stream, the
 * steps, spans and waits. Things that cross others are in a profile of their own (stacks.h); moments
 * and counters have no place in the format. Times are nanoseconds since the run's beginning.
 *
 * Or, of threads that were looked at from outside, a profile of samples for each: their stacks in the order of
 * time, with what they waited for as the innermost name.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/text/json_write.h"
#include "base/version.h"
#include "exports/exports.h"
#include "exports/stacks/samples.h"
#include "exports/stacks/stacks.h"

struct open {
	int64_t end_ns;
	uint32_t label;
};

struct scope {
	const struct run *run;
	struct json json;
	struct stacks stacks;
	struct stack_labels labels;
	struct open *open;
	size_t n, capacity;
};

static void put_event(struct scope *s, const char *type, int64_t time_ns, uint32_t label)
{
	json_object_line(&s->json);
	json_key(&s->json, "type");
	json_string(&s->json, type);
	json_key(&s->json, "at");
	json_int(&s->json, time_ns - s->run->start_ns);
	json_key(&s->json, "frame");
	json_uint(&s->json, label - 1);
	json_object_end(&s->json);
}

static void close_until(struct scope *s, int64_t time_ns)
{
	while (s->n && s->open[s->n - 1].end_ns <= time_ns) {
		s->n--;
		put_event(s, "C", s->open[s->n].end_ns, s->open[s->n].label);
	}
}

static int put_events(struct scope *s, const struct stack_ref *refs, size_t n, size_t lane)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t label;
		int r;

		if (refs[i].lane != lane || stack_kind_is_moment(refs[i].kind))
			continue;
		close_until(s, stack_start(&s->stacks, &refs[i]));
		r = stack_label(&s->labels, &refs[i], &label);
		if (r == 0)
			r = array_grow(&s->open, &s->capacity, s->n + 1, sizeof(*s->open));
		if (r < 0)
			return r;
		put_event(s, "O", stack_start(&s->stacks, &refs[i]), label);
		s->open[s->n++] = (struct open){ stack_end(&s->stacks, &refs[i]), label };
	}
	close_until(s, INT64_MAX);
	return 0;
}

/* From the first to the last of a lane; false: there is nothing on it. */
static bool extent(const struct scope *s, const struct stack_ref *refs, size_t n, size_t lane,
		   int64_t *ret_start, int64_t *ret_end)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		if (refs[i].lane != lane || stack_kind_is_moment(refs[i].kind))
			continue;
		if (!any)
			*ret_start = *ret_end = stack_start(&s->stacks, &refs[i]);
		any = true;
		if (stack_end(&s->stacks, &refs[i]) > *ret_end)
			*ret_end = stack_end(&s->stacks, &refs[i]);
	}
	return any;
}

static void put_profile_head(struct scope *s, const char *type, const struct stack_track *track,
			     size_t lane, int64_t start_ns, int64_t end_ns)
{
	char name[200], whole[260];

	stack_track_name(s->run, track, name, sizeof(name));
	snprintf(whole, sizeof(whole), lane ? "rank %u, %s (%zu)" : "rank %u, %s",
		 track->shard < s->run->n_shards ? s->run->shards[track->shard].rank : 0, name,
		 lane + 1);
	json_object(&s->json);
	json_key(&s->json, "type");
	json_string(&s->json, type);
	json_key(&s->json, "name");
	json_string(&s->json, whole);
	json_key(&s->json, "unit");
	json_string(&s->json, "nanoseconds");
	json_key(&s->json, "startValue");
	json_int(&s->json, start_ns - s->run->start_ns);
	json_key(&s->json, "endValue");
	json_int(&s->json, end_ns - s->run->start_ns);
}

static int put_profile(struct scope *s, const struct stack_track *track,
		       const struct stack_ref *refs, size_t n, size_t lane)
{
	int64_t start_ns, end_ns;
	int r;

	if (!extent(s, refs, n, lane, &start_ns, &end_ns))
		return 0;
	put_profile_head(s, "evented", track, lane, start_ns, end_ns);
	json_key(&s->json, "events");
	json_array(&s->json);
	r = put_events(s, refs, n, lane);
	json_array_end(&s->json);
	json_object_end(&s->json);
	return r;
}

static int put_track(struct scope *s, size_t track)
{
	const struct stack_ref *refs;
	size_t n, lanes;
	int r = stacks_walk(&s->stacks, track, &refs, &n, &lanes);

	for (size_t l = 0; r == 0 && l < lanes; l++)
		r = put_profile(s, &s->stacks.tracks[track], refs, n, l);
	return r;
}

static void put_frames(struct scope *s)
{
	json_key(&s->json, "shared");
	json_object(&s->json);
	json_key(&s->json, "frames");
	json_array(&s->json);
	for (size_t i = 0; i < s->labels.texts.n; i++) {
		json_object_line(&s->json);
		json_key(&s->json, "name");
		json_string(&s->json, s->labels.texts.keys[i]);
		json_object_end(&s->json);
	}
	json_array_end(&s->json);
	json_object_end(&s->json);
}

static int put_tracks(struct scope *s)
{
	int r = stacks_init(&s->stacks, s->run);

	for (size_t t = 0; r == 0 && t < s->stacks.n; t++)
		r = put_track(s, t);
	stacks_release(&s->stacks);
	return r;
}

/* ---- samples */

static int by_thread_and_start(const void *a, const void *b, void *context)
{
	const struct table_stack_sample *t = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return CMP(t->shard[x], t->shard[y])       ?:
	       CMP(t->thread[x], t->thread[y])     ?:
	       CMP(t->start_ns[x], t->start_ns[y]) ?:
						     CMP(x, y);
}

/* The number of a name among the frames. */
static int put_frame(struct scope *s, const char *name)
{
	uint32_t label = interned_id(&s->labels.texts, name, strlen(name));

	if (!label)
		return -ENOMEM;
	json_uint(&s->json, label - 1);
	return 0;
}

static int put_sample(struct scope *s, const struct samples *samples, const char *waiting)
{
	int r = 0;

	json_array(&s->json);
	for (size_t i = samples->depth; r == 0 && i-- > 0;)
		r = put_frame(s, samples->path[i]);
	if (r == 0 && waiting)
		r = put_frame(s, waiting);
	json_array_end(&s->json);
	return r;
}

/* The n samples of a thread. */
static int put_thread(struct scope *s, struct samples *samples, const uint32_t *rows, size_t n)
{
	const struct table_stack_sample *t = &s->run->stack_sample;
	struct stack_track track = { .family = STACK_FAMILY_THREAD,
				     .shard = t->shard[rows[0]],
				     .id = t->thread[rows[0]] };
	struct sample_part parts[SAMPLE_PARTS];
	int64_t sum_ns = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t p = sample_parts(s->run, rows[i], parts); p-- > 0;)
			sum_ns += parts[p].ns;
	put_profile_head(s, "sampled", &track, 0, t->start_ns[rows[0]],
			 t->start_ns[rows[0]] + sum_ns);
	json_key(&s->json, "samples");
	json_array(&s->json);
	for (size_t i = 0; r == 0 && i < n; i++) {
		size_t n_parts = sample_parts(s->run, rows[i], parts);

		samples_walk(samples, rows[i]);
		for (size_t p = 0; r == 0 && p < n_parts; p++)
			r = put_sample(s, samples, parts[p].waiting);
	}
	json_array_end(&s->json);
	json_key(&s->json, "weights");
	json_array(&s->json);
	for (size_t i = 0; i < n; i++) {
		size_t n_parts = sample_parts(s->run, rows[i], parts);

		for (size_t p = 0; p < n_parts; p++)
			json_int(&s->json, parts[p].ns);
	}
	json_array_end(&s->json);
	json_object_end(&s->json);
	return r;
}

static int put_threads(struct scope *s)
{
	const struct table_stack_sample *t = &s->run->stack_sample;
	uint32_t *rows = array_new(t->n ? t->n : 1, sizeof(*rows));
	struct samples samples;
	int r = samples_init(&samples, s->run);

	if (r == 0 && !rows)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < t->n; i++)
		rows[i] = (uint32_t)i;
	if (r == 0)
		qsort_r(rows, t->n, sizeof(*rows), by_thread_and_start, (void *)t);
	for (size_t from = 0, to; r == 0 && from < t->n; from = to) {
		for (to = from + 1; to < t->n && t->shard[rows[to]] == t->shard[rows[from]] &&
				    t->thread[rows[to]] == t->thread[rows[from]];)
			to++;
		r = put_thread(s, &samples, rows + from, to - from);
	}
	samples_release(&samples);
	free(rows);
	return r;
}

static int write_document(const struct run *run, FILE *out, struct err *err,
			  int (*put_profiles)(struct scope *s))
{
	struct scope s = { .run = run };
	int r, written;

	stack_labels_init(&s.labels, run);
	json_init_file(&s.json, out, 0);
	json_object(&s.json);
	json_key(&s.json, "$schema");
	json_string(&s.json, "https://www.speedscope.app/file-format-schema.json");
	json_key(&s.json, "name");
	json_string(&s.json, run->info.name);
	json_key(&s.json, "exporter");
	json_string(&s.json, "moescope " VERSION_TEXT);
	json_key(&s.json, "profiles");
	json_array(&s.json);
	r = put_profiles(&s);
	json_array_end(&s.json);
	put_frames(&s);
	json_object_end(&s.json);
	written = json_finish(&s.json, NULL);
	free(s.open);
	stack_labels_release(&s.labels);
	if (r == 0)
		r = written;
	return r < 0 ? err_sys(err, r, "cannot write the profiles of '%s'", run->info.name) : 0;
}

int export_speedscope(const struct run *run, FILE *out, struct err *err)
{
	return write_document(run, out, err, put_tracks);
}

int export_speedscope_host(const struct run *run, FILE *out, struct err *err)
{
	return write_document(run, out, err, put_threads);
}
