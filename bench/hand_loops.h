/* SPDX-License-Identifier: Apache-2.0
 * The loops of hand.c, for vectors that it names before it includes this file,
 * once for each kind: VECTOR, WIDTH, TARGET, NAMED(name), V(intrinsic),
 * V_ROUND, V_SCALE, V_SIGN_OF, V_EVEN, and loads and stores of narrow types.
 */

#define HERE static inline __attribute__((target(TARGET), always_inline))
#define LOOP static __attribute__((target(TARGET)))

HERE VECTOR NAMED(all)(float x) {
  return V(set1_ps)(x);
}

/* 2^k * e^r with k whole and r small. */
HERE VECTOR NAMED(exp_of)(VECTOR x) {
  static const float terms[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6,
                                0.5f,       1,          1};
  x = V(min_ps)(V(max_ps)(x, NAMED(all)(-87)), NAMED(all)(88));
  const VECTOR k = V_ROUND(V(mul_ps)(x, NAMED(all)(1.44269504f)));
  VECTOR r = V(fnmadd_ps)(k, NAMED(all)(0.693359375f), x);
  r = V(fnmadd_ps)(k, NAMED(all)(-2.12194440e-4f), r);
  VECTOR sum = NAMED(all)(terms[0]);
  for (int i = 1; i < 7; ++i) sum = V(fmadd_ps)(sum, r, NAMED(all)(terms[i]));
  return V_SCALE(sum, k);
}

HERE VECTOR NAMED(sigmoid_of)(VECTOR x) {
  const VECTOR one = NAMED(all)(1);
  const VECTOR e = NAMED(exp_of)(V(sub_ps)(V(setzero_ps)(), x));
  return V(div_ps)(one, V(add_ps)(one, e));
}

HERE VECTOR NAMED(tanh_of)(VECTOR x) {
  const VECTOR twice = V(add_ps)(x, x), s = NAMED(sigmoid_of)(twice);
  return V(fmsub_ps)(NAMED(all)(2), s, NAMED(all)(1));
}

/* The error function by 7.1.26 of Abramowitz and Stegun. */
HERE VECTOR NAMED(gelu_of)(VECTOR x) {
  static const float terms[] = {1.061405429f,  -1.453152027f, 1.421413741f,
                                -0.284496736f, 0.254829592f,  0};
  const VECTOR one = NAMED(all)(1), none = V(setzero_ps)();
  const VECTOR z = V(mul_ps)(x, NAMED(all)(0.70710678f));
  const VECTOR size = V(max_ps)(z, V(sub_ps)(none, z));
  const VECTOR t =
      V(div_ps)(one, V(fmadd_ps)(NAMED(all)(0.3275911f), size, one));
  VECTOR sum = NAMED(all)(terms[0]);
  for (int i = 1; i < 6; ++i) sum = V(fmadd_ps)(sum, t, NAMED(all)(terms[i]));
  const VECTOR e = NAMED(exp_of)(V(sub_ps)(none, V(mul_ps)(z, z)));
  const VECTOR erf = V_SIGN_OF(V(fnmadd_ps)(sum, e, one), x);
  const VECTOR half = V(mul_ps)(x, NAMED(all)(0.5f));
  return V(fmadd_ps)(half, erf, half);
}

HERE VECTOR NAMED(quadratic_of)(VECTOR x) {
  const VECTOR slope = V(fmadd_ps)(x, NAMED(all)(HAND_A), NAMED(all)(HAND_B));
  return V(fmadd_ps)(slope, x, NAMED(all)(HAND_C));
}

/* x and y are vectors of a and b. */
#define ONE(name, value)                        \
  LOOP void NAMED(name)(const hand_work *w) {   \
    const float *a = w->a;                      \
    float *out = w->out;                        \
    for (int64_t i = 0; i < w->n; i += WIDTH) { \
      const VECTOR x = V(loadu_ps)(a + i);      \
      V(storeu_ps)(out + i, value);             \
    }                                           \
  }
#define TWO(name, value)                        \
  LOOP void NAMED(name)(const hand_work *w) {   \
    const float *a = w->a, *b = w->b;           \
    float *out = w->out;                        \
    for (int64_t i = 0; i < w->n; i += WIDTH) { \
      const VECTOR x = V(loadu_ps)(a + i);      \
      const VECTOR y = V(loadu_ps)(b + i);      \
      V(storeu_ps)(out + i, value);             \
    }                                           \
  }

TWO(add, V(add_ps)(x, y))
TWO(mul, V(mul_ps)(x, y))
TWO(axpy, V(fmadd_ps)(x, NAMED(all)(HAND_A), y))
ONE(quadratic, NAMED(quadratic_of)(x))
ONE(relu, V(max_ps)(x, V(setzero_ps)()))
ONE(sigmoid, NAMED(sigmoid_of)(x))
ONE(tanh, NAMED(tanh_of)(x))
ONE(exp, NAMED(exp_of)(x))
ONE(gelu, NAMED(gelu_of)(x))
ONE(chain, NAMED(sigmoid_of)(NAMED(quadratic_of)(x)))

LOOP void NAMED(add_f64)(const hand_work *w) {
  const double *a = w->a, *b = w->b;
  double *out = w->out;
  for (int64_t i = 0; i < w->n; i += WIDTH / 2)
    V(storeu_pd)(out + i, V(add_pd)(V(loadu_pd)(a + i), V(loadu_pd)(b + i)));
}

#define HALVES(name, load, store)                          \
  LOOP void NAMED(name)(const hand_work *w) {              \
    const uint16_t *a = w->a, *b = w->b;                   \
    uint16_t *out = w->out;                                \
    for (int64_t i = 0; i < w->n; i += WIDTH)              \
      store(out + i, V(add_ps)(load(a + i), load(b + i))); \
  }
HALVES(add_f16, V_LOAD_F16, V_STORE_F16)
HALVES(add_bf16, V_LOAD_BF16, V_STORE_BF16)

LOOP void NAMED(add_row)(const hand_work *w) {
  const float *b = w->b;
  for (int64_t row = 0; row < w->n; row += w->columns) {
    const float *a = (const float *)w->a + row;
    float *out = (float *)w->out + row;
    for (int64_t i = 0; i < w->columns; i += WIDTH)
      V(storeu_ps)(out + i, V(add_ps)(V(loadu_ps)(a + i), V(loadu_ps)(b + i)));
  }
}

LOOP void NAMED(add_column)(const hand_work *w) {
  const float *b = w->b;
  for (int64_t row = 0; row < w->n; row += w->columns) {
    const float *a = (const float *)w->a + row;
    float *out = (float *)w->out + row;
    const VECTOR y = NAMED(all)(*b++);
    for (int64_t i = 0; i < w->columns; i += WIDTH)
      V(storeu_ps)(out + i, V(add_ps)(V(loadu_ps)(a + i), y));
  }
}

LOOP void NAMED(add_strided)(const hand_work *w) {
  const float *a = w->a, *b = w->b;
  float *out = w->out;
  for (int64_t i = 0; i < w->n; i += WIDTH) {
    const VECTOR low = V(loadu_ps)(a + 2 * i);
    const VECTOR high = V(loadu_ps)(a + 2 * i + WIDTH);
    V(storeu_ps)(out + i, V(add_ps)(V_EVEN(low, high), V(loadu_ps)(b + i)));
  }
}

static const hand_loop NAMED(loops)[] = {
    {"add", NAMED(add)},
    {"mul", NAMED(mul)},
    {"axpy", NAMED(axpy)},
    {"quadratic", NAMED(quadratic)},
    {"relu", NAMED(relu)},
    {"sigmoid", NAMED(sigmoid)},
    {"tanh", NAMED(tanh)},
    {"exp", NAMED(exp)},
    {"gelu", NAMED(gelu)},
    {"chain", NAMED(chain)},
    {"add_row", NAMED(add_row)},
    {"add_column", NAMED(add_column)},
    {"add_strided", NAMED(add_strided)},
    {"add_f64", NAMED(add_f64)},
    {"add_f16", NAMED(add_f16)},
    {"add_bf16", NAMED(add_bf16)},
};

#undef HERE
#undef LOOP
#undef ONE
#undef TWO
#undef HALVES
#undef VECTOR
#undef WIDTH
#undef TARGET
#undef NAMED
#undef V
#undef V_ROUND
#undef V_SCALE
#undef V_SIGN_OF
#undef V_EVEN
#undef V_LOAD_F16
#undef V_STORE_F16
#undef V_LOAD_BF16
#undef V_STORE_BF16
