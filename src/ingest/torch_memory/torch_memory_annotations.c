/* SPDX-License-Identifier: Apache-2.0
 *
 * The annotations of a memory snapshot: record_function ranges and the profiler's steps, each as a
 * START and an END. One thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "ingest/shared/step_rows.h"
#include "ingest/torch_memory/torch_memory_inside.h"

/* Far beyond what programs do; they bound the search for the beginning of what ends. */
#define MAX_BEGUN 1024
#define MAX_NAME 512

struct begun {
	struct pickle_value name;
	uint64_t device;
	int64_t start_ns;
};

struct annotations {
	struct intake_part *part;
	struct begun *stack;
	size_t n, capacity;
};

bool torch_time(struct pickle_value time_us, int64_t *ret_ns)
{
	uint64_t us;

	if (!pickle_natural(time_us, &us) || us > INT64_MAX / 2000)
		return false;
	*ret_ns = (int64_t)us * 1000;
	return true;
}

static int add_annotation(struct annotations *a, const struct begun *begun, int64_t end_ns,
			  bool unfinished)
{
	int64_t duration_ns = end_ns > begun->start_ns ? end_ns - begun->start_ns : 0;
	struct row_range range = { .start_ns = begun->start_ns,
				   .duration_ns = duration_ns,
				   .thread = TORCH_THREAD,
				   .unfinished = unfinished };
	struct row_step row = { .start_ns = begun->start_ns,
				.duration_ns = duration_ns,
				.recorded = 1,
				.unfinished = unfinished };

	if (step_of_name(begun->name.text, begun->name.length, &row)) {
		int r = part_add(a->part, RECORD_STEP, &row);

		if (r < 0 || row.source == STEP_TOLD)
			return r;
	}
	range.site = part_site(a->part, part_string(a->part, begun->name.text, begun->name.length));
	return part_add(a->part, RECORD_RANGE, &range);
}

static bool same_name(struct pickle_value x, struct pickle_value y)
{
	return x.length == y.length && (x.text == y.text || !memcmp(x.text, y.text, x.length));
}

/* Ranges of several threads may cross: the innermost of the name ends. */
static int end_annotation(struct annotations *a, const struct begun *ended, int64_t end_ns,
			  uint64_t offset)
{
	for (size_t i = a->n; i-- > 0;) {
		struct begun begun = a->stack[i];

		if (begun.device != ended->device || !same_name(begun.name, ended->name))
			continue;
		memmove(a->stack + i, a->stack + i + 1, (a->n - i - 1) * sizeof(*a->stack));
		a->n--;
		return add_annotation(a, &begun, end_ns, false);
	}
	part_damaged(a->part, offset, "an annotation that ends and never began");
	return 0;
}

static int read_annotation(struct annotations *a, struct pickle_value annotation)
{
	struct begun begun = { 0 };
	struct pickle_value stage;

	if (annotation.type != PICKLE_DICT || annotation.box->tag)
		return 0;
	annotation.box->tag = 1;
	stage = pickle_get(annotation, "stage");
	begun.name = pickle_get(annotation, "name");
	if (begun.name.length > MAX_NAME)
		begun.name.length = MAX_NAME;
	if (begun.name.type != PICKLE_TEXT ||
	    !torch_time(pickle_get(annotation, "time_us"), &begun.start_ns)) {
		part_damaged(a->part, annotation.box->offset, "an annotation without name or time");
		return 0;
	}
	pickle_natural(pickle_get(annotation, "device"), &begun.device);
	if (pickle_is_text(stage, "END"))
		return end_annotation(a, &begun, begun.start_ns, annotation.box->offset);
	if (!pickle_is_text(stage, "START"))
		return 0;
	if (a->n == MAX_BEGUN) {
		part_damaged(a->part, annotation.box->offset,
			     "an annotation inside 1024 that have not ended");
		return 0;
	}
	if (array_grow(&a->stack, &a->capacity, a->n + 1, sizeof(*a->stack)) < 0)
		return -ENOMEM;
	a->stack[a->n++] = begun;
	return 0;
}

int torch_annotations_read(struct pickle_value annotations, int64_t last_ns,
			   struct intake_part *part)
{
	struct annotations a = { .part = part };
	int r = 0;

	if (!pickle_is_sequence(annotations) || annotations.box->tag)
		return 0;
	annotations.box->tag = 1;
	for (size_t i = 0; r >= 0 && i < annotations.box->n; i++)
		r = read_annotation(&a, annotations.box->items[i]);
	for (size_t i = 0; r >= 0 && i < a.n; i++)
		r = add_annotation(&a, &a.stack[i], last_ns, true);
	free(a.stack);
	return r;
}

void torch_annotations_last(struct pickle_value annotations, int64_t *ret_last_ns)
{
	size_t n = pickle_is_sequence(annotations) ? annotations.box->n : 0;

	if (n)
		torch_time(pickle_get(annotations.box->items[n - 1], "time_us"), ret_last_ns);
}
