/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON files of a book, with the keys that users of other profilers read. What is not known is
 * null with its reason beside it, as everywhere.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "present/book/csv_book.h"
#include "subjects/api/api_calls.h"
#include "subjects/transfers/transfers.h"

#define NO_COUNTERS "needs hardware counters, which were not collected"
#define NO_ROUTING "the program reports no routing"
#define TOP_KERNELS 10

const struct csv_column csv_profiler_report[] = {
	{ "timestamp", "start of the run, local time" },
	{ "profiling_duration", "seconds from the first to the last sign of life" },
	{ "stats.memory", "the device (or host) with the highest peak, as in memory.csv, / 1e6" },
	{ "stats.memory.expert_memory_distribution",
	  "weights of the experts with that number over all layers / 1e6, "
	  "as the program told" },
	{ "stats.kernel", "kernels.csv: mean time in ms by name and by expert" },
	{ "stats.data_movement", "transfers.csv: bytes / device time of timed copies" },
	{ "stats.data_movement.gpu_memory_bandwidth_gbps",
	  "mean share of the peak by hardware counters, times the peak of the device" },
	{ "stats.expert_routing", "routing.csv summed over layers, by expert number; "
				  "load_balance_score (cv) and routing_efficiency (100 - 10 cv) "
				  "are legacy" },
	{ NULL, NULL },
};

static void put_value(struct json *json, const char *key, struct value value)
{
	grid_json_value(json, key, value);
}

static void put_uint(struct json *json, const char *key, uint64_t value)
{
	json_key(json, key);
	json_uint(json, value);
}

static struct value scaled(struct value value, double factor)
{
	return value.known ? value_of(value.v * factor) : value;
}

static void memory(struct json *json, const struct csv_book *book)
{
	const struct overview *o = &book->overview;
	const struct memory_device *d = o->memory;
	struct value none = value_absent("the program reports no allocations");
	struct value slack = none;

	if (d && d->reserved_bytes.known && d->reserved_bytes.v > 0)
		slack = value_of((d->reserved_bytes.v - (double)d->live_bytes) /
				 d->reserved_bytes.v);
	else if (d)
		slack = value_absent(d->reserved_bytes.known ? "nothing is reserved"
							     : d->reserved_bytes.reason);
	json_key(json, "memory");
	json_object(json);
	put_value(json, "peak_memory_mb", d ? value_of((double)d->peak_bytes / 1e6) : none);
	put_value(json, "current_allocated_mb", d ? value_of((double)d->live_bytes / 1e6) : none);
	put_value(json, "reserved_mb", d ? scaled(d->reserved_bytes, 1e-6) : none);
	put_value(json, "fragmentation_percent", d ? d->fragmentation_pct : none);
	put_value(json, "allocation_efficiency",
		  slack.known ? value_of(100 * (1 - slack.v)) : slack);
	if (o->experts && o->expert_bytes[0].known) {
		json_key(json, "expert_memory_distribution");
		json_array_line(json);
		for (uint32_t e = 0; e < o->experts; e++)
			json_double(json,
				    o->expert_bytes[e].known ? o->expert_bytes[e].v / 1e6 : NAN);
		json_array_end(json);
	} else {
		put_value(json, "expert_memory_distribution",
			  o->experts ? o->expert_bytes[0] : value_absent(NO_ROUTING));
	}
	put_value(json, "device", d ? value_of(d->device) : none);
	json_object_end(json);
}

static const struct kernel_row *slowest(const struct kernels *kernels)
{
	const struct kernel_row *best = NULL;

	for (size_t i = 0; i < kernels->n; i++)
		if (kernels->rows[i].summary.n &&
		    (!best || kernels->rows[i].summary.mean > best->summary.mean))
			best = &kernels->rows[i];
	return best;
}

/* Experts of the same number in several layers are one here: the old keys know no layers. */
static void expert_performance(struct json *json, const struct kernels *kernels)
{
	int32_t most = -1;

	for (size_t i = 0; i < kernels->n; i++)
		most = kernels->rows[i].expert > most ? kernels->rows[i].expert : most;
	json_key(json, "expert_performance");
	json_object(json);
	for (int32_t e = 0; e <= most; e++) {
		uint64_t calls = 0, timed = 0;
		int64_t time_ns = 0;
		char key[16];

		for (size_t i = 0; i < kernels->n; i++) {
			const struct kernel_row *row = &kernels->rows[i];

			if (row->no_place || row->expert != e)
				continue;
			calls += row->count;
			timed += row->summary.n;
			time_ns += row->time_ns;
		}
		if (!calls)
			continue;
		snprintf(key, sizeof(key), "%" PRId32, e);
		json_key(json, key);
		json_object_line(json);
		put_value(json, "avg_time_ms",
			  timed ? value_of((double)time_ns / 1e6 / (double)timed)
				: value_absent("none was timed"));
		put_uint(json, "total_calls", calls);
		json_object_end(json);
	}
	json_object_end(json);
}

static void kernel(struct json *json, const struct csv_book *book)
{
	const struct kernels *kernels = answer_kernels(book->answers);
	const struct kernel_row *slow = slowest(kernels);

	json_key(json, "kernel");
	json_object(json);
	json_key(json, "average_kernel_times");
	json_object(json);
	for (size_t i = 0; i < kernels->n; i++)
		put_value(json, kernels->rows[i].name,
			  kernels->rows[i].summary.n ? value_of(kernels->rows[i].summary.mean / 1e6)
						     : value_absent("none was timed"));
	json_object_end(json);
	expert_performance(json, answer_kernels(&book->answers[BOOK_BY_EXPERT]));
	put_uint(json, "total_kernels_profiled", kernels->count);
	if (slow) {
		json_key(json, "slowest_kernel");
		json_string(json, slow->name);
	} else {
		put_value(
			json, "slowest_kernel",
			value_absent(kernels->count ? "none was timed" : "no kernels in this run"));
	}
	put_value(json, "occupancy_percent", value_absent(NO_COUNTERS));
	json_object_end(json);
}

static void data_movement(struct json *json, const struct csv_book *book)
{
	/* Kinds as the old interface names them; what is in neither column goes by its own name. */
	static const struct {
		const char *kind, *key;
	} kinds[] = { { "HtoD", "host_to_device" },
		      { "DtoH", "device_to_host" },
		      { "DtoD", "device_to_device" },
		      { "PtoP", "peer_to_peer" } };
	const struct transfers *t = answer_transfers(book->answers);
	double link_bytes = 0, link_ns = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct transfer_row *row = &t->rows[i];

		if (row->bandwidth_bytes_per_s.known &&
		    (!strcmp(row->kind, "HtoD") || !strcmp(row->kind, "DtoH"))) {
			/* Bytes of the timed ones alone. */
			link_bytes += row->bandwidth_bytes_per_s.v * (double)row->time_ns / 1e9;
			link_ns += (double)row->time_ns;
		}
	}
	json_key(json, "data_movement");
	json_object(json);
	put_value(json, "pcie_bandwidth_gbps",
		  link_ns > 0 ? value_of(link_bytes / link_ns)
			      : value_absent("no copy from or to the host was timed"));
	put_value(json, "gpu_memory_bandwidth_gbps", scaled(book->overview.dram_bytes_per_s, 1e-9));
	put_value(json, "total_transfers_mb",
		  scene_has_device(book->run) ? value_of((double)t->bytes / 1e6)
					      : value_absent("no device records in this run"));
	put_value(json, "cache_hit_rate", value_absent(NO_COUNTERS));
	json_key(json, "transfer_breakdown");
	json_object(json);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		uint64_t count = 0, bytes = 0;

		for (size_t i = 0; i < t->n; i++) {
			if (strcmp(t->rows[i].kind, kinds[k].kind) != 0)
				continue;
			count += t->rows[i].count;
			bytes += t->rows[i].bytes;
		}
		if (!count)
			continue;
		json_key(json, kinds[k].key);
		json_object_line(json);
		put_uint(json, "count", count);
		json_key(json, "mb");
		json_double(json, (double)bytes / 1e6);
		json_object_end(json);
	}
	json_object_end(json);
	json_object_end(json);
}

static void expert_list(struct json *json, const char *key, const struct overview *loads,
			bool imbalanced)
{
	json_key(json, key);
	json_array_line(json);
	for (uint32_t e = 0; e < loads->experts; e++) {
		double n = (double)loads->n[e];

		if (!imbalanced)
			json_double(json, 100 * n / (double)loads->load.total);
		else if (n < 0.5 * loads->load.mean || n > 1.5 * loads->load.mean)
			json_uint(json, e);
	}
	json_array_end(json);
}

static void expert_routing(struct json *json, const struct csv_book *book)
{
	const struct overview *loads = &book->overview;
	struct value none = value_absent(NO_ROUTING);
	bool known = loads->load.known;

	json_key(json, "expert_routing");
	json_object(json);
	if (known) {
		expert_list(json, "expert_utilization", loads, false);
		expert_list(json, "imbalanced_experts", loads, true);
	} else {
		put_value(json, "expert_utilization", none);
		put_value(json, "imbalanced_experts", none);
	}
	put_value(json, "load_balance_score", known ? value_of(loads->load.cv) : none);
	put_value(json, "routing_efficiency",
		  known ? value_of(routing_legacy_efficiency(loads->load.cv)) : none);
	put_value(json, "avg_tokens_per_expert", known ? value_of(loads->load.mean) : none);
	put_uint(json, "total_routing_decisions", loads->load.total);
	json_object_end(json);
}

static void start_time(struct json *json, const struct run *run)
{
	time_t seconds = (time_t)(run->info.started_realtime_ns / 1000000000);
	struct tm local;
	char text[32];

	if (run->info.started_realtime_ns && localtime_r(&seconds, &local) &&
	    strftime(text, sizeof(text), "%Y-%m-%d_%H:%M:%S", &local)) {
		json_key(json, "timestamp");
		json_string(json, text);
	} else {
		put_value(json, "timestamp", value_absent("the start is not known"));
	}
}

int csv_write_profiler_report(const struct csv_book *book, const struct csv_file *file, FILE *out)
{
	struct json json;

	(void)file;
	json_init_file(&json, out, 2);
	json_object(&json);
	start_time(&json, book->run);
	json_key(&json, "profiling_duration");
	json_double(&json, (double)(book->run->end_ns - book->run->start_ns) / 1e9);
	json_key(&json, "run");
	json_string(&json, book->run->info.path);
	json_key(&json, "stats");
	json_object(&json);
	memory(&json, book);
	kernel(&json, book);
	data_movement(&json, book);
	expert_routing(&json, book);
	json_object_end(&json);
	json_object_end(&json);
	return json_finish(&json, NULL);
}

const struct csv_column csv_nsys_metrics[] = {
	{ "cuda_kernels", "as nsys_summary.csv" },
	{ "cuda_api_calls", "as cuda_api_summary.csv" },
	{ "summary.total_kernel_time_ns", "sum of the device time of timed kernels" },
	{ "summary.top_kernels", "the ten with the most time" },
	{ NULL, NULL },
};

static void timed_item(struct json *json, const char *name, double share, int64_t time_ns,
		       uint64_t count, const struct stats_summary *s)
{
	struct value none = value_absent("none was timed");

	json_object_line(json);
	json_key(json, "name");
	json_string(json, name);
	put_value(json, "time_percentage", s->n ? value_of(share) : none);
	put_value(json, "total_time_ns", s->n ? value_of((double)time_ns) : none);
	put_uint(json, "instances", count);
	put_value(json, "avg_time_ns", s->n ? value_of(s->mean) : none);
	put_value(json, "min_time_ns", s->n ? value_of(s->min) : none);
	put_value(json, "max_time_ns", s->n ? value_of(s->max) : none);
	json_object_end(json);
}

static void kernel_items(struct json *json, const char *key, const struct kernels *kernels,
			 size_t most)
{
	json_key(json, key);
	json_array(json);
	for (size_t i = 0; i < kernels->n && i < most; i++)
		timed_item(json, kernels->rows[i].name, kernels->rows[i].share_pct,
			   kernels->rows[i].time_ns, kernels->rows[i].count,
			   &kernels->rows[i].summary);
	json_array_end(json);
}

int csv_write_nsys_metrics(const struct csv_book *book, const struct csv_file *file, FILE *out)
{
	const struct kernels *kernels = answer_kernels(book->answers);
	const struct api_calls *api = answer_api_calls(book->answers);
	struct json json;

	(void)file;
	json_init_file(&json, out, 2);
	json_object(&json);
	kernel_items(&json, "cuda_kernels", kernels, SIZE_MAX);
	json_key(&json, "cuda_api_calls");
	json_array(&json);
	for (size_t i = 0; i < api->n; i++)
		timed_item(&json,
			   api->rows[i].name ? run_string(book->run, api->rows[i].name)
					     : "(no name)",
			   api->rows[i].share_pct, api->rows[i].time_ns, api->rows[i].count,
			   &api->rows[i].summary);
	json_array_end(&json);
	json_key(&json, "summary");
	json_object(&json);
	put_value(&json, "total_kernel_time_ns",
		  scene_has_device(book->run) ? value_of((double)kernels->time_ns)
					      : value_absent("no device records in this run"));
	kernel_items(&json, "top_kernels", kernels, TOP_KERNELS);
	json_object_end(&json);
	json_object_end(&json);
	return json_finish(&json, NULL);
}
