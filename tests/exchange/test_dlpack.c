/* SPDX-License-Identifier: Apache-2.0
 * test_dlpack.c: imports and exports of DLPack. <dlpack/dlpack.h> is the real
 * header. If its version has no versioned object, the layout is compared with
 * the offsets that DLPack 1.0 prescribes.
 */
#include <assert.h>
#include <criterion/criterion.h>
#include <dlpack/dlpack.h>
#include <string.h>

#include "exchange.h"
#include "fixture.h"

TestSuite(dlpack, .init = world_open, .fini = world_close);

static_assert(sizeof(tn_dlpack) == sizeof(DLManagedTensor), "size");
static_assert(offsetof(tn_dlpack, tensor) ==
                  offsetof(DLManagedTensor, dl_tensor),
              "tensor");
static_assert(offsetof(tn_dlpack, manager_ctx) ==
                  offsetof(DLManagedTensor, manager_ctx),
              "manager_ctx");
static_assert(offsetof(tn_dlpack, deleter) ==
                  offsetof(DLManagedTensor, deleter),
              "deleter");
#ifdef DLPACK_FLAG_BITMASK_READ_ONLY
#define VERSIONED(field) offsetof(DLManagedTensorVersioned, field)
static_assert(DLPACK_FLAG_BITMASK_READ_ONLY == TN_DLPACK_READ_ONLY, "flag");
static_assert(sizeof(tn_dlpack_versioned) == sizeof(DLManagedTensorVersioned),
              "size");
static_assert(offsetof(tn_dlpack_versioned, tensor) == VERSIONED(dl_tensor),
              "tensor");
#endif
static_assert(offsetof(tn_dlpack_versioned, major) == 0, "version");
static_assert(offsetof(tn_dlpack_versioned, minor) == 4, "version");
static_assert(offsetof(tn_dlpack_versioned, manager_ctx) == 8, "manager_ctx");
static_assert(offsetof(tn_dlpack_versioned, deleter) == 16, "deleter");
static_assert(offsetof(tn_dlpack_versioned, flags) == 24, "flags");
static_assert(offsetof(tn_dlpack_versioned, tensor) == 32, "tensor");

/* ------------------------------------------------------------------ imports */

static int n_deleted;

static void count_deletion(tn_dlpack *self) {
  (void)self;
  ++n_deleted;
}

static void count_versioned_deletion(tn_dlpack_versioned *self) {
  (void)self;
  ++n_deleted;
}

static float six[] = {1, 2, 3, 4, 5, 6};
static int64_t shape_2_3[] = {2, 3};

static tn_dlpack make_plain(void) {
  return (tn_dlpack){.tensor = {.data = six,
                                .device_type = TN_DEVICE_CPU,
                                .ndim = 2,
                                .dtype = TN_F32,
                                .shape = shape_2_3},
                     .deleter = count_deletion};
}

static tn_dlpack_versioned make_versioned(uint64_t flags) {
  return (tn_dlpack_versioned){.major = 1,
                               .deleter = count_versioned_deletion,
                               .flags = flags,
                               .tensor = make_plain().tensor};
}

static tn_array *import_array(tn_dlpack *from) {
  tn_array *array = NULL;
  cr_assert_eq(tn__array_from_dlpack(&w.env, from, 0, &array), TN_OK, "%s",
               tn_error_text());
  return array;
}

Test(dlpack, an_import_is_no_copy_and_is_returned_once) {
  tn_dlpack d = make_plain();
  tn_array *array = import_array(&d), *view = NULL;
  cr_expect_eq(tn__array_data(array), (void *)six);
  expect(array, VALUES(1, 2, 3, 4, 5, 6));
  cr_assert_eq(tn__array_index(array, 0, 1, &view), TN_OK);
  tn__array_release(array);
  cr_expect_eq(n_deleted, 0);
  expect(view, VALUES(4, 5, 6));
  tn__array_release(view);
  cr_expect_eq(n_deleted, 1);
}

Test(dlpack, calls_use_imported_memory_in_place) {
  tn_dlpack d = make_plain();
  tn_array *array = import_array(&d);
  cr_assert_eq(tn__array_set(array, (float[6]){6, 5, 4, 3, 2, 1}, 24), TN_OK);
  cr_expect_eq(six[0], 6);
  tn__array_release(array);
  cr_expect_eq(n_deleted, 1);
}

Test(dlpack, strides_and_byte_offset_are_respected) {
  tn_dlpack d = make_plain();
  int64_t shape[] = {3, 2}, strides[] = {-1, 3};
  d.tensor.shape = shape;
  d.tensor.strides = strides;
  d.tensor.byte_offset = 2 * sizeof(float);
  tn_array *array = import_array(&d);
  cr_expect_eq(tn__array_data(array), (void *)(six + 2));
  expect(array, VALUES(3, 6, 2, 5, 1, 4));
  tn__array_release(array);
  cr_expect_eq(n_deleted, 1);
}

Test(dlpack, a_stride_of_0_is_a_broadcast_view) {
  tn_dlpack d = make_plain();
  int64_t strides[] = {0, 1};
  d.tensor.strides = strides;
  tn_array *array = import_array(&d);
  cr_expect(tn__tensor_has_repeats(&array->tensor));
  expect(array, VALUES(1, 2, 3, 1, 2, 3));
  cr_expect_eq(tn__array_set(array, six, sizeof six), TN_INVALID);
  tn__array_release(array);
  cr_expect_eq(n_deleted, 1);
}

Test(dlpack, strides_of_dimensions_of_1_are_ignored) {
  tn_dlpack d = make_plain();
  int64_t shape[] = {1, 6}, strides[] = {INT64_MIN, 1};
  d.tensor.shape = shape;
  d.tensor.strides = strides;
  tn_array *array = import_array(&d);
  expect(array, VALUES(1, 2, 3, 4, 5, 6));
  tn__array_release(array);
}

Test(dlpack, elements_that_overlap_are_copied_unless_borrowed) {
  tn_dlpack d = make_plain();
  int64_t shape[] = {4, 3}, strides[] = {1, 1};
  tn_array *array = NULL;
  d.tensor.shape = shape;
  d.tensor.strides = strides;
  array = import_array(&d);
  cr_expect_eq(n_deleted, 1, "the copy is complete");
  cr_expect(tn_tensor_is_contiguous(&array->tensor));
  expect(array, VALUES(1, 2, 3, 2, 3, 4, 3, 4, 5, 4, 5, 6));
  tn__array_release(array);
  cr_assert_eq(tn__array_from_dlpack(&w.env, &d, TN_DLPACK_BORROW, &array),
               TN_OK);
  cr_expect_eq(tn__array_data(array), (void *)six);
  tn__array_release(array);
  cr_expect_eq(n_deleted, 2);
}

Test(dlpack, read_only_memory_is_copied_unless_borrowed) {
  tn_dlpack_versioned d = make_versioned(TN_DLPACK_READ_ONLY);
  tn_array *array = NULL;
  cr_assert_eq(tn__array_from_dlpack_versioned(&w.env, &d, 0, &array), TN_OK);
  cr_expect_neq(tn__array_data(array), (void *)six);
  cr_expect_eq(n_deleted, 1);
  expect(array, VALUES(1, 2, 3, 4, 5, 6));
  tn__array_release(array);
  cr_assert_eq(
      tn__array_from_dlpack_versioned(&w.env, &d, TN_DLPACK_BORROW, &array),
      TN_OK);
  cr_expect_eq(tn__array_data(array), (void *)six);
  tn__array_release(array);
  cr_expect_eq(n_deleted, 2);
}

Test(dlpack, empty_imports_need_no_data_and_keep_their_owner) {
  tn_dlpack d = make_plain();
  int64_t shape[] = {2, 0};
  d.tensor.data = NULL;
  d.tensor.shape = shape;
  tn_array *array = import_array(&d);
  cr_expect_eq(tn__array_get(array, NULL, 0), TN_OK);
  cr_expect_eq(n_deleted, 0);
  tn__array_release(array);
  cr_expect_eq(n_deleted, 1);
}

Test(dlpack, a_deleter_may_be_missing) {
  tn_dlpack d = make_plain();
  d.deleter = NULL;
  tn__array_release(import_array(&d));
}

static void expect_refused(const tn_tensor *tensor, tn_code code,
                           const char *part) {
  tn_array *array = NULL;
  tn_dlpack d = {.tensor = *tensor, .deleter = count_deletion};
  cr_expect_eq(tn__array_from_dlpack(&w.env, &d, 0, &array), code, "%s",
               tn_error_text());
  cr_expect_null(array);
  EXPECT_TEXT(part);
  cr_expect_eq(n_deleted, 0, "a refused object is still its owner's");
}

Test(dlpack, element_types_that_op_h_does_not_have_are_refused) {
  tn_tensor t = make_plain().tensor;
  t.dtype = TN_DTYPE_MAKE(5, 64); /* complex */
  expect_refused(&t, TN_DTYPE, "type code 5 with 64 bits");
  t.dtype = TN_F32 + (3u << 16);
  expect_refused(&t, TN_DTYPE, "vectors of 4 lanes");
  t.dtype = 0;
  expect_refused(&t, TN_DTYPE, "has 0 lanes, where one of single values has 1");
  t.dtype = TN_DTYPE_MAKE(0, 1);
  expect_refused(&t, TN_DTYPE, "with 1 bits");
}

/* Three elements of i4, the second byte of `memory` first. */
static unsigned char memory[4] = {0xee, 0x21, 0x03, 0xee};

static tn_dlpack_versioned make_packed(int64_t *shape, int64_t *strides) {
  return (tn_dlpack_versioned){.major = 1,
                               .minor = 1,
                               .deleter = count_versioned_deletion,
                               .tensor = {.data = memory,
                                          .device_type = TN_DEVICE_CPU,
                                          .ndim = 1,
                                          .dtype = TN_I4,
                                          .shape = shape,
                                          .strides = strides,
                                          .byte_offset = 1}};
}

Test(dlpack, dense_packed_elements_go_both_ways_without_a_copy) {
  int64_t shape = 3, stride = 1;
  tn_dlpack_versioned from = make_packed(&shape, &stride), *d = NULL;
  tn_dlpack *old = NULL;
  tn_array *array = NULL;
  unsigned char got[2] = {0};
  cr_assert_eq(tn__array_from_dlpack_versioned(&w.env, &from, 0, &array), TN_OK,
               "%s", tn_error_text());
  cr_expect_eq(tn__array_data(array), (void *)(memory + 1));
  cr_assert_eq(tn__array_get(array, got, 2), TN_OK);
  cr_expect(got[0] == 0x21 && got[1] == 0x03);
  cr_assert_eq(tn__array_set(array, "\xff\xff", 2), TN_OK);
  cr_expect_eq(memory[2], 0x0f);
  cr_expect_eq(memory[3], 0xee);
  cr_assert_eq(tn__array_to_dlpack_versioned(array, &d), TN_OK);
  cr_expect_eq(d->tensor.dtype, TN_I4);
  cr_expect_eq(d->tensor.data, (void *)(memory + 1));
  cr_expect_eq(d->flags, 0, "packed");
  cr_expect_eq(d->minor, 1, "the first version with these types");
  d->deleter(d);
  cr_assert_eq(tn__array_to_dlpack(array, &old), TN_OK);
  cr_expect_eq(old->tensor.shape[0], 3);
  tn__array_release(array);
  cr_expect_eq(n_deleted, 0);
  old->deleter(old);
  cr_expect_eq(n_deleted, 1);
}

Test(dlpack, read_only_packed_elements_are_copied) {
  int64_t shape = 3;
  tn_dlpack_versioned from = make_packed(&shape, NULL);
  tn_array *array = NULL;
  unsigned char got[2] = {0};
  from.flags = TN_DLPACK_READ_ONLY;
  cr_assert_eq(tn__array_from_dlpack_versioned(&w.env, &from, 0, &array), TN_OK,
               "%s", tn_error_text());
  cr_expect_neq(tn__array_data(array), (void *)(memory + 1));
  cr_assert_eq(tn__array_get(array, got, 2), TN_OK);
  cr_expect(got[0] == 0x21 && got[1] == 0x03);
  tn__array_release(array);
}

Test(dlpack, strided_and_padded_packed_elements_are_refused) {
  int64_t shape = 2, strides[] = {2, -1, 0};
  tn_array *array = NULL;
  for (size_t i = 0; i < 3; ++i) {
    const tn_dlpack_versioned from = make_packed(&shape, &strides[i]);
    expect_refused(&from.tensor, TN_UNSUPPORTED,
                   "the elements of i4 are not dense");
  }
  tn_dlpack_versioned from = make_packed(&shape, NULL);
  from.flags = TN_DLPACK_PADDED;
  cr_expect_eq(tn__array_from_dlpack_versioned(&w.env, &from, 0, &array),
               TN_UNSUPPORTED);
  EXPECT_TEXT("each element has bytes of its own");
  cr_expect_eq(n_deleted, 0);
  from = make_versioned(TN_DLPACK_PADDED); /* means nothing for f32 */
  cr_expect_eq(tn__array_from_dlpack_versioned(&w.env, &from, 0, &array),
               TN_OK);
  tn__array_release(array);
  shape = 1ll << 60;
  from = make_packed(&shape, NULL);
  cr_expect_eq(tn__array_from_dlpack_versioned(&w.env, &from, 0, &array),
               TN_OUT_OF_RANGE);
}

Test(dlpack, shapes_that_make_no_tensor_are_refused) {
  int64_t shape[17] = {-1, 1};
  int64_t huge[] = {INT64_MAX, INT64_MAX};
  int64_t far[] = {INT64_MAX / 2, 1};
  tn_tensor t = make_plain().tensor;
  t.shape = shape;
  expect_refused(&t, TN_INVALID, "dimension 0 is -1");
  t.ndim = 17;
  expect_refused(&t, TN_INVALID, "17 dimensions; 0 to 16");
  t.ndim = -1;
  expect_refused(&t, TN_INVALID, "-1 dimensions");
  t.ndim = 2;
  t.shape = NULL;
  expect_refused(&t, TN_INVALID, "the shape is NULL");
  t.shape = huge;
  expect_refused(&t, TN_OUT_OF_RANGE, "further than an address");
  t.shape = shape_2_3;
  t.strides = far;
  expect_refused(&t, TN_OUT_OF_RANGE, "further than an address");
}

Test(dlpack, places_where_no_elements_can_be_are_refused) {
  tn_tensor t = make_plain().tensor;
  t.device_type = TN_DEVICE_CUDA;
  expect_refused(&t, TN_NOT_FOUND, "no devices of type 2");
  t = make_plain().tensor;
  t.data = NULL;
  expect_refused(&t, TN_INVALID, "the data is NULL, but there are 6 elements");
  t = make_plain().tensor;
  t.byte_offset = 2;
  expect_refused(&t, TN_INVALID, "no multiple of 4");
  t.byte_offset = UINT64_MAX;
  expect_refused(&t, TN_INVALID, "beyond the last address");
}

Test(dlpack, another_major_version_is_refused_untouched) {
  tn_array *array = NULL;
  tn_dlpack_versioned d = {.major = 2, .deleter = count_versioned_deletion};
  cr_expect_eq(tn__array_from_dlpack_versioned(&w.env, &d, 0, &array),
               TN_UNSUPPORTED);
  EXPECT_TEXT("version 2.0; 1.x is supported");
  d = make_versioned(0);
  d.minor = 9;
  cr_expect_eq(tn__array_from_dlpack_versioned(&w.env, &d, 2, &array),
               TN_INVALID);
  cr_expect_eq(n_deleted, 0);
  cr_expect_eq(tn__array_from_dlpack_versioned(&w.env, &d, 0, &array), TN_OK);
  tn__array_release(array);
  cr_expect_eq(n_deleted, 1);
}

Test(dlpack, an_import_survives_every_failing_allocation) {
  const uint64_t flags[] = {0, TN_DLPACK_READ_ONLY};
  for (size_t i = 0; i < 2; ++i) {
    tn_dlpack_versioned d = make_versioned(flags[i]);
    tn_array *array = NULL;
    tn_code rc = TN_OUT_OF_MEMORY;
    n_deleted = 0;
    for (int64_t k = 1; rc; ++k) {
      w.memory.asked = 0;
      w.memory.fail_at = k;
      rc = tn__array_from_dlpack_versioned(&w.env, &d, 0, &array);
      w.memory.fail_at = 0;
      if (rc) cr_assert_eq(n_deleted, 0);
      cr_assert_lt(k, 100);
    }
    tn__array_release(array);
    cr_expect_eq(n_deleted, 1);
  }
}

/* ------------------------------------------------------------------ exports */

Test(dlpack, an_export_keeps_the_array_until_it_is_deleted) {
  tn_dlpack_versioned *a = NULL, *b = NULL;
  tn_array *array = floats(SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6));
  cr_assert_eq(tn__array_to_dlpack_versioned(array, &a), TN_OK);
  cr_assert_eq(tn__array_to_dlpack_versioned(array, &b), TN_OK);
  cr_expect_neq(a, b);
  cr_expect_eq(a->tensor.data, tn__array_data(array));
  tn__array_release(array);
  a->deleter(a);
  cr_expect_eq(b->major, 1);
  cr_expect_eq(b->flags, 0);
  cr_expect_eq(b->tensor.byte_offset, 0);
  cr_expect_eq(b->tensor.shape[1], 3);
  cr_expect_eq(b->tensor.strides[0], 3);
  cr_expect_eq(((float *)b->tensor.data)[5], 6);
  b->deleter(b);
}

Test(dlpack, views_are_exported_with_strides_and_broadcasts_read_only) {
  tn_dlpack_versioned *d = NULL;
  tn_array *array = floats(SHAPE(1, 3), VALUES(1, 2, 3)), *turned = NULL,
           *wide = NULL;
  cr_assert_eq(tn__array_transpose(array, NULL, &turned), TN_OK);
  cr_assert_eq(tn__array_broadcast(array, 2, (int64_t[]){4, 3}, &wide), TN_OK);
  cr_assert_eq(tn__array_to_dlpack_versioned(turned, &d), TN_OK);
  cr_expect_eq(d->tensor.shape[0], 3);
  cr_expect_eq(d->tensor.strides[0], 1);
  d->deleter(d);
  cr_assert_eq(tn__array_to_dlpack_versioned(wide, &d), TN_OK);
  cr_expect_eq(d->tensor.strides[0], 0);
  cr_expect_eq(d->flags, TN_DLPACK_READ_ONLY);
  d->deleter(d);
  tn__array_release(wide), tn__array_release(turned), tn__array_release(array);
}

Test(dlpack, borrowed_read_only_memory_is_exported_read_only) {
  tn_dlpack_versioned from = make_versioned(TN_DLPACK_READ_ONLY), *d = NULL;
  tn_array *array = NULL, *view = NULL;
  n_deleted = 0;
  cr_assert_eq(
      tn__array_from_dlpack_versioned(&w.env, &from, TN_DLPACK_BORROW, &array),
      TN_OK);
  cr_assert_eq(tn__array_transpose(array, NULL, &view), TN_OK);
  cr_assert_eq(tn__array_to_dlpack_versioned(view, &d), TN_OK);
  cr_expect_eq(d->flags, TN_DLPACK_READ_ONLY);
  d->deleter(d);
  tn__array_release(view), tn__array_release(array);
  cr_expect_eq(n_deleted, 1);
}

static void expect_code(tn_dtype dtype, int code, int bits) {
  tn_dlpack *d = NULL;
  tn_array *array = empty(dtype, SHAPE(2));
  cr_assert_eq(tn__array_to_dlpack(array, &d), TN_OK);
  DLManagedTensor theirs;
  memcpy(&theirs, d, sizeof theirs);
  cr_expect_eq(theirs.dl_tensor.dtype.code, code);
  cr_expect_eq(theirs.dl_tensor.dtype.bits, bits);
  cr_expect_eq(theirs.dl_tensor.dtype.lanes, 1);
  cr_expect_eq(theirs.dl_tensor.device.device_type, kDLCPU);
  d->deleter(d);
  tn__array_release(array);
}

Test(dlpack, element_types_have_the_codes_of_dlpack) {
  expect_code(TN_BF16, kDLBfloat, 16);
  expect_code(TN_BOOL, 6 /* kDLBool since 0.8 */, 8);
  expect_code(TN_F16, kDLFloat, 16);
  expect_code(TN_F64, kDLFloat, 64);
  expect_code(TN_I8, kDLInt, 8);
  expect_code(TN_U64, kDLUInt, 64);
}

Test(dlpack, never_written_arrays_are_exported_as_zeros) {
  tn_dlpack *d = NULL;
  tn_array *array = empty(TN_F32, SHAPE(100)), *part = NULL;
  cr_assert_eq(
      tn__array_slice(array, &(tn_range){.begin = 90, .end = 100}, &part),
      TN_OK);
  cr_assert_eq(tn__array_to_dlpack(part, &d), TN_OK, "%s", tn_error_text());
  for (int i = 0; i < 10; ++i) cr_expect_eq(((float *)d->tensor.data)[i], 0);
  d->deleter(d);
  tn__array_release(part), tn__array_release(array);
}

Test(dlpack, empty_and_0_d_arrays_are_exported_and_imported) {
  tn_array *arrays[] = {empty(TN_F32, SHAPE(2, 0)), scalar(3)};
  for (size_t i = 0; i < 2; ++i) {
    tn_dlpack *d = NULL;
    cr_assert_eq(tn__array_to_dlpack(arrays[i], &d), TN_OK);
    tn__array_release(arrays[i]);
    cr_expect_eq(d->tensor.data == NULL, i == 0);
    tn_array *back = import_array(d);
    cr_expect_eq(back->tensor.ndim, i == 0 ? 2 : 0);
    if (i == 1) expect(back, VALUES(3));
    tn__array_release(back);
  }
}

static tn_code fail_job(void *arg, tn__token *token) {
  (void)arg, (void)token;
  return tn__fail(TN_DEVICE, "the disk of the calculator is full");
}

Test(dlpack, an_array_that_carries_an_error_is_not_exported) {
  tn_dlpack *d = NULL;
  tn_array *array = scalar(1);
  const tn__access use = {&array->block->var, TN__OVERWRITE, 0};
  (void)!tn__push(
      w.env.engine,
      &(tn__job){
          .name = "broken", .run = fail_job, .access = &use, .n_access = 1});
  cr_expect_eq(tn__array_to_dlpack(array, &d), TN_DEVICE);
  EXPECT_TEXT("the calculator");
  cr_expect_null(d);
  tn__array_release(array);
}
