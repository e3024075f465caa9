/* SPDX-License-Identifier: Apache-2.0
 *
 * How near the program comes to what its device can do. Pure, any thread.
 *
 * peaks  measured on this kind of machine (doctor --calibrate), else the vendor's data sheet
 * MFU    FLOPs of the model / (time of the steps * peak of the data type), over finished, recorded
 *        steps; if operations were recorded in a sample of them, those with FLOPs; of several processes:
 *        all FLOPs over the sum of time * peak
 * rows   on devices the kernel classes, with the FLOPs and bytes of the operations that launched
 *        them (an operation's are shared among its kernels by their time); without device records
 *        the operations, by the time of their threads
 * roof   min(peak, FLOPs per byte * memory rate): the most that work of this intensity can reach
 */
#ifndef SUBJECTS_EFFICIENCY_H
#define SUBJECTS_EFFICIENCY_H

#include "device/sheets/peaks.h"
#include "subjects/numbers/value.h"
#include "subjects/ops/ops.h"
#include "subjects/routing/routing.h"
#include "subjects/shared/selection.h"

enum gpm_metric { GPM_SM, GPM_OCCUPANCY, GPM_TENSOR, GPM_DRAM, GPM_METRICS };

const char *gpm_metric_key(enum gpm_metric metric); /* "sm_active_pct" … */

struct efficiency_device {
	uint16_t shard;
	uint32_t rank, device; /* device of a processor: 0 */
	bool cpu;
	const char *name; /* of the run or static */
	struct peaks peaks;
	const char *source; /* static; NULL: no peaks are known, and why not */
	const char *reason;
	bool calibrated;
	struct value peak_flops_per_s; /* of the data type */
	struct value memory_bytes_per_s;
	struct value gpm[GPM_METRICS]; /* hardware counters, mean over the run */
	struct value dram_bytes_per_s; /* est.: dram share * memory rate */
};

struct efficiency_row {
	char *name; /* owned: a kernel class, or an operation */
	uint64_t count;
	int64_t time_ns;	  /* of the device, or of threads */
	struct value covered_pct; /* of that time: belongs to operations that told FLOPs */
	struct value flops, bytes;
	struct value flops_per_s, bytes_per_s, flops_per_byte; /* over the covered time */
	struct value roof_flops_per_s, roof_pct;
	const char *bound; /* "compute" or "memory": which part of the roof; NULL: not known */
};

/* Of the rows with FLOPs and bytes. */
struct roofline_point {
	const char *name; /* of its row */
	double flops_per_byte, flops_per_s;
	int64_t time_ns;
};

struct efficiency {
	bool on_device;
	struct efficiency_device *devices; /* that the run used; by process, then device */
	size_t n_devices;
	struct value dtype;	     /* v: enum peak_dtype */
	const char *dtype_source;    /* when known */
	struct efficiency_row *rows; /* by time, largest first */
	size_t n;
	struct roofline_point *points;
	size_t n_points;
	/* Of the first device, for the lines of a roofline; per thread where on_device is false. */
	struct value roof_flops_per_s, roof_bytes_per_s;
	struct value model_flops, model_flops_per_s, mfu_pct;
	const char *flops_source; /* when model_flops is known */
	size_t steps;		  /* over which; of all processes */
	int64_t step_time_ns;	  /* their sum */
};

struct efficiency_options {
	const struct peaks_file *peaks;	      /* NULL: none were measured */
	const struct kernel_classes *classes; /* NULL: the built-in ones */
};

/* ops by name, routing: of the same run and selection. */
int efficiency_analyze(const struct run *run, const struct selection *sel,
		       const struct efficiency_options *options, const struct ops *ops,
		       const struct routing *routing, struct efficiency *ret_efficiency);
/* Whether any of the rows has FLOPs or bytes for a part of its time. */
bool efficiency_is_told(const struct efficiency *efficiency);
void efficiency_release(struct efficiency *efficiency);

/* The peaks of a device of a process: of the file, else of a data sheet. */
struct efficiency_device efficiency_device_of(const struct run *run, const struct peaks_file *peaks,
					      uint16_t shard, uint32_t device);

/* For efficiency.c: the parts of it. */
int efficiency_devices_fill(const struct run *run, const struct peaks_file *peaks,
			    struct efficiency *efficiency);
int efficiency_dtype_find(const struct run *run, const struct kernel_classes *classes,
			  struct efficiency *efficiency);
int efficiency_rows_fill(const struct run *run, const struct selection *sel,
			 const struct kernel_classes *classes, const struct ops *ops,
			 struct efficiency *efficiency);

/* Its fields; see efficiency_fields.c. */
struct field_set;
extern const struct field_set efficiency_fields, efficiency_total;

#endif
