/* SPDX-License-Identifier: Apache-2.0
 *
 * The importers, one a format; each is a line here and a line in ingest.c.
 */
#ifndef INGEST_IMPORTERS_H
#define INGEST_IMPORTERS_H

#include "ingest/ingest.h"

extern const struct importer kineto_importer;
extern const struct importer ncu_importer;
extern const struct importer nsight_importer;
extern const struct importer smi_importer;
extern const struct importer torch_memory_importer;

#endif
