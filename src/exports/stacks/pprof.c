/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks (fold.h) as a profile for pprof (github.com/google/pprof, proto/profile.proto), not compressed:
 * device time, or host time with the time that threads waited. A function has one location.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/protobuf.h"
#include "base/text/utf8.h"
#include "base/version.h"
#include "exports/exports.h"
#include "exports/stacks/fold.h"

/* Numbers of fields. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
	VALUE_TYPE = 1,
	VALUE_UNIT = 2,
	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2,
	MAPPING_ID = 1,
	MAPPING_FILE = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_NUMBER = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_FILE = 4,
	FUNCTION_LINE = 5,
};
#define MESSAGE_MOST 256 /* bytes of one without lists */
#define VALUES_MOST 3

/* A file with native functions; build_id NULL: there are several of that name. */
struct mapping {
	const char *path, *base, *build_id;
};

struct pprof {
	struct fold fold;
	struct mapping *mappings; /* their ids are from 1 */
	size_t n_mappings, mappings_capacity;
	bool device;
	struct interned strings; /* number 1 is here the empty one, which is 0 there */
	uint8_t *room;
	size_t capacity;
	FILE *out;
	int failed; /* the first, -errno */
};

static void put_bytes(struct pprof *p, const uint8_t *from, const uint8_t *to)
{
	size_t n = (size_t)(to - from);

	if (!p->failed && fwrite(from, 1, n, p->out) != n)
		p->failed = errno ? -errno : -EIO;
}

/* Its number in the table of strings. */
static uint64_t string_id(struct pprof *p, const char *text)
{
	char *harmless = strdup(text);
	uint32_t id = 0;

	if (harmless) {
		utf8_make_harmless(harmless);
		id = interned_id(&p->strings, harmless, strlen(harmless));
	}
	free(harmless);
	if (!id && !p->failed)
		p->failed = -ENOMEM;
	return id ? id - 1 : 0;
}

static void put_type(struct pprof *p, const char *type, const char *unit)
{
	uint8_t bytes[MESSAGE_MOST], *content = proto_open(bytes, PROFILE_SAMPLE_TYPE), *at;

	at = proto_uint(content, VALUE_TYPE, string_id(p, type));
	at = proto_uint(at, VALUE_UNIT, string_id(p, unit));
	put_bytes(p, bytes, proto_close(content, at));
}

static struct mapping *mapping_of(const struct pprof *p, const char *base)
{
	for (size_t i = 0; i < p->n_mappings; i++)
		if (strcmp(p->mappings[i].base, base) == 0)
			return &p->mappings[i];
	return NULL;
}

/* The files whose build ids the run has. */
static int find_mappings(struct pprof *p, const struct run *run)
{
	for (size_t i = 0; i < run->fact.n; i++) {
		const char *key = run_string(run, run->fact.key[i]);
		struct mapping new = { .build_id = run_string(run, run->fact.value[i]) }, *known;

		if (strncmp(key, FACT_BUILD_ID, strlen(FACT_BUILD_ID)) != 0)
			continue;
		new.path = key + strlen(FACT_BUILD_ID);
		new.base = strrchr(new.path, '/') ? strrchr(new.path, '/') + 1 : new.path;
		known = mapping_of(p, new.base);
		if (known && known->build_id && strcmp(known->build_id, new.build_id) != 0)
			known->build_id = NULL;
		if (known)
			continue;
		if (array_grow(&p->mappings, &p->mappings_capacity, p->n_mappings + 1,
			       sizeof(new)) < 0)
			return -ENOMEM;
		p->mappings[p->n_mappings++] = new;
	}
	return 0;
}

static void put_mappings(struct pprof *p)
{
	for (size_t i = 0; i < p->n_mappings; i++) {
		uint8_t bytes[MESSAGE_MOST], *content = proto_open(bytes, PROFILE_MAPPING), *at;

		if (!p->mappings[i].build_id)
			continue;
		at = proto_uint(content, MAPPING_ID, i + 1);
		at = proto_uint(at, MAPPING_FILE, string_id(p, p->mappings[i].path));
		at = proto_uint(at, MAPPING_BUILD_ID, string_id(p, p->mappings[i].build_id));
		at = proto_uint(at, MAPPING_HAS_FUNCTIONS, 1);
		put_bytes(p, bytes, proto_close(content, at));
	}
}

/* What a label says: "name (file.py:12)", "name (libc.so.6)" or a name alone. */
struct function {
	char *name, *file; /* of one allocation */
	uint64_t line;
};

static bool split_label(const char *label, struct function *ret)
{
	char *text = strdup(label), *open = NULL, *colon;
	size_t length = strlen(label);

	if (!text)
		return false;
	*ret = (struct function){ .name = text, .file = text + length };
	for (char *at = text; (at = strstr(at, " (")); at++)
		open = at;
	if (!open || open == text || text[length - 1] != ')' || strchr(open + 2, '('))
		return true;
	*open = '\0';
	text[length - 1] = '\0';
	ret->file = open + 2;
	colon = strrchr(ret->file, ':');
	if (colon && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")]) {
		*colon = '\0';
		ret->line = strtoull(colon + 1, NULL, 10);
	}
	return true;
}

/* The function and the location of each label have its number. */
static void put_functions(struct pprof *p)
{
	for (uint32_t id = 1; id <= p->fold.labels.texts.n && !p->failed; id++) {
		uint8_t bytes[MESSAGE_MOST], *content = proto_open(bytes, PROFILE_FUNCTION), *line,
					     *at;
		const struct mapping *mapping;
		struct function function;

		if (!split_label(interned_key(&p->fold.labels.texts, id), &function)) {
			p->failed = -ENOMEM;
			return;
		}
		at = proto_uint(content, FUNCTION_ID, id);
		at = proto_uint(at, FUNCTION_NAME, string_id(p, function.name));
		at = proto_uint(at, FUNCTION_FILE, string_id(p, function.file));
		at = proto_uint(at, FUNCTION_LINE, function.line);
		put_bytes(p, bytes, proto_close(content, at));

		content = proto_open(bytes, PROFILE_LOCATION);
		at = proto_uint(content, LOCATION_ID, id);
		mapping = mapping_of(p, function.file);
		if (mapping && mapping->build_id) {
			at = proto_uint(at, LOCATION_MAPPING,
					(uint64_t)(mapping - p->mappings) + 1);
			/* Without a symbol the name is the address in the file. */
			if (strncmp(function.name, "0x", 2) == 0)
				at = proto_uint(at, LOCATION_ADDRESS,
						strtoull(function.name, NULL, 16));
		}
		line = proto_open(at, LOCATION_LINE);
		at = proto_uint(line, LINE_FUNCTION, id);
		at = proto_uint(at, LINE_NUMBER, function.line);
		at = proto_close(line, at);
		put_bytes(p, bytes, proto_close(content, at));
		free(function.name);
	}
}

static size_t values_of(const struct pprof *p, uint32_t node, int64_t values[VALUES_MOST])
{
	const struct fold_node *n = &p->fold.nodes[node];

	if (p->device) {
		values[0] = (int64_t)n->device_n;
		values[1] = n->device_ns > 0 ? n->device_ns : 0;
		return 2;
	}
	values[0] = (int64_t)n->host_n;
	values[1] = n->host_ns > 0 ? n->host_ns : 0;
	values[2] = n->wait_ns;
	return 3;
}

static void put_sample(struct pprof *p, uint32_t node)
{
	int64_t values[VALUES_MOST];
	size_t n = values_of(p, node, values), depth = 0;
	uint8_t *content, *at, *list;

	if (values[1] <= 0 && (n < 3 || values[2] <= 0))
		return;
	for (uint32_t i = node; i; i = p->fold.nodes[i].parent)
		depth++;
	if (array_grow(&p->room, &p->capacity, MESSAGE_MOST + depth * PROTO_VARINT_MOST, 1) < 0) {
		p->failed = -ENOMEM;
		return;
	}
	content = proto_open(p->room, PROFILE_SAMPLE);
	list = proto_open(content, SAMPLE_LOCATION);
	at = list;
	for (; node; node = p->fold.nodes[node].parent)
		at = proto_varint(at, p->fold.nodes[node].label);
	at = proto_close(list, at);
	list = proto_open(at, SAMPLE_VALUE);
	at = list;
	for (size_t i = 0; i < n; i++)
		at = proto_varint(at, (uint64_t)values[i]);
	at = proto_close(list, at);
	put_bytes(p, p->room, proto_close(content, at));
}

static void put_head(struct pprof *p, const struct run *run)
{
	uint8_t bytes[MESSAGE_MOST], *at = bytes;
	char comment[128];

	string_id(p, ""); /* the first one, by the format */
	put_type(p, p->device ? "launches" : "samples", "count");
	put_type(p, p->device ? "device" : "cpu", "nanoseconds");
	if (!p->device)
		put_type(p, "waiting", "nanoseconds");
	snprintf(comment, sizeof(comment), "moescope " VERSION_TEXT);
	at = proto_int(at, PROFILE_TIME_NANOS, run->info.started_realtime_ns);
	at = proto_int(at, PROFILE_DURATION_NANOS, run->end_ns - run->start_ns);
	at = proto_uint(at, PROFILE_COMMENT, string_id(p, comment));
	at = proto_uint(at, PROFILE_DEFAULT_SAMPLE_TYPE,
			string_id(p, p->device ? "device" : "cpu"));
	put_bytes(p, bytes, at);
}

static void put_strings(struct pprof *p)
{
	for (size_t i = 0; i < p->strings.n && !p->failed; i++) {
		uint8_t head[2 * PROTO_VARINT_MOST];
		const uint8_t *text = (const uint8_t *)p->strings.keys[i];

		put_bytes(p, head,
			  proto_varint(proto_tag(head, PROFILE_STRING, PROTO_LENGTH),
				       p->strings.lengths[i]));
		put_bytes(p, text, text + p->strings.lengths[i]);
	}
}

static int write_pprof(const struct run *run, FILE *out, struct err *err, bool device)
{
	struct pprof p = { .out = out, .device = device };
	int r = fold_make(&p.fold, run, device ? FOLD_DEVICE : FOLD_WAITS);

	if (r == 0)
		r = find_mappings(&p, run);
	if (r == 0) {
		put_head(&p, run);
		for (size_t i = 1; i < p.fold.n && !p.failed; i++)
			put_sample(&p, (uint32_t)i);
		put_mappings(&p);
		put_functions(&p);
		put_strings(&p);
		r = p.failed;
	}
	free(p.room);
	free(p.mappings);
	interned_release(&p.strings);
	fold_release(&p.fold);
	return r < 0 ? err_sys(err, r, "cannot write the stacks of '%s'", run->info.name) : 0;
}

int export_pprof(const struct run *run, FILE *out, struct err *err)
{
	return write_pprof(run, out, err, true);
}

int export_pprof_host(const struct run *run, FILE *out, struct err *err)
{
	return write_pprof(run, out, err, false);
}
