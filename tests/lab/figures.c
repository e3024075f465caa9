/* SPDX-License-Identifier: Apache-2.0
 *
 * lab-figures FILE [GOODPUT]: the figures of a requests.jsonl in every dialect, as one JSON object.
 */
#include <errno.h>
#include <stdio.h>

#include "lab/serving/serving.h"

int main(int argc, char **argv)
{
	struct requests requests;
	struct goodput_limit limit = { 0 };
	struct err err = { 0 };
	struct json json;
	int r;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: lab-figures FILE [GOODPUT]\n");
		return 2;
	}
	r = argc > 2 ? goodput_parse(argv[2], &limit, &err) : 0;
	if (r == 0)
		r = requests_read(argv[1], &requests, &err);
	if (r < 0) {
		fprintf(stderr, "lab-figures: %s\n", err.message);
		return 1;
	}
	json_init_file(&json, stdout, 1);
	json_object(&json);
	for (int i = 0; r == 0 && i < DIALECTS; i++) {
		struct serving serving;

		r = serving_compute(&requests, (enum dialect)i, &limit, &serving);
		if (r < 0)
			break;
		json_key(&json, dialect_names[i]);
		serving_write_json(&serving, &json);
	}
	json_object_end(&json);
	requests_release(&requests);
	if (r == 0)
		r = json_finish(&json, NULL);
	return r < 0;
}
