/* SPDX-License-Identifier: Apache-2.0
 * wide_pieces.h: part of wide.h: functions of sixteen floats with a polynomial
 * for each piece of a range. Tables have the coefficients.
 */
#include "tenon/kernel/math/wide.h" /* includes this file: before the guard */

#ifndef TENON_KERNEL_MATH_WIDE_PIECES_H_
#define TENON_KERNEL_MATH_WIDE_PIECES_H_

#if TN_KERNEL_HAS_WIDE

/* ------------------------------------------------------------------ pieces */

/* Functions of numbers a from 0 to 15, with a polynomial for each of sixteen
 * pieces. Pieces go by the exponent and two bits of a + 1. The first one, up to
 * a quarter, is counted from 0, the others from their middles: the first row of
 * a table; below it are the coefficients, the lowest one first. */
typedef float tn_wide_pieces[8][16] __attribute__((aligned(64)));

TN_WIDE_FN tn_wide tn_wide_piece(const tn_wide_pieces pieces, tn_wide a) {
  const __m512i at = _mm512_srli_epi32(tn_wide_bits(a + tn_wide_of(1.0f)), 21);
  const tn_wide r = a - tn_wide_look_up(pieces[0], at);
  tn_wide p = tn_wide_look_up(pieces[7], at);
  p = tn_wide_fma(p, r, tn_wide_look_up(pieces[6], at));
  p = tn_wide_fma(p, r, tn_wide_look_up(pieces[5], at));
  p = tn_wide_fma(p, r, tn_wide_look_up(pieces[4], at));
  p = tn_wide_fma(p, r, tn_wide_look_up(pieces[3], at));
  p = tn_wide_fma(p, r, tn_wide_look_up(pieces[2], at));
  return tn_wide_fma(p, r, tn_wide_look_up(pieces[1], at));
}

/* From 9 on it is 1. */
TN_WIDE_FN tn_wide tn_math_tanh_wide(tn_wide x) {
  static const tn_wide_pieces pieces = {
      {0x1.40015ep+0f, 0x1.bfec0ap+0f, 0x1.20093ep+1f, 0x1.600230p+1f,
       0x1.bff7dap+1f, 0x1.200cbep+2f, 0x1.6005f6p+2f, 0x1.9fef28p+2f,
       0x1.ffd440p+2f, 0x1.23p+3f, 0x0.0p+0f, 0x0.0p+0f, 0x0.0p+0f,
       0x1.7ff874p-2f, 0x1.400dacp-1f, 0x1.c010d8p-1f},
      {0x1.b25300p-1f, 0x1.e1f76ep-1f, 0x1.f4c172p-1f, 0x1.fbd52ep-1f,
       0x1.ff110ep-1f, 0x1.ffdfb4p-1f, 0x1.fffba0p-1f, 0x1.ffff68p-1f,
       0x1.fffff8p-1f, 1.0f, 0x0.0p+0f, 0x0.0p+0f, 0x0.0p+0f, 0x1.6eeeaap-2f,
       0x1.1bfdf6p-1f, 0x1.686ed0p-1f},
      {0x1.1f2270p-2f, 0x1.d27106p-4f, 0x1.63de42p-5f, 0x1.099ea8p-6f,
       0x1.dd771cp-9f, 0x1.02596ep-11f, 0x1.1800dcp-14f, 0x1.3001b4p-17f,
       0x1.e5f536p-22f, 0.0f, 0x0.0p+0f, 0x0.0p+0f, 0x1.000000p+0f,
       0x1.be4216p-1f, 0x1.627a44p-1f, 0x1.024414p-1f},
      {-0x1.e7258ep-3f, -0x1.b714a8p-4f, -0x1.5c0d84p-5f, -0x1.07753ap-6f,
       -0x1.dc9586p-9f, -0x1.0247fep-11f, -0x1.17f784p-14f, -0x1.2fffa8p-17f,
       -0x1.f709b0p-23f, 0.0f, 0x0.0p+0f, 0x0.0p+0f, -0x1.268be4p-20f,
       -0x1.3fd146p-2f, -0x1.893cd4p-2f, -0x1.6b9f82p-2f},
      {0x1.bbb47ep-4f, 0x1.01dfaap-4f, 0x1.bb9454p-6f, 0x1.5988b0p-7f,
       0x1.3c3f26p-9f, 0x1.57d2aep-12f, 0x1.74cf00p-15f, 0x1.94df72p-18f,
       0x1.4288ccp-22f, 0.0f, 0x0.0p+0f, 0x0.0p+0f, -0x1.5544c8p-2f,
       -0x1.6dce6ap-3f, -0x1.235c14p-6f, 0x1.4f30fcp-4f},
      {-0x1.9c6bcep-7f, -0x1.817398p-6f, -0x1.939812p-7f, -0x1.4e2952p-8f,
       -0x1.3a373cp-10f, -0x1.57b3d8p-13f, -0x1.7606e0p-16f, -0x1.953144p-19f,
       -0x1.88fabcp-21f, 0.0f, 0x0.0p+0f, 0x0.0p+0f, -0x1.3651dep-10f,
       0x1.584fc2p-3f, 0x1.1a66a6p-3f, 0x1.f19592p-5f},
      {-0x1.42e36ap-6f, 0x1.c6ee2cp-9f, 0x1.047f4ep-8f, 0x1.f60b82p-10f,
       0x1.018322p-11f, 0x1.1e50a8p-14f, 0x1.385028p-17f, 0x1.524ef6p-20f,
       0x1.1dc1b2p-24f, 0.0f, 0x0.0p+0f, 0x0.0p+0f, 0x1.250990p-3f,
       0x1.34699cp-6f, -0x1.bc31bap-5f, -0x1.de984ep-5f},
      {0x1.ee84d2p-7f, 0x1.0cf9d0p-9f, -0x1.7d10f4p-11f, -0x1.20bf1cp-11f,
       -0x1.45fec6p-13f, -0x1.77232ap-16f, -0x1.837a06p-19f, -0x1.bb557ap-22f,
       0x1.887980p-22f, 0.0f, 0x0.0p+0f, 0x0.0p+0f, -0x1.2eec1ap-5f,
       -0x1.1dcbfep-4f, -0x1.a1bf20p-6f, 0x1.c69e16p-7f}};
  const tn_wide a = tn_wide_up_to(tn_wide_abs(x), 9.1f);
  return tn_wide_signed(tn_wide_piece(pieces, a), x);
}

/* ----------------------------------------------------------------- squares */

/* Functions that fall like exp(-a*a), in 32 pieces: the square of scale*a + 1/2
 * is the number of one, so that in each they fall to as small a part. The first
 * is counted from 0, the others from seven tenths of their width on. Rows are
 * as those of tn_wide_pieces. */
typedef float tn_wide_squares[10][32] __attribute__((aligned(64)));

TN_WIDE_FN tn_wide tn_wide_look_up_32(const float *table, __m512i index) {
  return _mm512_permutex2var_ps(_mm512_load_ps(table), index,
                                _mm512_load_ps(table + 16));
}

TN_WIDE_FN tn_wide tn_wide_square(const tn_wide_squares pieces, tn_wide a,
                                  float scale) {
  const tn_wide root = tn_wide_step(a, tn_wide_of(scale), 0.5f);
  const __m512i at = tn_wide_bits(tn_wide_step(root, root, 0x1.8p23f));
  const tn_wide r = a - tn_wide_look_up_32(pieces[0], at);
  tn_wide p = tn_wide_look_up_32(pieces[9], at);
  p = tn_wide_fma(p, r, tn_wide_look_up_32(pieces[8], at));
  p = tn_wide_fma(p, r, tn_wide_look_up_32(pieces[7], at));
  p = tn_wide_fma(p, r, tn_wide_look_up_32(pieces[6], at));
  p = tn_wide_fma(p, r, tn_wide_look_up_32(pieces[5], at));
  p = tn_wide_fma(p, r, tn_wide_look_up_32(pieces[4], at));
  p = tn_wide_fma(p, r, tn_wide_look_up_32(pieces[3], at));
  p = tn_wide_fma(p, r, tn_wide_look_up_32(pieces[2], at));
  return tn_wide_fma(p, r, tn_wide_look_up_32(pieces[1], at));
}

/* The same for a beyond the pieces, and 0 from `end` on: divided by
 * 2^(-factor*a*a) they are a polynomial, counted from `middle`. */
typedef struct tn_wide_fall {
  float factor, end, middle, by[9];
} tn_wide_fall;

/* `lost` is the error of the square. The power has nearly the coefficients of
 * exp2m1_f32 in functions.py; with exactly those it would be good to 2.0. */
TN_WIDE_FN tn_wide tn_wide_fallen(const tn_wide_fall *fall, tn_wide a) {
  const tn_wide r = a - tn_wide_of(fall->middle);
  tn_wide slow = tn_wide_of(fall->by[8]);
  slow = tn_wide_step(slow, r, fall->by[7]);
  slow = tn_wide_step(slow, r, fall->by[6]);
  slow = tn_wide_step(slow, r, fall->by[5]);
  slow = tn_wide_step(slow, r, fall->by[4]);
  slow = tn_wide_step(slow, r, fall->by[3]);
  slow = tn_wide_step(slow, r, fall->by[2]);
  slow = tn_wide_step(slow, r, fall->by[1]);
  slow = tn_wide_step(slow, r, fall->by[0]);
  const tn_wide square = a * a;
  const tn_wide down = tn_wide_of(-fall->factor);
  const tn_wide magic = tn_wide_of(0x1.8p23f);
  const tn_wide n = tn_wide_fma(square, down, magic) - magic;
  const tn_wide lost = _mm512_fmsub_ps(a, a, square);
  const tn_wide f = tn_wide_fma(lost, down, _mm512_fmsub_ps(square, down, n));
  tn_wide p = tn_wide_of(0x1.416aa6p-13f);
  p = tn_wide_step(p, f, 0x1.5f0abep-10f);
  p = tn_wide_step(p, f, 0x1.3b2db8p-7f);
  p = tn_wide_step(p, f, 0x1.c6af72p-5f);
  p = tn_wide_step(p, f, 0x1.ebfbdep-3f);
  p = tn_wide_step(p, f, 0x1.62e430p-1f);
  return _mm512_scalef_ps(tn_wide_fma(slow, p * f, slow), n);
}

/* y, but the function beyond the pieces where a bit of `far` is set. Only
 * results that are not 0 are computed, and no other element: squares of tiny
 * numbers would be slow.
 */
TN_WIDE_FN tn_wide tn_wide_with_far(tn_wide y, __mmask16 far, tn_wide a,
                                    const tn_wide_fall *fall) {
  const __mmask16 falls =
      far & _mm512_cmp_ps_mask(a, tn_wide_of(fall->end), _CMP_LT_OQ);
  const tn_wide none = tn_wide_select(far, y, tn_wide_of(0.0f));
  if (falls == 0) return none;
  const tn_wide at = tn_wide_select(falls, tn_wide_of(fall->middle), a);
  return tn_wide_select(falls, none, tn_wide_fallen(fall, at));
}

static const tn_wide_squares tn_wide_erfc_pieces = {
    {0x0.0p+0f,      0x1.9c8ab0p-1f, 0x1.609f0cp+0f, 0x1.d186a6p+0f,
     0x1.17ab2ep+1f, 0x1.41dbfap+1f, 0x1.674ec8p+1f, 0x1.8a9938p+1f,
     0x1.ab1690p+1f, 0x1.caeee2p+1f, 0x1.e77ea4p+1f, 0x1.01b516p+2f,
     0x1.0eb30ap+2f, 0x1.1be5b6p+2f, 0x1.27cbc8p+2f, 0x1.3357b2p+2f,
     0x1.3f8bc4p+2f, 0x1.49e368p+2f, 0x1.551800p+2f, 0x1.5f8ab8p+2f,
     0x1.69f930p+2f, 0x1.7348e0p+2f, 0x1.7d67ecp+2f, 0x1.8757e2p+2f,
     0x1.900c04p+2f, 0x1.992a14p+2f, 0x1.a24a48p+2f, 0x1.ab089ap+2f,
     0x1.b37d1ap+2f, 0x1.bbd262p+2f, 0x1.c4bed2p+2f, 0x1.cbf230p+2f},
    {0x1.000000p+0f,  0x1.049aa6p-2f,  0x1.a53714p-5f,  0x1.4b9f24p-7f,
     0x1.0668e0p-9f,  0x1.8ab874p-12f, 0x1.2daca6p-14f, 0x1.b4f03ap-17f,
     0x1.3e925cp-19f, 0x1.a9ef5ep-22f, 0x1.353d48p-24f, 0x1.a8f138p-27f,
     0x1.2f8ddep-29f, 0x1.84a41ap-32f, 0x1.157794p-34f, 0x1.86ca9ap-37f,
     0x1.d12f88p-40f, 0x1.5e17aap-42f, 0x1.b0920cp-45f, 0x1.1f28dep-47f,
     0x1.6ad6f6p-50f, 0x1.0b62a4p-52f, 0x1.446ccep-55f, 0x1.844142p-58f,
     0x1.1ad5e4p-60f, 0x1.6d6be6p-63f, 0x1.c4c512p-66f, 0x1.241180p-68f,
     0x1.825e3ap-71f, 0x1.fb1decp-74f, 0x1.1a1878p-76f, 0x1.be9fe6p-79f},
    {-0x1.20dd76p+0f,  -0x1.2dd5c8p-1f,  -0x1.5a92f4p-3f,  -0x1.52a038p-5f,
     -0x1.385bcap-7f,  -0x1.097476p-9f,  -0x1.bfa0b4p-12f, -0x1.60f626p-14f,
     -0x1.14c8f8p-16f, -0x1.8ba8e2p-19f, -0x1.2ffc4cp-21f, -0x1.b841e2p-24f,
     -0x1.49831ap-26f, -0x1.b9729cp-29f, -0x1.47c9dap-31f, -0x1.def098p-34f,
     -0x1.27f042p-36f, -0x1.cb55d2p-39f, -0x1.251606p-41f, -0x1.90aa38p-44f,
     -0x1.0469c6p-46f, -0x1.896616p-49f, -0x1.e9f9c0p-52f, -0x1.2ca0e4p-54f,
     -0x1.bf808ap-57f, -0x1.278422p-59f, -0x1.762272p-62f, -0x1.ec8de8p-65f,
     -0x1.4c1b52p-67f, -0x1.bc11a8p-70f, -0x1.f7c93cp-73f, -0x1.950790p-75f},
    {0x1.4b02e4p-18f, 0x1.e66788p-2f,  0x1.dd615cp-3f,  0x1.33e394p-4f,
     0x1.553ce8p-6f,  0x1.4dbf24p-8f,  0x1.3a220cp-10f, 0x1.10070ap-12f,
     0x1.cdc39cp-15f, 0x1.62a6acp-17f, 0x1.216fa8p-19f, 0x1.bb3190p-22f,
     0x1.5c6eb8p-24f, 0x1.e98dd0p-27f, 0x1.7abe86p-29f, 0x1.1f7f4ep-31f,
     0x1.7165f8p-34f, 0x1.27f4acp-36f, 0x1.8681d0p-39f, 0x1.131940p-41f,
     0x1.7036a6p-44f, 0x1.1d4776p-46f, 0x1.6cffcep-49f, 0x1.cb90f4p-52f,
     0x1.5da6eap-54f, 0x1.d852acp-57f, 0x1.31a866p-59f, 0x1.9ad0a6p-62f,
     0x1.1a7a5cp-64f, 0x1.80efc0p-67f, 0x1.bd7b70p-70f, 0x1.6bd9dcp-72f},
    {0x1.810242p-2f,   -0x1.e07f30p-5f,  -0x1.42d8aep-3f,  -0x1.3cd164p-4f,
     -0x1.bcfd68p-6f,  -0x1.019decp-7f,  -0x1.13485ap-9f,  -0x1.08d438p-11f,
     -0x1.ea831cp-14f, -0x1.975f02p-16f, -0x1.62c73ap-18f, -0x1.2042bcp-20f,
     -0x1.dd85a8p-23f, -0x1.60bce2p-25f, -0x1.1ceb12p-27f, -0x1.c23a5cp-30f,
     -0x1.2d3aaep-32f, -0x1.f2edd6p-35f, -0x1.54c46cp-37f, -0x1.ef57c4p-40f,
     -0x1.55aa9ap-42f, -0x1.0fbbdap-44f, -0x1.656dcap-47f, -0x1.ce1656p-50f,
     -0x1.6799f4p-52f, -0x1.f11e18p-55f, -0x1.490d78p-57f, -0x1.c3b842p-60f,
     -0x1.3ce4c8p-62f, -0x1.b8468ep-65f, -0x1.03fdccp-67f, -0x1.af9848p-70f},
    {0x1.f891bep-10f, -0x1.13df40p-3f, 0x1.f9d692p-6f,  0x1.72d880p-5f,
     0x1.7461fcp-6f,  0x1.0c43c2p-7f,  0x1.4e058cp-9f,  0x1.6adf9cp-11f,
     0x1.72ae8ep-13f, 0x1.4f9832p-15f, 0x1.39aef6p-17f, 0x1.0fb796p-19f,
     0x1.dbe834p-22f, 0x1.72c768p-24f, 0x1.396e2ep-26f, 0x1.02486cp-28f,
     0x1.689a78p-31f, 0x1.352238p-33f, 0x1.b5c456p-36f, 0x1.48a3e8p-38f,
     0x1.d3c120p-41f, 0x1.7e39fap-43f, 0x1.02a7d4p-45f, 0x1.579d68p-48f,
     0x1.11b0ecp-50f, 0x1.836ef6p-53f, 0x1.067644p-55f, 0x1.703140p-58f,
     0x1.07a736p-60f, 0x1.75a1b8p-63f, 0x1.c284e0p-66f, 0x1.7c24ecp-68f},
    {-0x1.03e656p-3f,  0x1.f55af0p-5f,   0x1.f04e16p-6f,   -0x1.3f3016p-7f,
     -0x1.7ff298p-7f,  -0x1.8116dcp-8f,  -0x1.245cfap-9f,  -0x1.6ff4a2p-11f,
     -0x1.a53b7ep-13f, -0x1.a43b3ap-15f, -0x1.a8a5a6p-17f, -0x1.8a79ecp-19f,
     -0x1.6edbd4p-21f, -0x1.2e8eb0p-23f, -0x1.0c69c2p-25f, -0x1.ceb158p-28f,
     -0x1.51a18cp-30f, -0x1.2c2958p-32f, -0x1.b93274p-35f, -0x1.5698d0p-37f,
     -0x1.f7b02ap-40f, -0x1.a72d12p-42f, -0x1.26fff4p-44f, -0x1.933f6ep-47f,
     -0x1.48c378p-49f, -0x1.dced2ep-52f, -0x1.4af2c0p-54f, -0x1.dac3b6p-57f,
     -0x1.5b16d8p-59f, -0x1.f6023cp-62f, -0x1.353608p-64f, -0x1.09082cp-66f},
    {0x1.cf08dap-5f,  0x1.4447ecp-6f,  -0x1.6c6f88p-6f, -0x1.910372p-8f,
     0x1.44ff98p-9f,  0x1.6811fcp-9f,  0x1.70aaeep-10f, 0x1.19217cp-11f,
     0x1.71890ep-13f, 0x1.9c8664p-15f, 0x1.c69e06p-17f, 0x1.c89208p-19f,
     0x1.c51d40p-21f, 0x1.8d845ap-23f, 0x1.7325d0p-25f, 0x1.4eff56p-27f,
     0x1.0109bep-29f, 0x1.d97d6ep-32f, 0x1.6a2aaep-34f, 0x1.237040p-36f,
     0x1.bb6144p-39f, 0x1.7e66d0p-41f, 0x1.136214p-43f, 0x1.83701ap-46f,
     0x1.4362f4p-48f, 0x1.e142eep-51f, 0x1.55ed94p-53f, 0x1.f68e10p-56f,
     0x1.77515ep-58f, 0x1.14cc24p-60f, 0x1.5c6e6cp-63f, 0x1.300822p-65f},
    {-0x1.72591ap-4f,  -0x1.523828p-6f,  0x1.28fad0p-10f,  0x1.977aecp-8f,
     0x1.55609ap-10f,  -0x1.259d70p-11f, -0x1.550630p-11f, -0x1.4adef8p-12f,
     -0x1.eb1240p-14f, -0x1.3e32b6p-15f, -0x1.8c0f46p-17f, -0x1.a6df22p-19f,
     -0x1.c1ed84p-21f, -0x1.a55df2p-23f, -0x1.a16332p-25f, -0x1.828684p-27f,
     -0x1.357502p-29f, -0x1.2cba34p-31f, -0x1.e4a144p-34f, -0x1.8f2fcep-36f,
     -0x1.3931b8p-38f, -0x1.24ba92p-40f, -0x1.a1f216p-43f, -0x1.25a040p-45f,
     -0x1.0801eap-47f, -0x1.8edbb4p-50f, -0x1.209e8cp-52f, -0x1.aa6c98p-55f,
     -0x1.4a81a2p-57f, -0x1.f38dbep-60f, -0x1.3e2b00p-62f, -0x1.2e1678p-64f},
    {0x1.8a9f24p-4f,   -0x1.5abe40p-8f,  0x1.275356p-8f,   0x1.95c3cep-12f,
     -0x1.3e3770p-10f, -0x1.4dee5ap-12f, -0x1.95b3fap-15f, 0x1.91c5eep-14f,
     0x1.4e7578p-14f,  0x1.e7577cp-16f,  0x1.40b304p-17f,  0x1.ac9700p-19f,
     0x1.fc2394p-21f,  0x1.009950p-22f,  0x1.0c9010p-24f,  0x1.26ef36p-26f,
     0x1.ef2be2p-29f,  0x1.e7e1a2p-31f,  0x1.8a3024p-33f,  0x1.627418p-35f,
     0x1.23a944p-37f,  0x1.d44320p-40f,  0x1.93e4ccp-42f,  0x1.487852p-44f,
     0x1.00315ep-46f,  0x1.9d8d52p-49f,  0x1.3d9f60p-51f,  0x1.f945f4p-54f,
     0x1.7e304cp-56f,  0x1.266abap-58f,  0x1.8f50bcp-61f,  0x1.21ed1cp-63f}};

/* 1.4375 is nearly 1/log(2). */
TN_WIDE_FN tn_wide tn_math_erfc_wide(tn_wide x) {
  static const tn_wide_fall fall = {
      0x1.7p+0f,
      10.1f,
      0x1.13e568p+3f,
      {0x1.97788ap-5f, -0x1.1fc908p-7f, 0x1.e14e7ep-11f, -0x1.8d7b9ep-14f,
       0x1.655258p-17f, -0x1.426150p-20f, 0x1.1fbec4p-23f, -0x1.0a8c46p-26f,
       0x1.b50674p-30f}};
  const tn_wide a = tn_wide_abs(x);
  tn_wide tail =
      tn_wide_square(tn_wide_erfc_pieces, tn_wide_up_to(a, 7.2f), 0x1.6ap-1f);
  const __mmask16 far = _mm512_cmp_ps_mask(tn_wide_of(7.2f), x, _CMP_LT_OQ);
  if (__builtin_expect(far != 0, 0))
    tail = tn_wide_with_far(tail, far, a, &fall);
  return _mm512_mask_sub_ps(tail, _mm512_movepi32_mask(tn_wide_bits(x)),
                            tn_wide_of(2.0f), tail);
}

static const tn_wide_squares tn_wide_gelu_pieces = {
    {0x0.0p+0f,      0x1.234ef0p+0f, 0x1.f2aefcp+0f, 0x1.4864cep+1f,
     0x1.8c701ap+1f, 0x1.c6873cp+1f, 0x1.fd94d8p+1f, 0x1.179076p+2f,
     0x1.2e3368p+2f, 0x1.44202cp+2f, 0x1.58ee5ap+2f, 0x1.6c60c2p+2f,
     0x1.7f2754p+2f, 0x1.9060a2p+2f, 0x1.a2c958p+2f, 0x1.b2f58ep+2f,
     0x1.c37d32p+2f, 0x1.d3383ap+2f, 0x1.e1767cp+2f, 0x1.f1219cp+2f,
     0x1.ffb430p+2f, 0x1.0718bcp+3f, 0x1.0dc6dep+3f, 0x1.14526ap+3f,
     0x1.1b41fap+3f, 0x1.21a18cp+3f, 0x1.27cd0ap+3f, 0x1.2dafc2p+3f,
     0x1.341c5cp+3f, 0x1.3a4896p+3f, 0x1.3fb5c8p+3f, 0x1.45f2f8p+3f},
    {0x0.0p+0f,       0x1.294ff0p-3f,  0x1.9a40dep-5f,  0x1.b0f938p-7f,
     0x1.8c91aap-9f,  0x1.653d36p-11f, 0x1.1e5a20p-13f, 0x1.cb0fb2p-16f,
     0x1.723882p-18f, 0x1.16639cp-20f, 0x1.98c3bcp-23f, 0x1.308364p-25f,
     0x1.b84b08p-28f, 0x1.53d31ep-30f, 0x1.b04182p-33f, 0x1.40fb10p-35f,
     0x1.ade71ep-38f, 0x1.26fca4p-40f, 0x1.c5ecb4p-43f, 0x1.17a58ap-45f,
     0x1.7420aap-48f, 0x1.db30eep-51f, 0x1.4e78a0p-53f, 0x1.d37b2ap-56f,
     0x1.193b80p-58f, 0x1.7a8b3ep-61f, 0x1.03ab1ep-63f, 0x1.753ab6p-66f,
     0x1.b916a8p-69f, 0x1.0e6e3ep-71f, 0x1.93646cp-74f, 0x1.c397d6p-77f},
    {0x1.000000p-1f,   -0x1.c2a7dep-4f,  -0x1.7412d8p-4f,  -0x1.0dd44ap-5f,
     -0x1.2e73a0p-7f,  -0x1.3a2f06p-9f,  -0x1.1b3b48p-11f, -0x1.f31816p-14f,
     -0x1.b393f2p-16f, -0x1.5f90ccp-18f, -0x1.12d1e0p-20f, -0x1.b0b57cp-23f,
     -0x1.4909eep-25f, -0x1.096ddap-27f, -0x1.61369ep-30f, -0x1.107374p-32f,
     -0x1.7ad0b8p-35f, -0x1.0d0352p-37f, -0x1.aa9b0ap-40f, -0x1.0f6330p-42f,
     -0x1.73be3ep-45f, -0x1.e82a20p-48f, -0x1.605722p-50f, -0x1.f86baap-53f,
     -0x1.3714d2p-55f, -0x1.ac273cp-58f, -0x1.2bf642p-60f, -0x1.b7bb42p-63f,
     -0x1.09610ap-65f, -0x1.4bee84p-68f, -0x1.f7afe8p-71f, -0x1.1f7122p-73f},
    {-0x1.988454p-2f, -0x1.2d87f4p-4f, 0x1.b7cbe2p-5f,  0x1.16a33cp-5f,
     0x1.99f424p-7f,  0x1.faeda4p-9f,  0x1.05f5d8p-10f, 0x1.00cb96p-12f,
     0x1.e92098p-15f, 0x1.aa74d6p-17f, 0x1.64affap-19f, 0x1.29e078p-21f,
     0x1.ddfb34p-24f, 0x1.93fca2p-26f, 0x1.19da1ap-28f, 0x1.c47664p-31f,
     0x1.47114cp-33f, 0x1.e16ac2p-36f, 0x1.89d398p-38f, 0x1.02ff12p-40f,
     0x1.6d897ap-43f, 0x1.ee0efep-46f, 0x1.6deebcp-48f, 0x1.0c7bd4p-50f,
     0x1.53b342p-53f, 0x1.de5832p-56f, 0x1.567296p-58f, 0x1.001fa4p-60f,
     0x1.3be158p-63f, 0x1.9330f2p-66f, 0x1.374e48p-68f, 0x1.6a632ap-71f},
    {0x1.1fecc2p-21f,  0x1.b6c7b8p-4f,   0x1.056c9ep-8f,   -0x1.0c9036p-6f,
     -0x1.37bec0p-7f,  -0x1.e6ec16p-9f,  -0x1.296da0p-10f, -0x1.4a213ep-12f,
     -0x1.5b00c4p-14f, -0x1.4984f8p-16f, -0x1.28b49ap-18f, -0x1.0811a6p-20f,
     -0x1.c0bdd4p-23f, -0x1.8e881ap-25f, -0x1.2452c4p-27f, -0x1.e94f62p-30f,
     -0x1.7072e2p-32f, -0x1.197462p-34f, -0x1.dbb132p-37f, -0x1.43cdd8p-39f,
     -0x1.d75e46p-42f, -0x1.482e1cp-44f, -0x1.f3475ap-47f, -0x1.77be62p-49f,
     -0x1.e80828p-52f, -0x1.5fc246p-54f, -0x1.01783ap-56f, -0x1.892d02p-59f,
     -0x1.efba92p-62f, -0x1.430022p-64f, -0x1.fbc578p-67f, -0x1.2d8dcap-69f},
    {0x1.104f3ep-4f,  -0x1.e2dc76p-6f, -0x1.4d6abap-6f, 0x1.951faap-11f,
     0x1.03cf7cp-8f,  0x1.298f00p-9f,  0x1.c6bd6ap-11f, 0x1.25d0bap-12f,
     0x1.5a7cecp-14f, 0x1.6a64b8p-16f, 0x1.621750p-18f, 0x1.51d196p-20f,
     0x1.315a04p-22f, 0x1.1df28ap-24f, 0x1.ba6692p-27f, 0x1.82fa72p-29f,
     0x1.302ccap-31f, 0x1.e33010p-34f, 0x1.a669b0p-36f, 0x1.2a07a0p-38f,
     0x1.c0003ep-41f, 0x1.41aff4p-43f, 0x1.f70c62p-46f, 0x1.84a39cp-48f,
     0x1.03475cp-50f, 0x1.7ee4dap-53f, 0x1.1eb52ap-55f, 0x1.bf3752p-58f,
     0x1.205e4ap-60f, 0x1.7fdc3cp-63f, 0x1.3347a6p-65f, 0x1.749058p-68f},
    {0x1.0b9f4ep-14f,  -0x1.60fd9cp-7f,  0x1.2966aep-7f,   0x1.cc7a02p-9f,
     -0x1.904614p-12f, -0x1.b19412p-11f, -0x1.dc49eep-12f, -0x1.78e770p-13f,
     -0x1.ff9f2ap-15f, -0x1.2bbc2ep-16f, -0x1.412e9ep-18f, -0x1.4aea3ap-20f,
     -0x1.401436p-22f, -0x1.3d5e6ep-24f, -0x1.03ee5ep-26f, -0x1.dc9e7cp-29f,
     -0x1.88057ep-31f, -0x1.4469fcp-33f, -0x1.25cf50p-35f, -0x1.ae756ep-38f,
     -0x1.4e8b3cp-40f, -0x1.f037b6p-43f, -0x1.8f1e4ep-45f, -0x1.3cd3a0p-47f,
     -0x1.b2ac4ap-50f, -0x1.491954p-52f, -0x1.f85ce6p-55f, -0x1.922124p-57f,
     -0x1.0954b2p-59f, -0x1.690ea6p-62f, -0x1.2664a4p-64f, -0x1.6cc144p-67f},
    {-0x1.4ee0dcp-7f,  0x1.bc5b46p-8f,  -0x1.75a0fep-17f, -0x1.e73cf4p-10f,
     -0x1.200160p-11f, 0x1.76282ap-14f, 0x1.3f77dep-13f,  0x1.5a9728p-14f,
     0x1.1ba056p-15f,  0x1.7ef6d2p-17f, 0x1.c8b90cp-19f,  0x1.0053bap-20f,
     0x1.0b982ap-22f,  0x1.1a2eecp-24f, 0x1.ebd14ep-27f,  0x1.da17eap-29f,
     0x1.997c12p-31f,  0x1.6229e6p-33f, 0x1.4c0eb6p-35f,  0x1.fa400ep-38f,
     0x1.97d38cp-40f,  0x1.375650p-42f, 0x1.0339ccp-44f,  0x1.a62ab2p-47f,
     0x1.2b99f8p-49f,  0x1.cf9a0ap-52f, 0x1.6c6b64p-54f,  0x1.28403ap-56f,
     0x1.91bbd8p-59f,  0x1.15eb4ep-61f, 0x1.cee02ep-64f,  0x1.2304ccp-66f},
    {0x1.fd5f1ap-12f,  0x1.6ea77ep-12f,  -0x1.51484ap-10f, 0x1.38d160p-12f,
     0x1.2de6c2p-12f,  0x1.c75622p-14f,  -0x1.65c5dap-17f, -0x1.b7f59ap-16f,
     -0x1.fe12acp-17f, -0x1.67bbbap-18f, -0x1.fef6e2p-20f, -0x1.44580ap-21f,
     -0x1.66ce4ep-23f, -0x1.9c71ecp-25f, -0x1.78ba6ap-27f, -0x1.7d1288p-29f,
     -0x1.584362p-31f, -0x1.352ad8p-33f, -0x1.3bbddep-35f, -0x1.e8060ap-38f,
     -0x1.9219d4p-40f, -0x1.44c38cp-42f, -0x1.0dc300p-44f, -0x1.cf7540p-47f,
     -0x1.4035c6p-49f, -0x1.0429acp-51f, -0x1.a684d0p-54f, -0x1.638052p-56f,
     -0x1.e353bcp-59f, -0x1.612ed6p-61f, -0x1.2d2158p-63f, -0x1.8d3da0p-66f},
    {0x1.994e28p-11f,  -0x1.a162eap-11f, 0x1.bb36c4p-13f,  0x1.293aa6p-12f,
     -0x1.7cd18ap-14f, -0x1.681f14p-17f, -0x1.362144p-18f, 0x1.9139f4p-23f,
     0x1.60088ap-20f,  0x1.966feep-19f,  0x1.1525b4p-20f,  0x1.74a8a0p-22f,
     0x1.025f96p-23f,  0x1.2c5492p-25f,  0x1.465ff6p-27f,  0x1.69b08cp-29f,
     0x1.60cdcap-31f,  0x1.549ec0p-33f,  0x1.2e21ecp-35f,  0x1.17facep-37f,
     0x1.f5dcb6p-40f,  0x1.961124p-42f,  0x1.768cc0p-44f,  0x1.3544cap-46f,
     0x1.02b8b8p-48f,  0x1.9f2c66p-51f,  0x1.4bf770p-53f,  0x1.19f65cp-55f,
     0x1.9c67dap-58f,  0x1.23b818p-60f,  0x1.e86a6ep-63f,  0x1.40c7bcp-65f}};

/* x less the tail a*erfc(a/sqrt(2))/2, or that alone where x is negative, with
 * a = |x|. 0.71875 is nearly 1/(2*log(2)). */
TN_WIDE_FN tn_wide tn_math_gelu_wide(tn_wide x) {
  static const tn_wide_fall fall = {
      0x1.7p-1f,
      14.4f,
      0x1.8873eap+3f,
      {0x1.3591fep-2f, -0x1.ab1538p-7f, -0x1.3c0050p-12f, 0x1.a501fep-16f,
       -0x1.11386cp-21f, 0x1.236b88p-25f, -0x1.19b4d0p-28f, 0x1.c52082p-32f,
       -0x1.d01a4ap-35f}};
  const tn_wide a = _mm512_range_ps(x, tn_wide_of(10.2f), 0x0a);
  tn_wide tail = tn_wide_square(tn_wide_gelu_pieces, a, 0.5f);
  const __mmask16 far = _mm512_cmp_ps_mask(x, tn_wide_of(-10.2f), _CMP_LT_OQ);
  if (__builtin_expect(far != 0, 0))
    tail = tn_wide_with_far(tail, far, tn_wide_abs(x), &fall);
  return tn_wide_from(x, -0.0f) - tail;
}

#endif
#endif /* TENON_KERNEL_MATH_WIDE_PIECES_H_ */
