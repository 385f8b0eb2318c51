/* SPDX-License-Identifier: Apache-2.0
 * generate.c: "randn(2,3)", "zeros(2,3)" and "ones(2,3)" become tensors. The
 * random numbers are the tool's own, the same on every machine for one --seed,
 * and have nothing to do with the streams of operators.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

static const char *const names[] = {"randn", "zeros", "ones"};
enum { KIND_RANDN, KIND_ZEROS, KIND_ONES, N_KINDS };

bool generate_matches(const char *source) {
  size_t n = 0;
  while (isalpha((unsigned char)source[n])) ++n;
  return n > 0 && source[n] == '(';
}

/* SplitMix64: every state gives a good 64-bit number. */
uint64_t generate_bits(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Uniform in (0, 1]: never 0, of which there is no logarithm. */
static double next_uniform(uint64_t *state) {
  return ldexp((double)((generate_bits(state) >> 11) + 1), -53);
}

/* Box and Muller's method; the second of each pair is not used. */
static double next_normal(uint64_t *state) {
  const double two_pi = 6.283185307179586;
  double radius = sqrt(-2 * log(next_uniform(state)));
  return radius * cos(two_pi * next_uniform(state));
}

static void fill_ones(tensor *t) {
  unsigned char one[8] = {1}; /* every integer 1 */
  if (dtype_has_fractions(t->dtype)) element_set(t->dtype, 1, one);
  for (size_t i = 0; i < t->n; ++i) tensor_set(t, i, one);
}

static void fill_tensor(tensor *t, int kind, uint64_t *state) {
  unsigned char element[8] = {0};
  if (kind == KIND_ONES) fill_ones(t);
  if (kind != KIND_RANDN) return;
  for (size_t i = 0; i < t->n; ++i) {
    element_set(t->dtype, next_normal(state), element);
    tensor_set(t, i, element);
  }
}

static bool parse_kind(const char *source, const char *open, int *kind,
                       text *why) {
  size_t n = (size_t)(open - source);
  for (*kind = 0; *kind < N_KINDS; ++*kind)
    if (strlen(names[*kind]) == n && !strncmp(names[*kind], source, n))
      return true;
  return fail_at(why, source, source,
                 "unknown generator; there are randn, zeros and ones");
}

static bool parse_dim(const char *source, const char **at, int64_t *dim,
                      text *why) {
  char *end = NULL;
  while (**at == ' ') ++*at;
  if (!isdigit((unsigned char)**at))
    return fail_at(why, source, *at, "expected a dimension, such as 3");
  errno = 0;
  *dim = strtoll(*at, &end, 10);
  if (errno) return fail_at(why, source, *at, "this dimension is too large");
  for (*at = end; **at == ' ';) ++*at;
  return true;
}

/* Dimensions from after the opening parenthesis to the end. */
static bool parse_shape(const char *source, const char *at, tensor *out,
                        text *why) {
  while (*at == ' ') ++at;
  while (*at != ')') {
    if (out->ndim == TN_MAX_NDIM)
      return fail_at(why, source, at, "an array has at most %d dimensions",
                     TN_MAX_NDIM);
    if (!parse_dim(source, &at, &out->shape[out->ndim], why)) return false;
    ++out->ndim;
    if (*at == ',') {
      ++at;
    } else if (*at != ')') {
      return fail_at(why, source, at, "expected `,` or `)`");
    }
  }
  if (at[1]) return fail_at(why, source, at + 1, "nothing may follow `)`");
  return true;
}

bool generate_parse(const char *source, const input_options *options,
                    tensor *out, text *why) {
  int kind = 0;
  const char *open = strchr(source, '(');
  *out = (tensor){.dtype = options->dtype};
  if (!parse_kind(source, open, &kind, why)) return false;
  if (!parse_shape(source, open + 1, out, why)) return false;
  const bool fits = dtype_has_fractions(out->dtype) && out->dtype != TN_F8E8M0;
  if (kind == KIND_RANDN && !fits)
    return report_failure(
        why,
        "randn makes fractions, which %s cannot hold; use --dtype "
        "f32, or zeros or ones",
        dtype_name(out->dtype));
  if (!tensor_alloc(out, why)) return false;
  fill_tensor(out, kind, options->state);
  return true;
}
