/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary bytes as comma-separated values, as numbers, and as what Nsight Compute and nvidia-smi
 * write: rows, or a sentence; fields never lie outside their record.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "ingest/importers.h"
#include "ingest/shared/csv.h"
#include "ingest/shared/intake.h"

static void read_numbers(const struct csv_field *field)
{
	struct number_form form = { 0 }, comma = { .decimal = ',' };
	double value = 0;

	number_form_see(&form, field->text, field->length);
	if (form.points + form.commas > 1)
		abort();
	number_form_decide(&form);
	if (number_read(&form, field->text, field->length, &value) == NUMBER_READ &&
	    value - value != 0)
		abort();
	number_read(&comma, field->text, field->length, &value);
}

static void read_records(const uint8_t *data, size_t size)
{
	uint64_t line = 0;
	struct csv csv;

	if (csv_open_bytes(&csv, (const char *)data, size) < 0)
		abort();
	while (csv_next(&csv) > 0) {
		size_t length = 0;

		if (csv.line <= line || csv.offset > size || csv.broken == (csv.n > 0))
			abort();
		line = csv.line;
		for (size_t i = 0; i < csv.n; i++) {
			struct csv_field trimmed = csv_trimmed(&csv, i);

			if (csv.fields[i].text[csv.fields[i].length])
				abort();
			length += csv.fields[i].length + 1;
			read_numbers(&trimmed);
		}
		if (length > size + 1)
			abort();
	}
	csv_close(&csv);
}

static void import(const struct importer *importer, const uint8_t *data, size_t size)
{
	char path[64], *head = malloc(size + 1);
	struct ingest_file file = { .path = path, .bytes = size, .head = head, .head_bytes = size };
	struct intake *intake;
	struct err err = { "" };
	int fd = memfd_create("input", MFD_CLOEXEC);

	if (!head || fd < 0 || write(fd, data, size) != (ssize_t)size ||
	    intake_new(UINT64_MAX, &intake) < 0)
		abort();
	memcpy(head, data, size);
	head[size] = 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (importer->recognise(&file) && importer->read(&file, intake, &err) < 0 &&
	    !err.message[0])
		abort();
	intake_free(intake);
	close(fd);
	free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_records(data, size);
	import(&ncu_importer, data, size);
	import(&smi_importer, data, size);
	return 0;
}
