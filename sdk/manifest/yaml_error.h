/* SPDX-License-Identifier: Apache-2.0
 * yaml_error.h: rewrites the messages of libyaml. For tree.c only.
 */
#ifndef TENON_MANIFEST_YAML_ERROR_H_
#define TENON_MANIFEST_YAML_ERROR_H_

#include <yaml.h>

#include "front.h"

/* Reports why the parser stopped. */
void tnm_report_yaml_error(tnm_diags *diags, uint32_t file,
                           const yaml_parser_t *parser);

#endif /* TENON_MANIFEST_YAML_ERROR_H_ */
