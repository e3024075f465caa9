/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope doctor: what works on this machine, what does not, and what to do about it.
 */
#include <stddef.h>

#include "base/text/json_write.h"
#include "base/text/text_table.h"
#include "cmd/doctor/calibrate.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/stress.h"
#include "cmd/options/common_options.h"
#include "cmd/terminal/output.h"

struct values {
	bool json, stress, calibrate;
	uint64_t shifts;
};

static const struct option_desc own[] = {
	JSON_OPTION(struct values, json),
	{ .name = "stress",
	  .kind = OPTION_FLAG,
	  .help = "attach and detach GPU collection under load for some minutes, and remember "
		  "the result",
	  .offset = offsetof(struct values, stress) },
	{ .name = "shifts",
	  .metavar = "N",
	  .kind = OPTION_UINT,
	  .min = 8,
	  .max = 1000000,
	  .default_text = "2000",
	  .help = "how often --stress attaches and detaches in total",
	  .offset = offsetof(struct values, shifts) },
	{ .name = "calibrate",
	  .kind = OPTION_FLAG,
	  .help = "measure the peak rates of the processor and the GPUs, and keep them for the "
		  "analyses",
	  .offset = offsetof(struct values, calibrate) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope doctor", "Inspect this machine and make a short real recording." },
	{ "moescope doctor --json", "The same for a script." },
	{ "moescope doctor --stress",
	  "Test on this machine's GPU that collection can be switched under load." },
	{ "moescope doctor --calibrate",
	  "Measure its peaks, for 'moescope efficiency' and 'transfers'." },
	{ NULL, NULL },
};

static const struct {
	const char *word;
	enum text_style style;
} states[] = {
	[CHECK_OK] = { "ok", TEXT_GREEN },
	[CHECK_NOTE] = { "note", TEXT_YELLOW },
	[CHECK_FAILED] = { "failed", TEXT_RED },
};

static void print_text(FILE *out, const struct checks *checks)
{
	struct terminal terminal = terminal_look();
	size_t width = (size_t)terminal.columns;

	for (size_t i = 0; i < checks->n; i++) {
		const struct check *check = &checks->check[i];
		enum text_style style = states[check->state].style;

		fprintf(out, "%s%-6s%s  %-14s", text_style_on(style, terminal.color),
			states[check->state].word, text_style_off(style, terminal.color),
			check->name);
		text_wrap(out, check->text, width, 22, 22);
		if (check->fix[0]) {
			fprintf(out, "%22s", "");
			text_wrap(out, check->fix, width, 22, 22);
		}
	}
}

static int print_json(FILE *out, const struct checks *checks)
{
	struct json json;

	json_init_file(&json, out, 2);
	json_object(&json);
	json_key(&json, "schema");
	json_string(&json, "moescope/doctor/1");
	json_key(&json, "rows");
	json_array(&json);
	for (size_t i = 0; i < checks->n; i++) {
		const struct check *check = &checks->check[i];

		json_object(&json);
		json_key(&json, "name");
		json_string(&json, check->name);
		json_key(&json, "state");
		json_string(&json, states[check->state].word);
		json_key(&json, "text");
		json_string(&json, check->text);
		json_key(&json, "fix");
		json_string(&json, check->fix[0] ? check->fix : NULL);
		if (check->has_number) {
			json_key(&json, check->number_key);
			json_double(&json, check->number);
		}
		json_object_end(&json);
	}
	json_array_end(&json);
	json_object_end(&json);
	return json_finish(&json, NULL) < 0 ? fail("no memory for the output.") : EXIT_OK;
}

static int run_doctor(struct invocation *inv)
{
	const struct values *values = inv->values;
	static struct checks checks;
	int r = EXIT_OK;

	doctor_look(&checks);
	if (values->stress)
		doctor_stress(&checks, values->shifts ? values->shifts : 2000);
	if (values->calibrate)
		doctor_calibrate(&checks);
	if (values->json)
		r = print_json(inv->out->file, &checks);
	else
		print_text(inv->out->file, &checks);
	for (size_t i = 0; i < checks.n; i++)
		if (checks.check[i].state == CHECK_FAILED)
			r = EXIT_FAILED;
	return r;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.purpose = PURPOSE_HELP,
	.summary = "what works on this machine, what does not, and what fixes it",
	.words = "",
	.description = "Inspects the machine, its GPUs and their libraries, finds the parts of "
		       "moescope, and records and reads back a few thousand ranges. Says what "
		       "each level of 'run' can collect here. The exit status is 1 if something "
		       "that recording needs does not work.",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.run = run_doctor,
};
