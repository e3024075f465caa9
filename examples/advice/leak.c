/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop that keeps the loss of each step together with everything it was computed from; with
 * --fixed it keeps the number alone.
 *
 *   moescope run -o bad.mscope -- leak          'moescope report bad.mscope' names the culprit
 *   moescope run -o good.mscope -- leak --fixed
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moescope.h"

#define STEPS 24
#define VALUES 65536

int main(int argc, char **argv)
{
	int fixed = argc > 1 && !strcmp(argv[1], "--fixed");
	moescope_name graph = moescope_intern("graph of the loss");
	float *kept[STEPS] = { 0 };
	double losses[STEPS] = { 0 }, total = 0;

	for (int step = 0; step < STEPS; step++) {
		float *values = malloc(VALUES * sizeof(*values));

		if (!values) {
			fprintf(stderr, "leak: no memory\n");
			return 1;
		}
		moescope_step_begin(step);
		moescope_alloc(values, VALUES * sizeof(*values), -1, MOESCOPE_MEMORY_ACTIVATIONS,
			       graph);
		for (int i = 0; i < VALUES; i++) {
			values[i] = (float)(i % (step + 2));
			losses[step] += (double)values[i] / VALUES;
		}
		if (fixed) {
			moescope_free(values, -1);
			free(values);
		} else {
			kept[step] = values;
		}
		moescope_step_end(VALUES);
	}
	for (int step = 0; step < STEPS; step++) {
		total += losses[step];
		free(kept[step]);
	}
	printf("%d steps, mean loss %.4f\n", STEPS, total / STEPS);
	return 0;
}
