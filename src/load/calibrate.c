/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope-calibrate: see calibrate.h. Exit 0: it ran to its end; the output says why something
 * could not be measured.
 */
#include "load/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Printable ASCII only: device names and library messages. */
static void put_text(const char *key, const char *text)
{
	printf("\"%s\":\"", key);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else
			putchar(c >= 0x20 && c < 0x7f ? c : '?');
	}
	putchar('"');
}

static void begin_line(const struct device *device, const char *key)
{
	putchar('{');
	put_text("device", device->label);
	putchar(',');
	put_text("name", device->name);
	printf(",\"memory_bytes\":%.0f,\"cores\":%.0f,", device->memory_bytes, device->cores);
	put_text("key", key);
}

static void end_line(void)
{
	puts("}");
	fflush(stdout);
}

void tell(const struct device *device, const char *key, double *rates, int n)
{
	qsort(rates, (size_t)n, sizeof(*rates), by_size);
	begin_line(device, key);
	printf(",\"value\":%.9g,\"low\":%.9g,\"high\":%.9g,\"repeats\":%d",
	       n % 2 ? rates[n / 2] : (rates[n / 2 - 1] + rates[n / 2]) / 2, rates[0], rates[n - 1],
	       n);
	end_line();
}

void tell_one(const struct device *device, const char *key, double value)
{
	tell(device, key, &value, 1);
}

void tell_absent(const struct device *device, const char *key, const char *why)
{
	begin_line(device, key);
	putchar(',');
	put_text("absent", why);
	end_line();
}

int main(int argc, char **argv)
{
	bool cpu = argc < 2 || !strcmp(argv[1], "cpu"), gpu = argc < 2 || !strcmp(argv[1], "gpu");

	if (argc > 2 || (!cpu && !gpu)) {
		fputs("usage: moescope-calibrate [cpu | gpu]\n", stderr);
		return 1;
	}
	/* The processor first: a GPU fault must not take its figures. */
	if (cpu)
		calibrate_cpu();
	if (gpu)
		calibrate_gpus();
	return 0;
}
