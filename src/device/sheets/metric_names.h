/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of NVIDIA's hardware metrics that one part of moescope chooses and another understands. Pure, any thread.
 */
#ifndef DEVICE_METRIC_NAMES_H
#define DEVICE_METRIC_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#define TIME_METRIC "gpu__time_duration.sum"

/* Bytes of the device's memory: dram__bytes.sum, dram__bytes_read.sum; chips of GB20x say dram__bytes_op_read.sum. */
#define DRAM_METRIC "dram__bytes"
enum dram_way { DRAM_NO_BYTES, DRAM_BOTH_WAYS, DRAM_READ, DRAM_WRITE };
enum dram_way dram_metric_way(const char *name);

/* Operations of the tensor cores are counted by source, as sm__ops_path_tensor_src_fp16.sum, and also by source and
 * target, kind of instruction or sparsity: src_fp16 covers src_fp16_dst_fp32, op_hgmma_src_fp16 and
 * src_fp16_sparsity_off. */
#define TENSOR_METRIC "sm__ops_path_tensor_"
bool is_tensor_metric(const char *name);
bool tensor_metric_covers(const char *name, const char *part);
/* What its operations read, such as fp16_dst_fp32.sum; NULL: it is not told. */
const char *tensor_metric_source(const char *name);

#endif
