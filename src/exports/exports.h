/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs as files of other viewers. One thread at a time per run.
 */
#ifndef EXPORTS_EXPORTS_H
#define EXPORTS_EXPORTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "tables/tables.h"

/* Chrome trace JSON in the form of PyTorch's profiler. Needs every kind of record. */
int export_chrome(const struct run *run, FILE *out, struct err *err);
/* Compressed; -ENOTSUP where export_chrome_packs says no. */
int export_chrome_gzip(const struct run *run, FILE *out, struct err *err);
/* The processes of one rank alone. */
int export_chrome_rank(const struct run *run, uint32_t rank, bool gzip, FILE *out, struct err *err);
bool export_chrome_packs(void);
/* A Perfetto trace (protobuf), for ui.perfetto.dev and Perfetto's tools. Likewise. */
int export_perfetto(const struct run *run, FILE *out, struct err *err);
/* Folded stacks, for flame graphs: device time under the stacks that launched it, and the time of
 * the host itself. Likewise. */
int export_folded(const struct run *run, FILE *out, struct err *err);
int export_folded_host(const struct run *run, FILE *out, struct err *err);
int export_folded_heap(const struct run *run, FILE *out, struct err *err);
/* The same stacks as a tree in JSON (docs/serve.md), the small ones added up; a run with at least what it
 * wants. */
struct run_want export_flame_want(bool device);
int export_flame(const struct run *run, bool device, FILE *out, struct err *err);
/* Profiles of threads and streams for speedscope, and of threads that were looked at from outside. Likewise. */
int export_speedscope(const struct run *run, FILE *out, struct err *err);
int export_speedscope_host(const struct run *run, FILE *out, struct err *err);
/* Folded stacks for pprof, likewise of the device and of the host; the latter also with the time that threads
 * waited. */
int export_pprof(const struct run *run, FILE *out, struct err *err);
int export_pprof_host(const struct run *run, FILE *out, struct err *err);

#endif
