/* SPDX-License-Identifier: Apache-2.0
 * capture.h: small programs on the simulated GPU for the tests of captured
 * programs, and checks whether a part of a program is captured. Each function
 * fails the test if the library reports an error.
 */
#ifndef TENON_TESTS_CUDA_CAPTURE_H_
#define TENON_TESTS_CUDA_CAPTURE_H_

#include "fixture.h"
#include "tenon/graph.h"

/* Numbers between -0.5 and 0.5 that depend on their position. */
void fill_values(float *to, int64_t n, uint32_t what);
/* An array of f32 with undefined content. */
tn_array *create_array(const char *place, int32_t ndim, const int64_t *shape);
/* Sets all elements by fill_values. */
void put_values(tn_array *array, uint32_t what);
/* Adds a variable of f32 to the graph. */
tn_entry add_variable(tn_graph *g, const char *name, int32_t ndim, int64_t rows,
                      int64_t columns);
/* Why the part is not captured, until the next call; NULL: it is. */
const char *read_reason(tn_program *p, uint32_t part);
/* Fails the test unless the part is captured. */
void expect_captured(tn_program *p, uint32_t part);
/* Fails the test unless the part has a reason with `text`. */
void expect_uncaptured(tn_program *p, uint32_t part, const char *text);
/* Fails the test unless the text of the program has `line`. */
void expect_line(tn_program *p, const char *line);
/* y = tanh(a*b) + a, with gradients that are added up. */
tn_graph *build_curve(void);
/* A borrowed array of the program. */
tn_array *find_array(tn_program *p, uint32_t what, const char *name);
/* Runs both parts with arguments that depend on `run`. */
void run_curve(tn_program *p, uint32_t run, tn_array *weight);
/* Binds a graph on cuda(0) and releases the graph. */
tn_program *bind_graph(tn_graph *g, uint32_t flags);
/* Binds a graph that applies `ops` to 24 elements, one after the other. */
tn_program *bind_chain(const char *const *ops, uint32_t n, uint32_t flags);
/* As fixture_open_all with two devices, with the plugin of trial/. */
void open_trial(uint64_t seed);
/* Three runs, all of which compute tanh(x), or apply `ops` to x. */
tn_program *run_thrice(const char *const *ops, uint32_t n);

#endif /* TENON_TESTS_CUDA_CAPTURE_H_ */
