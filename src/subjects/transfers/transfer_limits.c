/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies against what their way can do; see transfers.h. Pure, any thread.
 */
#include <string.h>

#include "subjects/efficiency/efficiency.h"
#include "subjects/transfers/transfers.h"

#define CALIBRATE "run 'moescope doctor --calibrate' on its machine"

/* Rows are over all processes: the first that describes the device counts. */
static struct efficiency_device limits_device(const struct run *run, const struct peaks_file *peaks,
					      int64_t device)
{
	for (size_t i = 0; i < run->device.n; i++)
		if (run->device.device[i] == device)
			return efficiency_device_of(run, peaks, run->device.shard[i],
						    run->device.device[i]);
	return (struct efficiency_device){ .reason = "the run does not say what the device is" };
}

static double limit_of(const struct transfer_row *row, const struct peaks *peaks)
{
	if (row->is_set)
		return peaks->memory_bytes_per_s;
	if (!strcmp(row->kind, "HtoD"))
		return peaks->htod_pinned_bytes_per_s;
	if (!strcmp(row->kind, "DtoH"))
		return peaks->dtoh_pinned_bytes_per_s;
	return !strcmp(row->kind, "DtoD") && row->src == row->dst ? peaks->copy_bytes_per_s : 0;
}

void transfer_limits_fill(const struct run *run, const struct peaks_file *peaks,
			  struct transfers *transfers)
{
	for (size_t i = 0; i < transfers->n; i++) {
		struct transfer_row *row = &transfers->rows[i];
		int64_t device = row->dst != TRANSFER_HOST ? row->dst : row->src;
		struct efficiency_device d = limits_device(run, peaks, device);
		double limit = limit_of(row, &d.peaks);

		row->limit_bytes_per_s =
			limit > 0 ? value_of(limit)
				  : value_absent(d.reason ? d.reason
							  : "what this way can do was not "
							    "measured: " CALIBRATE);
		row->limit_pct = row->limit_bytes_per_s.known && !row->bandwidth_bytes_per_s.known
					 ? value_absent(row->bandwidth_bytes_per_s.reason)
					 : row->limit_bytes_per_s;
		if (row->limit_pct.known)
			row->limit_pct = value_of(100 * row->bandwidth_bytes_per_s.v / limit);
	}
}
