/* SPDX-License-Identifier: Apache-2.0
 *
 * What the rows of the memory view have besides their cells, as JSON; see memory_text.h.
 */
#include "present/views/memory_text.h"
#include "subjects/memory/device_memory.h"

#define SITES 64 /* places live at the peak that are listed; their number is told */

static void composition(struct json *json, const char *key, const uint64_t *use)
{
	json_key(json, key);
	json_object_line(json);
	for (unsigned int u = 0; u < MEMORY_USES; u++) {
		if (!use[u])
			continue;
		json_key(json, memory_use_name(u));
		json_uint(json, use[u]);
	}
	json_object_end(json);
}

static void place(struct json *json, int32_t layer, int32_t expert)
{
	static const char none[] = "no range around the allocation names one";
	struct cell l = layer < 0 ? cell_absent(none) : cell_int(layer);
	struct cell e = expert < 0 ? cell_absent(none) : cell_int(expert);

	grid_json_cell(json, "layer", &l);
	grid_json_cell(json, "expert", &e);
}

static void memory_json_sites(struct json *json, const struct scene *scene,
			      const struct memory_device *d)
{
	json_key(json, "live_at_peak");
	json_array(json);
	for (size_t i = 0; i < d->n_sites && i < SITES; i++) {
		const struct memory_site *s = &d->sites[i];
		struct cell phase =
			s->phase ? cell_text(phase_name(s->phase))
				 : cell_absent("no range around the allocation names one");
		struct cell site = s->site ? cell_text(run_string(scene->run, s->site))
					   : cell_absent("the allocation names none");

		json_object_line(json);
		grid_json_cell(json, "site", &site);
		json_key(json, "use");
		json_string(json, memory_use_name(s->use));
		json_key(json, "bytes");
		json_uint(json, s->bytes);
		json_key(json, "blocks");
		json_uint(json, s->count);
		json_key(json, "oldest_age_ns");
		json_int(json, s->oldest_ns);
		json_key(json, "youngest_age_ns");
		json_int(json, s->youngest_ns);
		place(json, s->layer, s->expert);
		grid_json_cell(json, "phase", &phase);
		json_object_end(json);
	}
	json_array_end(json);
	json_key(json, "live_at_peak_sites");
	json_uint(json, d->n_sites);
}

static void memory_json_parts(struct json *json, const struct memory_device *d)
{
	if (!d->n_parts) {
		grid_json_value(json, "parts",
				value_absent("no allocation lies in a range of a layer or expert"));
		return;
	}
	json_key(json, "parts");
	json_array(json);
	for (size_t i = 0; i < d->n_parts; i++) {
		const struct memory_part *p = &d->parts[i];

		json_object_line(json);
		place(json, p->layer, p->expert);
		json_key(json, "allocations");
		json_uint(json, p->allocations);
		json_key(json, "allocated_bytes");
		json_uint(json, p->allocated_bytes);
		json_key(json, "at_peak_bytes");
		json_uint(json, p->at_peak_bytes);
		composition(json, "composition_at_peak", p->peak_use);
		json_object_end(json);
	}
	json_array_end(json);
}

void memory_json_device(struct json *json, const void *item, const void *context)
{
	const struct memory_device *d = item;
	const struct scene *scene = context;

	composition(json, "composition", d->use_at_end);
	composition(json, "composition_at_peak", d->use_at_peak);
	json_key(json, "leaks");
	json_array_line(json);
	for (size_t i = 0; i < d->n_leaks; i++) {
		json_object_line(json);
		json_key(json, "site");
		json_string(json, run_string(scene->run, d->leaks[i].site));
		json_key(json, "bytes_per_step");
		json_double(json, d->leaks[i].bytes_per_step);
		json_key(json, "live_bytes");
		json_uint(json, d->leaks[i].last_bytes);
		json_key(json, "grew_steps");
		json_uint(json, d->leaks[i].grew_steps);
		json_object_end(json);
	}
	json_array_end(json);
	memory_json_sites(json, scene, d);
	memory_json_parts(json, d);
	json_key(json, "series");
	json_array_line(json);
	for (size_t i = 0; i < d->n_points; i++) {
		json_object_line(json);
		json_key(json, "time_ns");
		json_int(json, d->points[i].time_ns - scene->run->start_ns);
		json_key(json, "allocated_bytes");
		json_uint(json, d->points[i].live_bytes);
		/* Without segments the row says why, once. */
		if (d->points[i].reserved_bytes.known) {
			json_key(json, "reserved_bytes");
			json_double(json, d->points[i].reserved_bytes.v);
		}
		json_object_end(json);
	}
	json_array_end(json);
}

static void driver_row(struct json *json, const struct scene *scene, const struct driver_memory *d)
{
	json_object_line(json);
	json_key(json, "rank");
	json_uint(json, d->rank);
	json_key(json, "device");
	json_uint(json, d->device);
	json_key(json, "memory");
	json_string(json, d->memory);
	json_key(json, "live_bytes");
	json_uint(json, d->live_bytes);
	json_key(json, "peak_bytes");
	json_uint(json, d->peak_bytes);
	grid_json_value(json, "peak_ns",
			d->peak_bytes ? value_of((double)(d->peak_ns - scene->run->start_ns))
				      : value_absent("nothing was allocated"));
	json_key(json, "allocations");
	json_uint(json, d->allocations);
	json_key(json, "frees");
	json_uint(json, d->frees);
	json_key(json, "unmatched_frees");
	json_uint(json, d->unmatched_frees);
	json_object_end(json);
}

static void used_row(struct json *json, const struct device_used *used)
{
	json_object_line(json);
	json_key(json, "rank");
	json_uint(json, used->rank);
	json_key(json, "device");
	json_uint(json, used->device);
	json_key(json, "samples");
	json_uint(json, used->samples);
	json_key(json, "device_used_bytes");
	json_double(json, used->last_bytes);
	json_key(json, "peak_device_used_bytes");
	json_double(json, used->peak_bytes);
	grid_json_value(json, "device_total_bytes", used->total_bytes);
	grid_json_value(json, "headroom_bytes", used->headroom_bytes);
	grid_json_value(json, "peak_device_used_pct", used->peak_pct);
	grid_json_value(json, "driver_at_peak_bytes", used->driver_at_peak_bytes);
	grid_json_value(json, "outside_allocator_bytes", used->outside_bytes);
	json_object_end(json);
}

void memory_json_driver(struct json *json, const struct scene *scene)
{
	const struct device_memory *m = answer_device_memory(scene->answers);

	if (m->n_driver) {
		json_key(json, "driver");
		json_array(json);
		for (size_t i = 0; i < m->n_driver; i++)
			driver_row(json, scene, &m->driver[i]);
		json_array_end(json);
	} else {
		grid_json_value(json, "driver",
				value_absent("no allocations of the driver in this run"));
	}
	if (m->n_used) {
		json_key(json, "device_used");
		json_array(json);
		for (size_t i = 0; i < m->n_used; i++)
			used_row(json, &m->used[i]);
		json_array_end(json);
	} else {
		grid_json_value(json, "device_used",
				value_absent("no samples of device memory in this run"));
	}
}
