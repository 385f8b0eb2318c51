/* SPDX-License-Identifier: Apache-2.0
 * fixture.h: a runtime with plugins/cuda on a fake driver, for tests.
 */
#ifndef TENON_TESTS_CUDA_FIXTURE_H_
#define TENON_TESTS_CUDA_FIXTURE_H_

#include <criterion/criterion.h>
#include <stdbool.h>

#include "fake_cuda.h"
#include "tenon/graph.h"

/* Fails the test with the library's own text unless `call` returns TN_OK. */
#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, tn_error_text())

/* Fails the test unless `call` returns `code` and its text has `part`. */
#define FAILS(call, code, part)                                          \
  do {                                                                   \
    cr_assert_eq((call), (code), "%s: %s", #call, tn_error_text());      \
    cr_assert_not_null(strstr(tn_error_text(), (part)), "%s lacks `%s`", \
                       tn_error_text(), (part));                         \
  } while (0)

extern tn_runtime *fixture;
/* Of a device that is lost nothing can be given back. */
extern bool fixture_is_broken;

/* Starts a driver and a runtime with plugins/cuda. */
void fixture_open(const fake_cuda_options *options);
/* The same with a limit of the runtime's own on cuda(0). */
void fixture_open_within(const fake_cuda_options *options, uint64_t bytes);
/* As fixture_open, with elemwise and its companion. */
void fixture_open_all(const fake_cuda_options *options);
/* Ends both; the test fails if a rule was broken or something is left. Does
 * nothing without a runtime. */
void fixture_close(void);
void fixture_init(void);

tn_place fixture_place(const char *text);
/* An array of n f32. */
tn_array *fixture_array(const char *place, int64_t n);

/* The first output of a call that is added to a graph. */
static inline tn_entry fixture_call(tn_graph *g, const char *op,
                                    const char *params, const char *name,
                                    uint32_t n, const tn_entry *in) {
  tn_entry out;
  OK(tn_graph_call(g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = op,
                                    .params = params,
                                    .name = name,
                                    .n_in = n,
                                    .in = in},
                   &out));
  return out;
}

#endif /* TENON_TESTS_CUDA_FIXTURE_H_ */
