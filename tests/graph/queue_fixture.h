/* SPDX-License-Identifier: Apache-2.0
 * queue_fixture.h: programs on simulated devices with queues (fake.h). These
 * compute late, in an order of their own among queues, and notice accesses
 * without a wait. The kernels are those of lab.keep: out = x y and slope = y,
 * and the gradient.
 */
#ifndef TENON_TESTS_QUEUE_FIXTURE_H_
#define TENON_TESTS_QUEUE_FIXTURE_H_

#include "evaluate.h"
#include "fake.h"
#include "program.h"

enum { N = 6, N_NAMES = 5, LONG = 40 };
enum { OTHER = 99 }; /* a second device type */

extern fake *f;
extern tn_program *p;
extern const tn_plugin guest; /* kernels of the devices */
extern const tn_group groups[2];
extern const char *const names[N_NAMES];

void open_with(const fake_options *options, uint32_t workers);
void close_all(void);
void setup_devices(void);
tn_entry keep_of(tn_entry x, const char *with, const char *name,
                 const char *group);
/* d c b a x, from device to device. */
void build_net(void);
void bind_net(tn_req request);
/* Values with exact products. */
double value_at(int what, int run, int i);
void put_values(tn_array *array, int what, int run);
void arguments_put(int run);
/* Asserts the product of all arguments but `without`, and of the output
 * gradient. */
void are_products(const double *have, int run, int without, bool weighted);
void is_product(tn_array *array, int run, int without, bool weighted);
void is_right(int run);
void run_all(int runs);
/* x a a a ..., `n` calls in `group`. */
tn_entry long_of(tn_entry x, tn_entry a, int n, const char *group);
/* Launches so far. A step of a program that was not run counts as none. */
int64_t count_launches(void);

#endif /* TENON_TESTS_QUEUE_FIXTURE_H_ */
