/* SPDX-License-Identifier: Apache-2.0
 * net.h: functions to build graphs of the operators of `lab`, and to query
 * them. They assert every step that must succeed.
 */
#ifndef TESTS_GRAPH_NET_H_
#define TESTS_GRAPH_NET_H_

#include <criterion/criterion.h>

#include "fixture.h"
#include "gradient.h"
#include "json.h"
#include "passes.h"
#include "program_bind.h"

#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, tn_error_text())
/* Fails with this code, and the text contains each of the parts. */
#define FAILS(call, code, ...)                                               \
  do {                                                                       \
    const tn_code got = (call);                                              \
    cr_assert_eq(got, (code), "%s: %s", tn_code_name(got), tn_error_text()); \
    EXPECT_TEXT(__VA_ARGS__);                                                \
  } while (0)

/* The graph of a test. */
extern tn_graph *g;
/* Opens a world with the plugin `lab` and an empty graph, optionally with a
 * number of workers; makes another empty graph; closes both. */
void net_open(void);
void net_open_with(const tn__engine_options *options);
void net_open_on(uint32_t workers);
void net_renew(void);
void net_close(void);

tn_graph *net_new(void);
tn_entry var_node(tn_graph *graph,
                  const char *name); /* unknown shape and type */
tn_entry typed_var(tn_graph *graph, const char *name, tn_sig known);
/* A call of "lab.<op>"; `name` and `params` may be NULL. Its first output. */
tn_entry op_n(tn_graph *graph, const char *op, const char *params,
              const char *name, size_t n, const tn_entry *in);
#define OP(g, op, params, name, ...)                         \
  op_n((g), (op), (params), (name),                          \
       sizeof((tn_entry[]){__VA_ARGS__}) / sizeof(tn_entry), \
       (const tn_entry[]){__VA_ARGS__})
tn_entry output_of(tn_entry first, uint32_t index);
#define HEADS(g, ...)                       \
  OK(tn__graph_heads_set(                   \
      (g), (const tn_entry[]){__VA_ARGS__}, \
      sizeof((tn_entry[]){__VA_ARGS__}) / sizeof(tn_entry)))

/* Signatures; -1 is an unknown dimension. */
tn_sig sig_of(tn_dtype dtype, size_t ndim, const int64_t *shape);
#define SIG(dtype, ...)                                               \
  sig_of((dtype), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
         (const int64_t[]){__VA_ARGS__})
#define F64(...) SIG(TN_F64, __VA_ARGS__)
#define F32(...) SIG(TN_F32, __VA_ARGS__)
#define UNTYPED(...) SIG(TN_DTYPE_UNKNOWN, __VA_ARGS__)
#define SCALAR(dtype) sig_of((dtype), 0, NULL)

/* Asserts the result of the last inference. */
void is_sig(const tn_graph *graph, tn_entry entry, tn_sig want);

#endif /* TESTS_GRAPH_NET_H_ */
