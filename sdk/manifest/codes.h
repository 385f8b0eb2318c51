/* SPDX-License-Identifier: Apache-2.0
 * codes.h: the parts of the explanation of a code. For codes*.c only.
 */
#ifndef TENON_MANIFEST_CODES_H_
#define TENON_MANIFEST_CODES_H_

/* One code. `text` is all that `opgen explain` prints. */
typedef struct tnm_code {
  const char *code;
  const char *text;
} tnm_code;

/* Makes a table entry: the rule and its reason, a wrong example and a right
 * example. */
#define TNM_CODE(code, title, why, wrong, right)            \
  {                                                         \
    code, code ": " title "\n\n" why "\n\nwrong:\n\n" wrong \
               "\n\nright:\n\n" right "\n"                  \
  }

/* Tables of messages, each in ascending order of codes. An entry with code NULL
 * ends each table. */
extern const tnm_code tnm_codes_form[];        /* E0001 to E0029 */
extern const tnm_code tnm_codes_expressions[]; /* E0030 to E0049 */
extern const tnm_code tnm_codes_rules[];       /* E0051 to E0079 */
extern const tnm_code tnm_codes_lints[];       /* E0080 and on, W0101 and on */
extern const tnm_code tnm_codes_built[];       /* E0201 and on */

#endif /* TENON_MANIFEST_CODES_H_ */
