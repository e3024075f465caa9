/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of NVTX_EVENTS into records; see nsight_inside.h. Any thread, each with its worker.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "ingest/nsight/nsight_inside.h"
#include "ingest/shared/step_rows.h"

const char *const ns_nvtx_columns[NS_NVTX_COLUMNS] = {
	"start",	"end",	       "eventType",   "text",	    "globalTid",
	"endGlobalTid", "textId",      "domainId",    "category",   "uint64Value",
	"int64Value",	"doubleValue", "uint32Value", "int32Value", "floatValue",
};

/* As Nsight numbers them; those of imported NVTXT files are the same, further up. */
enum {
	NVTX_MARK = 34,
	NVTX_PUSH_POP = 59,
	NVTX_START_END = 60,
	NVTXT_MARK = 65,
	NVTXT_PUSH_POP = 70,
	NVTXT_START_END = 71,
	NVTX_DOMAIN_CREATED = 75,
	NVTX_DOMAIN_DESTROYED = 76
};

struct nvtx {
	struct ns_worker *worker;
	struct ns_seat *seat;
	const struct scan_value *v;
	const char *domain; /* NULL: the default one */
	int64_t start_ns;
};

static const char *nvtx_row_text(const struct nvtx *n, size_t *ret_length)
{
	const char *text = NULL;
	int64_t id;

	*ret_length = 0;
	if (n->v[3].type == SCAN_TEXT) {
		*ret_length = n->v[3].length;
		return n->v[3].text;
	}
	if (ns_int(&n->v[6], &id))
		text = ns_string(n->worker->ns, id, ret_length);
	return text ? text : "";
}

/* Ranges and marks of other domains are named DOMAIN/NAME. */
static int full_name(const struct nvtx *n, uint32_t *ret_name)
{
	size_t length, kept;
	const char *text = nvtx_row_text(n, &length);
	struct buf name = { 0 };
	int r = 0;

	kept = ns_range_length(text, length);
	n->worker->op_ids += kept != length;
	if (!n->domain) {
		*ret_name = part_string(n->seat->part, text, kept);
		return 0;
	}
	buf_printf(&name, "%s/", n->domain);
	buf_append(&name, text, kept);
	if (name.failed)
		r = -ENOMEM;
	else
		*ret_name = part_string(n->seat->part, name.data, name.size);
	buf_release(&name);
	return r;
}

static int nvtx_site(const struct nvtx *n, uint32_t *ret_site)
{
	uint32_t name = 0;
	int64_t id;
	int r;

	if (!n->domain && n->v[3].type != SCAN_TEXT && ns_int(&n->v[6], &id)) {
		*ret_site = ns_name(n->worker, n->seat, id, NS_RANGE);
		return 0;
	}
	r = full_name(n, &name);
	*ret_site = name ? part_site(n->seat->part, name) : 0;
	return r;
}

/* What was open when the recording ended has no end: it is cut there. */
static bool end_of(const struct nvtx *n, int64_t rowid, int64_t *ret_duration, uint8_t *ret_open)
{
	int64_t end;

	*ret_open = n->v[1].type == SCAN_NULL;
	if (*ret_open)
		end = n->worker->ns->end_ns;
	else if (!ns_time(n->seat, rowid, &n->v[1], &end))
		return false;
	if (*ret_open && end == INT64_MIN) {
		part_damaged(n->seat->part, (uint64_t)rowid, "a range that has no end");
		return false;
	}
	if (*ret_open && end < n->start_ns)
		end = n->start_ns;
	*ret_duration = end - n->start_ns;
	if (*ret_duration < 0) {
		part_damaged(n->seat->part, (uint64_t)rowid, "it ends before it begins");
		return false;
	}
	return true;
}

/* Beside the range, which stays one. */
static int add_step(const struct nvtx *n, const struct row_range *range)
{
	struct row_step row = { .start_ns = range->start_ns,
				.duration_ns = range->duration_ns,
				.unfinished = range->unfinished,
				.recorded = 1 };
	size_t length;
	const char *text = nvtx_row_text(n, &length);

	return step_of_name(text, length, &row) ? part_add(n->seat->part, RECORD_STEP, &row) : 0;
}

static int add_nvtx_range(const struct nvtx *n, int64_t rowid)
{
	struct row_range row = { .start_ns = n->start_ns, .thread = ns_thread(&n->v[4]) };
	int r;

	if (!end_of(n, rowid, &row.duration_ns, &row.unfinished))
		return 0;
	r = add_step(n, &row);
	if (r == 0)
		r = nvtx_site(n, &row.site);
	if (r < 0)
		return r;
	if (!row.site) {
		part_damaged(n->seat->part, (uint64_t)rowid, "a range that has no name");
		return 0;
	}
	return part_add(n->seat->part, RECORD_RANGE, &row);
}

static int add_nvtx_span(const struct nvtx *n, int64_t rowid)
{
	struct row_span row = { .start_ns = n->start_ns, .thread = ns_thread(&n->v[4]) };
	size_t length;
	const char *text = nvtx_row_text(n, &length);

	if (!end_of(n, rowid, &row.duration_ns, &row.unfinished))
		return 0;
	row.name = part_string(n->seat->part, text, length);
	row.end_thread = row.unfinished ? 0 : ns_thread(&n->v[5]);
	row.domain = n->domain ? part_text(n->seat->part, n->domain) : 0;
	return part_add(n->seat->part, RECORD_SPAN, &row);
}

static int add_mark(const struct nvtx *n)
{
	struct row_mark row = { .time_ns = n->start_ns, .thread = ns_thread(&n->v[4]) };
	int r = full_name(n, &row.text);

	return r < 0 ? r : part_add(n->seat->part, RECORD_MARK, &row);
}

/* The number that it carries, if any; integers of both widths, then floating point. */
static int add_payload(const struct nvtx *n)
{
	static const struct {
		uint8_t column, type;
	} numbers[] = { { 9, 1 }, { 10, 2 }, { 12, 1 }, { 13, 2 }, { 11, 3 }, { 14, 3 } };
	struct row_payload row = { .time_ns = n->start_ns,
				   .thread = ns_thread(&n->v[4]),
				   .category = ns_u32(&n->v[8]) };
	size_t length;
	const char *text;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !row.type; i++) {
		const struct scan_value *v = &n->v[numbers[i].column];
		double d;

		if (numbers[i].type == 3 && scan_real(v, &d)) {
			row.type = 3;
			memcpy(&row.bits, &d, sizeof(d));
		} else if (numbers[i].type != 3 && v->type != SCAN_NULL) {
			row.type = numbers[i].type;
			row.bits = ns_u64(v);
		}
	}
	if (!row.type && !row.category)
		return 0;
	text = nvtx_row_text(n, &length);
	row.name = part_string(n->seat->part, text, length);
	row.domain = n->domain ? part_text(n->seat->part, n->domain) : 0;
	return part_add(n->seat->part, RECORD_PAYLOAD, &row);
}

int ns_nvtx_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_worker *worker = context;
	struct nvtx n = { .worker = worker, .seat = ns_seat_of(worker, &v[4]), .v = v };
	uint32_t type = ns_u32(&v[2]);
	int64_t domain;
	int r;

	if (!n.seat)
		return -ENOMEM;
	if (type == NVTX_DOMAIN_CREATED || type == NVTX_DOMAIN_DESTROYED)
		return 0;
	if (!ns_time(n.seat, rowid, &v[0], &n.start_ns))
		return 0;
	if (ns_int(&v[7], &domain) && domain)
		n.domain = ns_domain_name(worker->ns, n.seat->pid, domain);
	switch (type) {
	case NVTX_PUSH_POP:
	case NVTXT_PUSH_POP:
		r = add_nvtx_range(&n, rowid);
		break;
	case NVTX_START_END:
	case NVTXT_START_END:
		r = add_nvtx_span(&n, rowid);
		break;
	case NVTX_MARK:
	case NVTXT_MARK:
		r = add_mark(&n);
		break;
	default:
		worker->nvtx_other++;
		return 0;
	}
	return r < 0 ? r : add_payload(&n);
}
