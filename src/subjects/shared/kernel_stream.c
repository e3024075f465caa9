/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels one by one; see kernel_stream.h.
 */
#include "subjects/shared/kernel_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/demangle.h"

/* Made when a name first comes: patterns and demangling cost more than everything else. */
struct kernel_label {
	char *name;
	const char *class;
};

int kernel_stream_init(struct kernel_stream *stream, const struct run *run,
		       const struct selection *sel)
{
	int r;

	*stream = (struct kernel_stream){ .run = run,
					  .sel = *sel,
					  .all = !attribution_needed(run, sel) };
	r = kernel_classes_new(NULL, &stream->classes, NULL);
	if (r < 0)
		return r;
	r = attribution_init(&stream->at, run);
	if (r < 0) {
		kernel_classes_free(stream->classes);
		return r;
	}
	return 0;
}

void kernel_stream_release(struct kernel_stream *stream)
{
	for (size_t i = 0; i < stream->n_labels; i++)
		free(stream->labels[i].name);
	free(stream->labels);
	attribution_release(&stream->at);
	kernel_classes_free(stream->classes);
	*stream = (struct kernel_stream){ 0 };
}

static int find_label(struct kernel_stream *s, uint32_t name, const struct kernel_label **ret)
{
	struct kernel_label *label;

	if (name >= s->n_labels) {
		size_t old = s->n_labels;

		if (array_grow(&s->labels, &s->n_labels, (size_t)name + 1, sizeof(*s->labels)) < 0)
			return -ENOMEM;
		memset(s->labels + old, 0, (s->n_labels - old) * sizeof(*s->labels));
	}
	label = &s->labels[name];
	if (!label->name) {
		const char *text = name ? run_string(s->run, name) : "(no name)";

		if (demangled(text, &label->name) < 0)
			return -ENOMEM;
	}
	if (!label->class) {
		label->class = kernel_class_of(s->classes, label->name);
		if (!label->class)
			return -ENOMEM;
	}
	*ret = label;
	return 0;
}

int kernel_stream_next(struct kernel_stream *s, struct kernel_event *ret_event)
{
	const struct table_kernel *t = &s->run->kernel;

	while (s->next < t->n) {
		size_t i = s->next++;
		struct device_work work = { t->correlation[i], t->graph_node[i], t->start_ns[i],
					    t->shard[i] };
		struct place place = { .layer = -1, .expert = -1 };
		bool found = attribution_find(&s->at, &work, &place);
		const struct kernel_label *label;
		int r;

		/* As kernels.h: without its call a kernel is in no chosen part of the run. */
		if (!s->all && (found ? !attribution_selects(&s->at, &s->sel, &place)
				      : !selection_is_all(&s->sel)))
			continue;
		r = find_label(s, run_launch(s->run, t->launch[i]).name, &label);
		if (r < 0)
			return r;
		*ret_event = (struct kernel_event){
			.realtime_ns = t->start_ns[i] +
				       s->run->shards[t->shard[i]].realtime_offset_ns,
			.duration_ns = t->duration_ns[i],
			.untimed = t->untimed[i] != 0,
			.name = label->name,
			.class = label->class,
			.layer = found ? place.layer : -1,
			.expert = found ? place.expert : -1,
		};
		return 1;
	}
	return 0;
}
