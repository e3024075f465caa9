/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the files of an experiment, and removes those of an earlier attempt.
 */
#include "lab/results.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files/whole_file.h"
#include "base/text/shell_word.h"
#include "device/driver/gpu_devices.h"
#include "lab/metrics.h"

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

int results_clear(const struct point *point, struct err *err)
{
	/* The summary first: without it the folder is incomplete. */
	static const char *const names[] = {
		POINT_SUMMARY,
		POINT_METRICS,
		POINT_REQUESTS,
		POINT_GPUS,
		POINT_TEXT,
		POINT_COMMAND,
		"inference_script.py",
		"nsys_metrics.json",
		"nsys_summary.csv",
		"ncu_metrics.json",
		"kernel_comparison.csv",
		"trace.sqlite",
		POINT_TRACE,
		EXPERTS_FILE,
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char *path = point_path(point, names[i]);
		int r = path ? 0 : -ENOMEM;

		if (path && nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) < 0 && errno != ENOENT)
			r = -errno;
		if (r < 0)
			err_sys(err, r, "cannot remove '%s' of an earlier experiment",
				path ? path : names[i]);
		free(path);
		if (r < 0)
			return r;
	}
	return 0;
}

/* One file through a function that fills it. */
static int write_file(const struct point *point, const char *name,
		      int (*fill)(const struct point *, FILE *), struct err *err)
{
	char *path = point_path(point, name);
	struct whole_file file;
	int r = path ? whole_file_open(&file, path) : -ENOMEM;

	if (r < 0)
		err_sys(err, r, "cannot write '%s'", path ? path : name);
	else
		r = whole_file_close(&file, fill(point, file.file), err);
	free(path);
	return r;
}

int results_command(const struct point *point, const struct argv *argv,
		    const struct texts *environment, struct err *err)
{
	char *path = point_path(point, POINT_COMMAND);
	struct buf script = { 0 };
	struct whole_file file;
	int r = path ? whole_file_open(&file, path) : -ENOMEM;

	if (r < 0) {
		err_sys(err, r, "cannot write '%s'", path ? path : POINT_COMMAND);
		free(path);
		return r;
	}
	buf_printf(&script, "#!/bin/sh\n");
	for (size_t i = 0; i + 1 < environment->n; i += 2) {
		buf_printf(&script, "export %s=", environment->v[i]);
		shell_quote(&script, environment->v[i + 1]);
		buf_append(&script, "\n", 1);
	}
	buf_printf(&script, "exec");
	for (size_t i = 0; i < argv->n; i++) {
		buf_append(&script, " ", 1);
		shell_quote(&script, argv->v[i]);
	}
	buf_append(&script, "\n", 1);
	fwrite(script.data, 1, script.failed ? 0 : script.size, file.file);
	fchmod(fileno(file.file), 0755);
	r = whole_file_close(&file, script.failed ? -ENOMEM : 0, err);
	buf_release(&script);
	free(path);
	return r;
}

static int fill_text(const struct point *point, FILE *out)
{
	fputs(point->requests.text, out);
	fputc('\n', out);
	return 0;
}

static void put_reading(struct json *json, const char *key, const struct gpu_values *values,
			enum gpu_reading reading)
{
	char reason[64];

	json_key(json, key);
	if (values->known & GPU_BIT(reading)) {
		json_double(json, values->value[reading]);
		return;
	}
	json_null(json);
	snprintf(reason, sizeof(reason), "%s_reason", key);
	json_key(json, reason);
	json_string(json, "the driver does not tell");
}

static void put_gpus(struct json *json, const struct gpu_devices *devices)
{
	static const enum gpu_reading readings[] = {
		GPU_MEMORY_TOTAL, GPU_MEMORY_USED,  GPU_POWER_LIMIT,
		GPU_TEMPERATURE,  GPU_CLOCK_SM_MAX, GPU_CLOCK_MEMORY_MAX,
	};

	json_array(json);
	for (size_t i = 0; i < devices->n; i++) {
		const struct gpu_device *device = &devices->device[i];
		struct gpu_values values = { 0 };

		gpu_device_read(device, ~UINT64_C(0), &values);
		json_object(json);
		json_key(json, "index");
		json_uint(json, device->index);
		json_key(json, "name");
		json_string(json, device->name);
		json_key(json, "uuid");
		json_string(json, device->uuid);
		for (size_t k = 0; k < sizeof(readings) / sizeof(*readings); k++)
			put_reading(json, gpu_readings[readings[k]].metric, &values, readings[k]);
		json_object_end(json);
	}
	json_array_end(json);
}

/* GPUs as they are after the experiment; none, with the reason, on a machine without. */
static int fill_gpus(const struct point *point, FILE *out)
{
	struct gpu_devices *devices = calloc(1, sizeof(*devices));
	struct err err = { "" };
	struct json json;
	int opened;

	(void)point;
	if (!devices)
		return -ENOMEM;
	opened = gpu_devices_open(devices, &err);
	json_init_file(&json, out, 2);
	json_object(&json);
	json_key(&json, "schema");
	json_string(&json, "moescope/gpus/1");
	json_key(&json, "gpus");
	if (opened < 0 || !devices->n) {
		json_null(&json);
		json_key(&json, "gpus_reason");
		json_string(&json, opened < 0 ? err.message : "the driver has no GPU");
	} else {
		put_gpus(&json, devices);
	}
	json_key(&json, "driver");
	json_string(&json, devices->driver);
	json_object_end(&json);
	free(devices);
	return json_finish(&json, NULL);
}

static int fill_metrics(const struct point *point, FILE *out)
{
	struct json json;
	int r;

	json_init_file(&json, out, 2);
	r = metrics_write(point, &json);
	return json_finish(&json, NULL) < 0 ? -EIO : r;
}

static int fill_summary(const struct point *point, FILE *out)
{
	struct json json;
	int r;

	json_init_file(&json, out, 2);
	r = results_summary(point, &json);
	return json_finish(&json, NULL) < 0 ? -EIO : r;
}

static void put_time(struct json *json, const char *key, int64_t realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / 1000000000);
	char text[40];
	struct tm utc;

	gmtime_r(&seconds, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	json_key(json, key);
	json_string(json, text);
}

void results_config(const struct experiment *e, struct json *json)
{
	json_object(json);
	for (const struct parameter *p = parameters; p->key; p++) {
		const void *at = (const char *)e + p->offset;
		const struct texts *texts = at;

		json_key(json, p->key);
		if (p->type == PARAMETER_INT)
			json_int(json, *(const int64_t *)at);
		else if (p->type == PARAMETER_NUMBER)
			json_double(json, *(const double *)at);
		else if (p->type == PARAMETER_FLAG)
			json_bool(json, *(const bool *)at);
		else if (p->type == PARAMETER_CHOICE)
			json_string(json, p->choices[*(const int *)at]);
		else if (p->type == PARAMETER_TEXT) {
			const char *text = *(char *const *)at;
			bool secret = text && strcmp(p->key, "api_key") == 0 && text[0] != '$';

			json_string(json, secret ? "(not shown)" : text ? text : "");
		} else if (p->type == PARAMETER_LIST) {
			json_array_line(json);
			for (size_t i = 0; i < texts->n; i++)
				json_string(json, texts->v[i]);
			json_array_end(json);
		} else {
			json_object_line(json);
			for (size_t i = 0; i + 1 < texts->n; i += 2) {
				json_key(json, texts->v[i]);
				json_string(json, texts->v[i + 1]);
			}
			json_object_end(json);
		}
	}
	json_object_end(json);
}

/* The summary is being written, under a name that starts like its own. */
static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.' &&
	       strncmp(entry->d_name, POINT_SUMMARY, strlen(POINT_SUMMARY)) != 0;
}

static void put_files(struct json *json, const struct point *point)
{
	struct dirent **entries = NULL;
	int n = scandir(point->directory, &entries, visible, alphasort);

	json_array(json);
	for (int i = 0; i < n; i++) {
		json_string(json, entries[i]->d_name);
		free(entries[i]);
	}
	json_string(json, POINT_SUMMARY);
	json_array_end(json);
	free(entries);
}

int results_summary(const struct point *point, struct json *json)
{
	const struct experiment *e = point->experiment;
	int64_t duration_ns = point->end_ns - point->start_ns;
	int r;

	json_object(json);
	json_key(json, "schema");
	json_string(json, "moescope/experiment/1");
	json_key(json, "name");
	json_string(json, point->name);
	json_key(json, "directory");
	json_string(json, point->directory);
	json_key(json, "status");
	json_string(json, point_status_names[point->status]);
	json_key(json, "error");
	json_string(json, point->status == POINT_SUCCESS ? NULL : point->error.message);
	put_time(json, "start", point->start_realtime_ns);
	put_time(json, "end", point->start_realtime_ns + duration_ns);
	json_key(json, "duration_s");
	json_double(json, (double)duration_ns * 1e-9);
	json_key(json, "engine");
	json_string(json, e->engine);
	json_key(json, "model");
	json_string(json, e->model_name);
	json_key(json, "config");
	results_config(e, json);
	json_key(json, "metrics");
	r = metrics_write(point, json);
	json_key(json, "notes");
	json_array(json);
	for (size_t i = 0; i < point->notes.n; i++)
		json_string(json, point->notes.v[i]);
	json_array_end(json);
	json_key(json, "files");
	put_files(json, point);
	json_object_end(json);
	return r;
}

int results_write(struct point *point, struct err *err)
{
	int r;

	if (point->experiment->profile_mode != PROFILE_INFERENCE_ONLY)
		results_trace(point);
	r = write_file(point, POINT_GPUS, fill_gpus, err);
	if (r == 0 && point->requests.text)
		r = write_file(point, POINT_TEXT, fill_text, err);
	if (r == 0)
		r = write_file(point, POINT_METRICS, fill_metrics, err);
	if (r == 0)
		r = write_file(point, POINT_SUMMARY, fill_summary, err);
	return r;
}
