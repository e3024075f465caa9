/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of copies and sets.
 */
#ifndef SUBJECTS_TRANSFERS_FIELDS_H
#define SUBJECTS_TRANSFERS_FIELDS_H

#include "subjects/shared/fields.h"
#include "subjects/transfers/transfers.h"

extern const struct field_set transfers_fields, transfers_total; /* of struct transfers */

#endif
