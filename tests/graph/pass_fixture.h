/* SPDX-License-Identifier: Apache-2.0
 * pass_fixture.h: graphs that passes of the plugin tests/graph/passes rewrite,
 * and programs of them. Everything that must succeed is asserted.
 */
#ifndef TENON_TESTS_PASS_FIXTURE_H_
#define TENON_TESTS_PASS_FIXTURE_H_

#include "net.h"

#define NAMES(...)                    \
  (const char *const[]){__VA_ARGS__}, \
      sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)
#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define THREE(...) ((const float[3]){__VA_ARGS__})

/* A program of the graph of simple_net, and its arguments. */
typedef struct run {
  tn_array *x;
  tn_array *v;
  tn_program *p;
} run;

void open_all(void);
/* The nodes of a graph, with the operators of calls, and its heads. */
const char *list_nodes(const tn_graph *graph);
char *json_of(const tn_graph *graph);
/* The graph after these passes; `g` must stay unchanged. */
tn_graph *apply_passes(const char *const *names, size_t n);
void expect_refused(const char *const *names, size_t n, tn_code code,
                    const char *const *parts);
/* s = same(x*x) + v */
void simple_net(void);
/* The same with known shapes. */
void known_net(void);
/* h' = (h x + k) (h x + k), over x; collected: h x. */
void loop_net(void);
tn_code run_open_as(run *r, tn_req request, const char *const *names, size_t n);
tn_code run_open(run *r, const char *const *names, size_t n);
void run_close(run *r);
void run_train(tn_program *p);
void expect_values(const run *r, const float *head, const float *slope);
bool has_step(const tn_program *p, const char *part);

#endif /* TENON_TESTS_PASS_FIXTURE_H_ */
