/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices as JSON; see device_text.h.
 */
#include "device/sheets/clock_reasons.h"
#include "present/views/device_text.h"
#include "subjects/device/device_state.h"
#include "subjects/device/timeline.h"
#include "subjects/memory/device_memory.h"
#include "subjects/overhead/overhead.h"
#include "subjects/shared/coverage.h"

static void put_uint(struct json *json, const char *key, uint64_t value)
{
	json_key(json, key);
	json_uint(json, value);
}

static void put_int(struct json *json, const char *key, int64_t value)
{
	json_key(json, key);
	json_int(json, value);
}

static void put_string(struct json *json, const char *key, const char *value, const char *reason)
{
	struct cell cell = value ? cell_text(value) : cell_absent(reason);

	grid_json_cell(json, key, &cell);
}

static void idle_causes(struct json *json, const struct timeline_device *d)
{
	json_key(json, "idle_by_cause");
	json_object_line(json);
	for (int c = 0; c < IDLE_CAUSES; c++) {
		char key[32];

		snprintf(key, sizeof(key), "%s_ns", idle_cause_name((enum idle_cause)c));
		put_int(json, key, d->idle_by_cause[c]);
	}
	grid_json_value(json, "collective_ns",
			value_absent("a device that waits for a collective runs its kernel"));
	json_object_end(json);
}

static void timeline_device(struct json *json, const struct timeline_device *d)
{
	json_object_line(json);
	put_uint(json, "rank", d->rank);
	put_uint(json, "device", d->device);
	put_int(json, "window_ns", d->window_ns);
	put_int(json, "busy_ns", d->busy_ns);
	put_int(json, "idle_ns", d->idle_ns);
	json_key(json, "busy_pct");
	json_double(json, d->busy_pct);
	idle_causes(json, d);
	put_int(json, "kernel_ns", d->kernel_ns);
	put_int(json, "copy_ns", d->copy_ns);
	put_int(json, "set_ns", d->set_ns);
	json_key(json, "overlap");
	json_object_line(json);
	put_int(json, "compute_copy_ns", d->overlap_ns);
	grid_json_value(json, "compute_copy_pct", d->overlap_pct);
	json_object_end(json);
	json_object_end(json);
}

void device_json_timeline(const struct scene *scene, struct json *json)
{
	const struct timeline *t = answer_timeline(scene->answers);
	int64_t copy_ns = 0, overlap_ns = 0;

	if (!t->n) {
		grid_json_value(json, "timeline",
				value_absent(t->untimed ? "no device record was timed"
							: "no device records in this run"));
		return;
	}
	json_key(json, "timeline");
	json_object(json);
	scene_json_sampled(scene, json);
	json_key(json, "devices");
	json_array(json);
	for (size_t i = 0; i < t->n; i++) {
		timeline_device(json, &t->devices[i]);
		copy_ns += t->devices[i].copy_ns;
		overlap_ns += t->devices[i].overlap_ns;
	}
	json_array_end(json);
	json_key(json, "overlap");
	json_object_line(json);
	grid_json_value(json, "compute_copy_pct",
			copy_ns ? value_of(100.0 * (double)overlap_ns / (double)copy_ns)
				: value_absent("nothing was copied"));
	json_object_end(json);
	put_uint(json, "untimed", t->untimed);
	json_object_end(json);
}

static void clock_reasons(struct json *json, const struct device_state *d)
{
	if (!d->reason_samples) {
		grid_json_value(json, "clock_limits_pct",
				value_absent("the driver gave no reasons for its clocks"));
		return;
	}
	json_key(json, "clock_limits_pct");
	json_object_line(json);
	for (unsigned int bit = 0; bit < CLOCK_REASONS; bit++) {
		const char *words = clock_reason_words(bit);
		char unknown[24];

		if (!d->reasons[bit])
			continue;
		snprintf(unknown, sizeof(unknown), "bit %u", bit);
		json_key(json, words ? words : unknown);
		json_double(json, 100.0 * (double)d->reasons[bit] / (double)d->reason_samples);
	}
	json_object_end(json);
}

void device_json_state(const struct scene *scene, struct json *json)
{
	const struct device_states *states = answer_device_states(scene->answers);

	if (!states->n) {
		grid_json_value(json, "device_state",
				value_absent("no samples of power, clocks and temperature"));
		return;
	}
	json_key(json, "device_state");
	json_array(json);
	for (size_t i = 0; i < states->n; i++) {
		const struct device_state *d = &states->devices[i];

		json_object_line(json);
		put_uint(json, "rank", d->rank);
		put_uint(json, "device", d->device);
		for (int m = 0; m < DEVICE_METRICS; m++) {
			const struct metric_summary *s = &d->metrics[m];
			const char *key = device_metric_key((enum device_metric)m);

			if (!s->samples) {
				grid_json_value(json, key, value_absent("not sampled"));
				continue;
			}
			json_key(json, key);
			json_object_line(json);
			put_uint(json, "samples", s->samples);
			json_key(json, "mean");
			json_double(json, s->mean);
			json_key(json, "min");
			json_double(json, s->min);
			json_key(json, "max");
			json_double(json, s->max);
			json_object_end(json);
		}
		clock_reasons(json, d);
		json_object_end(json);
	}
	json_array_end(json);
}

static void pools(struct json *json, const struct device_memory *m)
{
	json_key(json, "pools");
	json_array(json);
	for (size_t i = 0; i < m->n_pools; i++) {
		const struct memory_pool *pool = &m->pools[i];
		char address[24];

		snprintf(address, sizeof(address), "0x%llx", (unsigned long long)pool->address);
		json_object_line(json);
		put_uint(json, "rank", pool->rank);
		put_uint(json, "device", pool->device);
		json_key(json, "address");
		json_string(json, address);
		put_uint(json, "size_bytes", pool->bytes);
		put_uint(json, "used_bytes", pool->used_bytes);
		put_uint(json, "peak_size_bytes", pool->peak_bytes);
		put_uint(json, "peak_used_bytes", pool->peak_used_bytes);
		put_uint(json, "release_threshold_bytes", pool->release_bytes);
		put_uint(json, "trims", pool->trims);
		json_key(json, "destroyed");
		json_bool(json, pool->destroyed);
		json_object_end(json);
	}
	json_array_end(json);
}

static void processes(struct json *json, const struct scene *scene)
{
	const struct device_states *states = answer_device_states(scene->answers);

	json_key(json, "other_processes");
	json_array(json);
	for (size_t i = 0; i < states->n_others; i++) {
		const struct other_process *p = &states->others[i];
		struct cell last = p->bytes_known ? cell_uint(p->last_bytes)
						  : cell_absent("the driver does not tell");
		struct cell peak = p->bytes_known ? cell_uint(p->peak_bytes)
						  : cell_absent("the driver does not tell");

		json_object_line(json);
		put_uint(json, "device", p->device);
		put_uint(json, "pid", p->pid);
		put_string(json, "name", p->name ? run_string(scene->run, p->name) : NULL,
			   "not known");
		grid_json_cell(json, "used_bytes", &last);
		grid_json_cell(json, "peak_used_bytes", &peak);
		json_key(json, "graphics");
		json_bool(json, p->graphics);
		json_object_end(json);
	}
	json_array_end(json);
}

void device_json_memory(const struct scene *scene, struct json *json)
{
	if (answer_device_memory(scene->answers)->n_pools)
		pools(json, answer_device_memory(scene->answers));
	else
		grid_json_value(json, "pools",
				value_absent("no memory pools of the driver in this run"));
	if (answer_device_states(scene->answers)->listed)
		processes(json, scene);
	else
		grid_json_value(json, "other_processes",
				value_absent("the driver's list of processes was not recorded"));
}

static void level_changes(struct json *json, const struct scene *scene)
{
	const struct coverage *c = answer_coverage(scene->answers);

	json_key(json, "level_changes");
	json_array(json);
	for (size_t i = 0; i < c->n_changes; i++) {
		const struct level_change *change = &c->changes[i];

		json_object_line(json);
		put_int(json, "time_ns", change->time_ns - scene->run->start_ns);
		json_key(json, "gear");
		json_string(json, gear_name(change->gear));
		json_key(json, "attached");
		json_bool(json, change->attached);
		put_string(json, "why", change->why ? run_string(scene->run, change->why) : NULL,
			   "not said");
		grid_json_value(json, "cost_pct", change->cost_pct);
		put_uint(json, "rank", scene->run->shards[change->shard].rank);
		put_uint(json, "pid", scene->run->shards[change->shard].pid);
		json_object_end(json);
	}
	json_array_end(json);
	json_key(json, "yielded");
	json_array(json);
	for (size_t i = 0; i < c->n_yields; i++) {
		const struct yielded *y = &c->yields[i];

		json_object_line(json);
		put_int(json, "time_ns", y->start_ns - scene->run->start_ns);
		put_int(json, "duration_ns", y->end_ns - y->start_ns);
		put_string(json, "why", y->why ? run_string(scene->run, y->why) : NULL, "not said");
		put_uint(json, "rank", scene->run->shards[y->shard].rank);
		put_uint(json, "pid", scene->run->shards[y->shard].pid);
		json_object_end(json);
	}
	json_array_end(json);
}

void device_json_cost(const struct scene *scene, struct json *json)
{
	const struct coverage *c = answer_coverage(scene->answers);
	const struct overhead *o = answer_overhead(scene->answers);

	grid_json_value(json, "device_account_pct", o->device_account_pct);
	if (o->device_account_pct.known) {
		json_key(json, "device_account");
		json_object_line(json);
		put_uint(json, "cupti_ns", o->cupti_ns);
		put_uint(json, "translate_ns", o->translate_ns);
		put_uint(json, "held_ns", o->held_ns);
		put_uint(json, "switch_ns", o->switch_ns);
		put_uint(json, "kernels", o->device_kernels);
		put_uint(json, "calls", o->device_calls);
		json_object_end(json);
	} else {
		grid_json_value(json, "device_account", o->device_account_pct);
	}
	grid_json_value(json, "device_estimate_pct", c->governed_pct);
	grid_json_value(json, "coverage_pct", c->coverage_pct);
	grid_json_value(json, "windows",
			c->watched_ns > 0 ? value_of((double)c->n_windows) : c->coverage_pct);
	grid_json_value(json, "steps_covered",
			c->watched_ns > 0 ? value_of((double)c->steps_covered) : c->coverage_pct);
	grid_json_value(json, "steps",
			c->watched_ns > 0 ? value_of((double)c->steps) : c->coverage_pct);
	grid_json_value(json, "device_memory_estimate_bytes", c->device_bytes);
	if (c->n_changes) {
		level_changes(json, scene);
	} else {
		grid_json_value(json, "level_changes", c->governed_pct);
		grid_json_value(json, "yielded", c->governed_pct);
	}
}
