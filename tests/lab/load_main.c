/* SPDX-License-Identifier: Apache-2.0
 *
 * The load client alone, for its tests and benchmarks: load-client FILE KEY=VALUE... writes
 * requests.jsonl to FILE and prints its cost as JSON.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lab/load/load.h"

static volatile bool stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = true;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static int set_pair(struct experiment *experiment, const char *pair, struct err *err)
{
	const char *equals = strchr(pair, '=');
	char key[64];

	snprintf(key, sizeof(key), "%.*s", equals ? (int)(equals - pair) : 0, pair);
	return experiment_set(experiment, key, equals ? equals + 1 : "", err);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct requests requests = { 0 };
	struct experiment experiment;
	struct err err = { "" };
	struct rusage usage;
	int r = argc > 1 ? experiment_init(&experiment) : -1;

	if (r < 0)
		return 2;
	sigaction(SIGTERM, &action, NULL);
	for (int i = 2; i < argc && r == 0; i++)
		r = set_pair(&experiment, argv[i], &err);
	if (r == 0)
		r = load_run(&experiment, &stopped, &requests, &err);
	if (r == 0)
		r = requests_write(&requests, argv[1], &err);
	if (r < 0)
		fprintf(stderr, "%s\n", err.message);
	getrusage(RUSAGE_SELF, &usage);
	if (r == 0)
		printf("{\"cpu_s\": %.6f, \"user_s\": %.6f, \"duration_s\": %.6f, "
		       "\"requests\": %zu, \"pieces\": %zu, \"over_saturated\": %s}\n",
		       seconds(usage.ru_utime) + seconds(usage.ru_stime), seconds(usage.ru_utime),
		       (double)(requests.end_ns - requests.start_ns) * 1e-9, requests.n,
		       requests.n_pieces, requests.over_saturated ? "true" : "false");
	requests_release(&requests);
	experiment_release(&experiment);
	return r < 0;
}
