/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading fields and walking rows; see fields.h.
 */
#include "subjects/shared/fields.h"

#include <math.h>
#include <string.h>

bool field_exists(const struct field *field, unsigned int form)
{
	return !field->forms || field->forms & form;
}

bool field_is_column(const struct field *field, unsigned int form)
{
	return !field->of && !field->detail && field_exists(field, form);
}

bool field_is_titled(const struct field *field, unsigned int form)
{
	return field->title && (!field->titled || field->titled & form);
}

static struct cell text_cell(const char *text, const char *none)
{
	return text || !none ? cell_text(text) : cell_absent(none);
}

static struct cell whole_cell(struct value value)
{
	if (value.known && fabs(value.v) < 0x1p63)
		return cell_int((int64_t)value.v);
	return cell_value(value);
}

static struct cell member_cell(const struct field *field, const struct field_row *at)
{
	const void *member = (const char *)at->item + field->offset;

	if (field->read)
		return field->read(at);
	switch (field->type) {
	case FIELD_BOOL:
		return cell_bool(*(const bool *)member);
	case FIELD_U8:
		return cell_uint(*(const uint8_t *)member);
	case FIELD_U16:
		return cell_uint(*(const uint16_t *)member);
	case FIELD_U32:
		return cell_uint(*(const uint32_t *)member);
	case FIELD_U64:
		return cell_uint(*(const uint64_t *)member);
	case FIELD_I32:
		return cell_int(*(const int32_t *)member);
	case FIELD_I64:
		return cell_int(*(const int64_t *)member);
	case FIELD_REAL:
		return cell_real(*(const double *)member);
	case FIELD_VALUE:
		return cell_value(*(const struct value *)member);
	case FIELD_WHOLE:
		return whole_cell(*(const struct value *)member);
	case FIELD_TEXT:
		return text_cell(*(const char *const *)member, field->none);
	case FIELD_TEXT_INSIDE:
		return cell_text(member);
	case FIELD_STRING:
		if (!*(const uint32_t *)member && field->none)
			return cell_absent(field->none);
		return cell_text(run_string(at->run, *(const uint32_t *)member));
	case FIELD_TIME:
		return cell_int(*(const int64_t *)member - at->run->start_ns);
	case FIELD_UNTYPED:
		break;
	}
	return cell_absent("a group is not one value");
}

/* The row that a field is read from; or why it is absent. */
static const char *find_field_row(const struct field *field, const struct field_row *at,
				  struct field_row *ret_row)
{
	const char *reason;

	for (unsigned int i = 0; i < field->up; i++)
		at = at->in;
	*ret_row = *at;
	ret_row->field = field;
	reason = field->absent ? field->absent(ret_row) : NULL;
	if (!reason && field->from)
		ret_row->item = field->from(ret_row);
	return reason;
}

struct cell field_read(const struct field *field, const struct field_row *at)
{
	struct field_row row;
	const char *reason = find_field_row(field, at, &row);
	struct cell cell;

	if (reason)
		return cell_absent(reason);
	cell = member_cell(field, &row);
	/* Integers alike: both are 0 in all their bits. */
	if (field->none && (cell.kind == CELL_INT || cell.kind == CELL_UINT) && !cell.u)
		return cell_absent(field->none);
	return cell;
}

const char *field_enter(const struct field *field, const struct field_row *at,
			struct field_row *ret_row)
{
	const char *reason = find_field_row(field, at, ret_row);

	if (!reason)
		ret_row->item = (const char *)ret_row->item + field->offset;
	return reason;
}

static size_t items_count(const struct field_items *items, const struct field_row *in)
{
	const char *n = (const char *)in->item + items->n;
	size_t count;

	if (items->count)
		return items->count(in);
	if (items->n_type == FIELD_UNTYPED)
		return items->most;
	count = items->n_type == FIELD_U32 ? *(const uint32_t *)(const void *)n
					   : *(const uint64_t *)(const void *)n;
	return items->most && count > items->most ? items->most : count;
}

static const void *items_at(const struct field_items *items, const struct field_row *in, size_t i)
{
	const char *first = (const char *)in->item + items->first;

	if (items->item)
		return items->item(in, i);
	if (!items->inside)
		first = *(const char *const *)(const void *)first;
	return first + i * items->size;
}

static int each(const struct field_items *level, unsigned int levels, const struct field_row *in,
		field_visit visit, void *data)
{
	size_t n = items_count(level, in);
	struct field_row row = *in;
	int r = 0;

	row.in = in;
	for (row.index = 0; !r && row.index < n; row.index++) {
		row.item = items_at(level, in, row.index);
		if (!row.item)
			continue;
		r = levels > 1 ? each(level + 1, levels - 1, &row, visit, data) : visit(&row, data);
	}
	return r;
}

int field_items_each(const struct field_items *items, const struct field_row *in, field_visit visit,
		     void *data)
{
	return each(items, 1, in, visit, data);
}

int field_set_each(const struct field_set *set, const struct field_row *from, field_visit visit,
		   void *data)
{
	return set->each ? set->each(from, visit, data)
			 : each(set->rows, set->levels, from, visit, data);
}
