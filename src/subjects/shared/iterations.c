/* SPDX-License-Identifier: Apache-2.0
 *
 * See iterations.h.
 */
#include "subjects/shared/iterations.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/text/demangle.h"
#include "subjects/numbers/order.h"

#define TURNS_LEAST (ITERATIONS_LEAST + 1) /* of the kernel that begins them */
#define GAP_TOLERANCE 0.1
#define REGULAR_SHARE 0.9
#define COVERED_SHARE 0.5
#define ALIKE 0.8 /* of the kernels of a turn, in the mean */
#define KERNELS_LEAST 3
#define LAYERS_LEAST 4
#define LAYER_NAMES 4

/* What is known of a name in the sequence. */
struct name_facts {
	uint32_t count, regular;
	uint32_t first, last; /* places in the sequence */
	double waited_ns;     /* before its kernels, all together */
	bool inside;	      /* one of them is of the launch before it */
};

/* The kernels of one stream of a process, by start. */
struct sequence {
	uint16_t shard;
	uint32_t *rows;
	size_t n;
};

struct finder {
	const struct run *run;
	uint32_t *order; /* of all kernels, by start */
	struct sequence *sequences;
	size_t n_sequences;
	struct name_facts *names; /* by string id, of the sequence at hand */
	size_t n_names;
};

struct stream_count {
	uint32_t device, stream;
	size_t n;
};

/* The stream with the most kernels of a process; there are few. */
static int busiest(const struct finder *f, uint16_t shard, struct stream_count *ret)
{
	const struct table_kernel *t = &f->run->kernel;
	struct stream_count *streams = NULL;
	size_t n = 0, capacity = 0, at = 0;

	*ret = (struct stream_count){ 0 };
	for (size_t i = 0; i < t->n; i++) {
		if (t->shard[i] != shard)
			continue;
		if (at >= n || streams[at].stream != t->stream[i] ||
		    streams[at].device != t->device[i])
			for (at = 0; at < n && (streams[at].stream != t->stream[i] ||
						streams[at].device != t->device[i]);)
				at++;
		if (at == n) {
			if (array_grow(&streams, &capacity, n + 1, sizeof(*streams)) < 0) {
				free(streams);
				return -ENOMEM;
			}
			streams[n++] = (struct stream_count){ t->device[i], t->stream[i], 0 };
		}
		if (++streams[at].n > ret->n)
			*ret = streams[at];
	}
	free(streams);
	return 0;
}

static int make_sequence(struct finder *f, uint16_t shard)
{
	const struct table_kernel *t = &f->run->kernel;
	struct sequence *s = &f->sequences[f->n_sequences];
	struct stream_count stream;
	int r = busiest(f, shard, &stream);

	if (r < 0 || !stream.n)
		return r;
	*s = (struct sequence){ .shard = shard, .rows = array_new(stream.n, sizeof(*s->rows)) };
	if (!s->rows)
		return -ENOMEM;
	f->n_sequences++;
	for (size_t i = 0; i < t->n; i++) {
		uint32_t row = f->order[i];

		if (t->shard[row] == shard && t->stream[row] == stream.stream &&
		    t->device[row] == stream.device && !t->untimed[row])
			s->rows[s->n++] = row;
	}
	return 0;
}

static int make_sequences(struct finder *f)
{
	const struct table_kernel *t = &f->run->kernel;
	const struct order_keys keys = { t->start_ns, ORDER_SIGNED, NULL };
	int r;

	f->order = array_new(t->n + 1, sizeof(*f->order));
	f->sequences = calloc(f->run->n_shards + 1, sizeof(*f->sequences));
	if (!f->order || !f->sequences)
		return -ENOMEM;
	r = order_rows(&keys, 0, t->n, f->order);
	for (size_t s = 0; r >= 0 && s < f->run->n_shards; s++)
		r = make_sequence(f, (uint16_t)s);
	return r;
}

static int grow_names(struct finder *f, uint32_t name)
{
	size_t old = f->n_names;

	if (name < old)
		return 0;
	if (array_grow(&f->names, &f->n_names, (size_t)name + 1, sizeof(*f->names)) < 0)
		return -ENOMEM;
	memset(f->names + old, 0, (f->n_names - old) * sizeof(*f->names));
	return 0;
}

static double mean_gap(const struct name_facts *name)
{
	return name->count > 1 ? (double)(name->last - name->first) / (double)(name->count - 1) : 0;
}

/* Counts and gaps of every name of a sequence. */
static int count_kernel_names(struct finder *f, const struct sequence *s)
{
	const struct table_kernel *t = &f->run->kernel;
	int64_t end_ns = INT64_MAX;
	uint32_t *last;

	if (f->n_names)
		memset(f->names, 0, f->n_names * sizeof(*f->names));
	for (size_t i = 0; i < s->n; i++) {
		uint32_t row = s->rows[i], name = run_kernel_name(f->run, row);
		struct name_facts *facts;

		if (grow_names(f, name) < 0)
			return -ENOMEM;
		facts = &f->names[name];
		if (!facts->count++)
			facts->first = (uint32_t)i;
		facts->last = (uint32_t)i;
		if (t->start_ns[row] > end_ns)
			facts->waited_ns += (double)(t->start_ns[row] - end_ns);
		if (i && t->correlation[row] &&
		    t->correlation[row] == t->correlation[s->rows[i - 1]])
			facts->inside = true;
		end_ns = t->start_ns[row] + t->duration_ns[row];
	}
	last = calloc(f->n_names + 1, sizeof(*last));
	if (!last)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		uint32_t name = run_kernel_name(f->run, s->rows[i]);
		struct name_facts *facts = &f->names[name];
		double mean = mean_gap(facts), gap = (double)i - (double)last[name];

		if (facts->first != i && fabs(gap - mean) <= fmax(1, GAP_TOLERANCE * mean))
			facts->regular++;
		last[name] = (uint32_t)i;
	}
	free(last);
	return 0;
}

static bool is_regular(const struct sequence *s, const struct name_facts *name)
{
	return name->count >= TURNS_LEAST &&
	       (double)name->regular >= REGULAR_SHARE * (double)(name->count - 1) &&
	       mean_gap(name) >= KERNELS_LEAST &&
	       (double)(name->last - name->first) >= COVERED_SHARE * (double)s->n;
}

/* The name that begins the turns of the outermost loop; 0: there is none. */
static uint32_t find_anchor(const struct finder *f, const struct sequence *s, const char **reason)
{
	uint32_t count = UINT32_MAX, anchor = 0;
	double waited = -1;

	*reason = "no kernels repeat regularly, four times or more, over most of the run";
	for (uint32_t name = 1; name < f->n_names; name++) {
		const struct name_facts *a = &f->names[name];
		bool second = false;

		if (!is_regular(s, a) || a->count >= count)
			continue;
		/* The run may be cut between two of one turn. */
		for (uint32_t other = 1; other < f->n_names && !second; other++)
			second = other != name && is_regular(s, &f->names[other]) &&
				 f->names[other].count >= a->count &&
				 f->names[other].count <= a->count + 1;
		if (second)
			count = a->count;
	}
	for (uint32_t name = 1; name < f->n_names && count != UINT32_MAX; name++) {
		const struct name_facts *a = &f->names[name];

		*reason = "what repeats is inside of one launch of a CUDA graph";
		if (!is_regular(s, a) || a->count < count || a->count > count + 1 || a->inside)
			continue;
		if (a->waited_ns / a->count > waited) {
			waited = a->waited_ns / a->count;
			anchor = name;
		}
	}
	return anchor;
}

/* How much the turns are like their mean: the share of kernels of the same names. */
static int measure_alike(const struct finder *f, const struct sequence *s, uint32_t anchor,
			 double *ret_alike)
{
	double turns = (double)(f->names[anchor].count - 1), alike = 0, same = 0;
	size_t first = f->names[anchor].first, last = f->names[anchor].last, length = 0;
	uint32_t *total = calloc(f->n_names, sizeof(*total)),
		 *turn = calloc(f->n_names, sizeof(*turn));
	double mean_length = (double)(last - first) / turns;

	if (!total || !turn) {
		free(total);
		free(turn);
		return -ENOMEM;
	}
	for (size_t i = first; i < last; i++)
		total[run_kernel_name(f->run, s->rows[i])]++;
	for (size_t i = first, begin = first; i <= last; i++) {
		uint32_t name = run_kernel_name(f->run, s->rows[i]);
		double mean;

		if (name == anchor && i > first) {
			alike += same / fmax((double)length, mean_length);
			for (size_t j = begin; j < i; j++)
				turn[run_kernel_name(f->run, s->rows[j])] = 0;
			same = 0;
			length = 0;
			begin = i;
		}
		/* Each kernel as far as the mean turn has it, too. */
		mean = (double)total[name] / turns;
		same += fmin(1, fmax(0, mean - (double)turn[name]));
		turn[name]++;
		length++;
	}
	*ret_alike = alike / turns;
	free(total);
	free(turn);
	return 0;
}

static bool contains_any(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcasestr(text, *words))
			return true;
	return false;
}

/* Whether weights are changed once in each turn, by the names of kernels or of PyTorch's range. */
static int find_optimizer(const struct finder *f, const struct sequence *s, uint32_t anchor,
			  bool *ret_found)
{
	static const char *const words[] = { "multi_tensor_apply", "adam", "sgd", NULL };
	const struct table_range *range = &f->run->range;
	uint32_t turns = f->names[anchor].count, ranges = 0;
	int r = 0;

	*ret_found = false;
	for (uint32_t name = 1; r >= 0 && name < f->n_names && !*ret_found; name++) {
		char *text;

		if (f->names[name].count + 1 < turns || !f->names[name].count)
			continue;
		r = demangled(run_string(f->run, name), &text);
		if (r < 0)
			break;
		*ret_found = contains_any(text, words);
		free(text);
	}
	for (size_t i = 0; i < range->n; i++)
		if (range->shard[i] == s->shard)
			ranges +=
				!strncmp(run_string(f->run, run_site(f->run, range->site[i]).name),
					 "Optimizer.step#", 15);
	*ret_found = *ret_found || (ranges + 1 >= turns && ranges <= turns + 1);
	return r;
}

static int gaps_ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return CMP(x, y);
}

/* Whether a turn is made of layers: several names come in it equally often, four times or more. A layer
 * is not made of equal parts. */
static int find_layers(const struct finder *f, uint32_t anchor, bool *ret_found)
{
	uint32_t turns = f->names[anchor].count, *per_turn = calloc(f->n_names, sizeof(*per_turn));
	size_t n = 0;

	*ret_found = false;
	if (!per_turn)
		return -ENOMEM;
	for (uint32_t name = 1; name < f->n_names; name++) {
		double each = (double)f->names[name].count / turns;

		if (each >= LAYERS_LEAST - 0.5 && fabs(each - nearbyint(each)) <= 0.02 * each)
			per_turn[n++] = (uint32_t)nearbyint(each);
	}
	qsort(per_turn, n, sizeof(*per_turn), gaps_ascending);
	for (size_t i = 0; i + LAYER_NAMES <= n; i++)
		*ret_found = *ret_found || per_turn[i] == per_turn[i + LAYER_NAMES - 1];
	free(per_turn);
	return 0;
}

struct launch {
	uint64_t correlation;
	size_t turn;
};

static int by_correlation(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;

	return CMP(x->correlation, y->correlation) ?: CMP(x->turn, y->turn);
}

/* Puts the times of the launches in place of those of the device, if every one has a call. */
static int use_launches(const struct finder *f, const struct sequence *s, const uint32_t *anchors,
			int64_t *times, size_t n)
{
	const struct table_api *api = &f->run->api;
	struct launch *launches = calloc(n, sizeof(*launches));
	int64_t *found = calloc(n, sizeof(*found));
	size_t known = 0;
	bool rising = true;

	if (!launches || !found) {
		free(launches);
		free(found);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		launches[i] = (struct launch){ f->run->kernel.correlation[anchors[i]], i };
		found[i] = INT64_MIN;
	}
	qsort(launches, n, sizeof(*launches), by_correlation);
	for (size_t i = 0; i < api->n; i++) {
		size_t low;

		if (api->shard[i] != s->shard || !api->correlation[i])
			continue;
		ORDER_FIND(low, n, 0, launches[probe].correlation < api->correlation[i]);
		if (low < n && launches[low].correlation == api->correlation[i] &&
		    api->start_ns[i] <= times[launches[low].turn] &&
		    api->start_ns[i] > found[launches[low].turn]) {
			known += found[launches[low].turn] == INT64_MIN;
			found[launches[low].turn] = api->start_ns[i];
		}
	}
	for (size_t i = 1; i < n; i++)
		rising = rising && found[i] > found[i - 1];
	if (known == n && rising)
		memcpy(times, found, n * sizeof(*times));
	free(launches);
	free(found);
	return 0;
}

/* The moments at which turns begin; the last one only ends what is before it. */
struct turns {
	int64_t *begin_ns;
	size_t n;
};

static int find_turns(const struct finder *f, const struct sequence *s, uint32_t anchor,
		      struct turns *ret)
{
	size_t n = f->names[anchor].count, k = 0;
	uint32_t *anchors = calloc(n + 1, sizeof(*anchors));
	int r;

	*ret = (struct turns){ calloc(n + 1, sizeof(int64_t)), n };
	r = anchors && ret->begin_ns ? 0 : -ENOMEM;
	for (size_t i = 0; r >= 0 && i < s->n; i++)
		if (run_kernel_name(f->run, s->rows[i]) == anchor) {
			anchors[k] = s->rows[i];
			ret->begin_ns[k++] = f->run->kernel.start_ns[s->rows[i]];
		}
	if (r >= 0)
		r = use_launches(f, s, anchors, ret->begin_ns, n);
	free(anchors);
	return r;
}

static int add_turns(const struct sequence *s, const struct turns *t, struct iterations *it)
{
	struct row_step *steps = reallocarray(it->steps, it->n + t->n, sizeof(*steps));
	uint16_t *shards;

	it->steps = steps ? steps : it->steps;
	shards = reallocarray(it->shards, it->n + t->n, sizeof(*shards));
	it->shards = shards ? shards : it->shards;
	if (!steps || !shards)
		return -ENOMEM;
	for (size_t i = 0; i + 1 < t->n; i++) {
		it->shards[it->n] = s->shard;
		it->steps[it->n++] =
			(struct row_step){ .step = (int64_t)i,
					   .start_ns = t->begin_ns[i],
					   .duration_ns = t->begin_ns[i + 1] - t->begin_ns[i],
					   .recorded = 1,
					   .source = STEP_REPEATED };
	}
	return 0;
}

/* Whether the turns are steps of a program; *reason: why not. */
static int judge(struct finder *f, const struct sequence *s, uint32_t anchor, const char **reason)
{
	bool optimizer = false, layers = false;
	double alike = 0;
	int r = measure_alike(f, s, anchor, &alike);

	if (r >= 0)
		r = find_optimizer(f, s, anchor, &optimizer);
	if (r >= 0)
		r = find_layers(f, anchor, &layers);
	if (r < 0)
		return r;
	*reason = NULL;
	if (alike < ALIKE)
		*reason = "what repeats is not alike from turn to turn";
	else if (!optimizer && !layers)
		*reason = "what repeats may be layers as well as steps";
	return 0;
}

static int find_in(struct finder *f, const struct sequence *s, struct iterations *it,
		   uint32_t *ret_anchor)
{
	struct turns turns = { 0 };
	int r = count_kernel_names(f, s);

	*ret_anchor = r < 0 ? 0 : find_anchor(f, s, &it->reason);
	if (r < 0 || !*ret_anchor)
		return r;
	r = judge(f, s, *ret_anchor, &it->reason);
	if (r < 0 || it->reason) {
		*ret_anchor = 0;
		return r;
	}
	r = find_turns(f, s, *ret_anchor, &turns);
	if (r >= 0)
		r = add_turns(s, &turns, it);
	free(turns.begin_ns);
	return r;
}

static int find_iterations(struct finder *f, struct iterations *it)
{
	uint32_t first = 0, anchor = 0, turns = 0;
	int r = 0;

	it->reason = "no kernels were recorded";
	for (size_t i = 0; r >= 0 && i < f->n_sequences; i++) {
		r = find_in(f, &f->sequences[i], it, &anchor);
		if (r < 0 || !anchor)
			return r;
		if (i && (anchor != first || f->names[anchor].count != turns)) {
			it->reason = "the processes do not repeat the same";
			return 0;
		}
		first = anchor;
		turns = f->names[anchor].count;
		it->kernels = mean_gap(&f->names[anchor]);
	}
	if (r < 0 || !anchor)
		return r;
	return demangled(run_string(f->run, anchor), &it->anchor);
}

const struct run_want iterations_want = {
	.kinds = WANT(STEP) | WANT(KERNEL) | WANT(API) | WANT(RANGE),
	.columns = {
		[RECORD_STEP] = WANT_COLUMN(step, step),
		[RECORD_KERNEL] = WANT_COLUMN(kernel, launch) | WANT_COLUMN(kernel, start_ns) |
				  WANT_COLUMN(kernel, duration_ns) | WANT_COLUMN(kernel, device) |
				  WANT_COLUMN(kernel, correlation) | WANT_COLUMN(kernel, untimed) |
				  WANT_COLUMN(kernel, stream),
		[RECORD_API] = WANT_COLUMN(api, start_ns) | WANT_COLUMN(api, correlation),
		[RECORD_RANGE] = WANT_COLUMN(range, site),
	},
};

int iterations_find(const struct run *run, struct iterations *ret_iterations)
{
	struct iterations it = { 0 };
	struct finder f = { .run = run };
	int r = make_sequences(&f);

	if (r >= 0)
		r = find_iterations(&f, &it);
	for (size_t i = 0; i < f.n_sequences; i++)
		free(f.sequences[i].rows);
	free(f.sequences);
	free(f.order);
	free(f.names);
	if (r >= 0 && !it.anchor)
		it.n = 0;
	if (r < 0) {
		iterations_release(&it);
		return r;
	}
	*ret_iterations = it;
	return 0;
}

void iterations_release(struct iterations *it)
{
	free(it->steps);
	free(it->shards);
	free(it->anchor);
	*it = (struct iterations){ 0 };
}
