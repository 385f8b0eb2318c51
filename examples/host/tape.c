/* SPDX-License-Identifier: Apache-2.0
 * Gradients of calls that a tape recorded, of the first and second order.
 */
#include <stdio.h>
#include <tenon/tenon.h>

typedef struct lesson {
  tn_runtime *rt;
  tn_tape *tape;
  tn_operator *mul;
  tn_array *x; /* watched */
} lesson;

/* result = product of two arrays, recorded. */
static tn_code times(lesson *l, tn_array *a, tn_array *b, tn_array **result) {
  return tn_tape_call(l->tape, l->mul, TN_IN(a, b), NULL, TN_OUT(result));
}

/* Gradient of the sum of `head` with respect to x. */
static tn_code slope(lesson *l, tn_array *head, uint32_t flags, tn_req req,
                     tn_array **to) {
  const tn_tape_query query = {.struct_size = sizeof query,
                               .flags = flags,
                               .heads = *TN_IN(head),
                               .of = *TN_IN(l->x),
                               .gradients = {1, to, &req}};
  return tn_tape_gradient(l->tape, &query);
}

static tn_code show(const char *what, tn_array *array) {
  float v[2];
  tn_code rc = tn_array_get(array, v, sizeof v);
  if (!rc) printf("%-15s %g %g\n", what, v[0], v[1]);
  return rc;
}

static tn_code first_order(lesson *l) {
  tn_array *y = NULL, *fixed = NULL, *z = NULL, *dx = NULL;
  tn_code rc = times(l, l->x, l->x, &y);
  if (!rc) rc = slope(l, y, TN_TAPE_KEEP, TN_REQ_WRITE, &dx);
  if (!rc) rc = show("d x^2", dx);
  if (!rc) rc = slope(l, y, TN_TAPE_KEEP, TN_REQ_ADD, &dx);
  if (!rc) rc = show("twice, added", dx);
  if (!rc) rc = tn_tape_detach(l->tape, y, &fixed);
  if (!rc) rc = times(l, fixed, l->x, &z);
  if (!rc) rc = slope(l, z, 0, TN_REQ_WRITE, &dx);
  if (!rc) rc = show("y held fixed", dx);
  tn_array_release(y), tn_array_release(fixed), tn_array_release(z);
  tn_array_release(dx);
  return rc;
}

static tn_code second_order(lesson *l) {
  tn_array *y = NULL, *z = NULL, *dx = NULL, *ddx = NULL;
  tn_code rc = times(l, l->x, l->x, &y);
  if (!rc) rc = times(l, y, l->x, &z);
  if (!rc) rc = slope(l, z, TN_TAPE_RECORD, TN_REQ_WRITE, &dx);
  if (!rc) rc = show("d x^3", dx);
  if (!rc) rc = slope(l, dx, 0, TN_REQ_WRITE, &ddx);
  if (!rc) rc = show("dd x^3", ddx);
  tn_array_release(y), tn_array_release(z);
  tn_array_release(dx), tn_array_release(ddx);
  return rc;
}

int main(void) {
  const float values[] = {1, 2};
  const int64_t shape[] = {2};
  lesson l = {NULL, NULL, NULL, NULL};
  tn_code rc = tn_runtime_create(NULL, &l.rt);
  if (!rc) rc = tn_plugins_load_standard(l.rt);
  if (!rc) rc = tn_operator_get(l.rt, "elemwise.mul", &l.mul);
  if (!rc) rc = tn_array_create(l.rt, &(tn_spec){TN_F32, 1, shape}, &l.x);
  if (!rc) rc = tn_array_set(l.x, values, sizeof values);
  if (!rc) rc = tn_tape_create(l.rt, &l.tape);
  if (!rc) rc = tn_tape_watch(l.tape, l.x);
  if (!rc) rc = first_order(&l);
  if (!rc) rc = second_order(&l);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_tape_release(l.tape);
  tn_array_release(l.x);
  tn_runtime_release(l.rt);
  return rc ? 1 : 0;
}
