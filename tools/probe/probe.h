/* SPDX-License-Identifier: Apache-2.0
 * probe.h: tenon-probe, the program that libtenon starts to find out whether
 * the functions that a manifest binds can be called. It is an ordinary host
 * that uses the public functions. Beyond these it uses only the examples, from
 * the reader of manifests.
 *
 * files: main.c the manifest, the operators, the messages
 *        example.c  one example: arrays, call, comparison
 */
#ifndef TENON_PROBE_H_
#define TENON_PROBE_H_

#include "module.h"

/* Runs one example of an operator. TN_OK, or the reason as the thread's error
 * text or, for a wrong result, in `why`, which is "" otherwise. */
typedef struct probe_case {
  tn_runtime *rt;
  tn_operator *op;
  const tn_op *desc;
  const tnm_example *example;
  char why[512];
} probe_case;

tn_code probe_example(probe_case *c);

#endif /* TENON_PROBE_H_ */
