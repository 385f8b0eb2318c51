/* SPDX-License-Identifier: Apache-2.0
 * test_device_arrays.c: DLPack and files with arrays of devices. The devices
 * compute late and report accesses without a wait (tests/storage/fake.h).
 */
#include <criterion/criterion.h>

#include "fake_end.h"
#include "filebox.h"

static fake *f;
static tn__device *device;

static void setup(void) {
  box_open();
  f = fake_create(&(fake_options){.count = 1, .latency_us = 50, .seed = 3});
  cr_assert_eq(tn__devices_add(w.devices, fake_table(f)), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__device_parse(w.devices, "fake(0)", &device), TN_OK);
}

static void teardown(void) {
  box_close();
  end_fake(f);
}

TestSuite(device_arrays, .init = setup, .fini = teardown);

static tn_array *make_array(void) {
  tn_array *x = NULL;
  cr_assert_eq(tn__array_create_on(device, SPEC(TN_F32, 2, 3), &x), TN_OK, "%s",
               tn_error_text());
  return x;
}

static tn_array *make_six(void) {
  tn_array *x = make_array();
  cr_assert_eq(tn__array_set(x, (float[]){1, 2, 3, 4, 5, 6}, 24), TN_OK, "%s",
               tn_error_text());
  return x;
}

Test(device_arrays, memory_of_a_device_is_exported_and_imported_in_place) {
  tn_dlpack *d = NULL;
  tn_array *x = make_six(), *back = NULL;
  cr_assert_eq(tn__array_to_dlpack(x, &d), TN_OK, "%s", tn_error_text());
  cr_expect_eq(d->tensor.device_type, device->type);
  cr_expect_eq(d->tensor.device_id, 0);
  cr_assert_eq(tn__array_from_dlpack(&w.env, d, 0, &back), TN_OK, "%s",
               tn_error_text());
  cr_expect_eq(tn__array_data(back), tn__array_data(x));
  cr_expect_eq(back->block->device, device);
  expect(back, VALUES(1, 2, 3, 4, 5, 6));
  tn__array_release(back);
  tn__array_release(x);
}

Test(device_arrays, read_only_memory_of_a_device_is_copied_there) {
  tn_dlpack_versioned *d = NULL;
  tn_array *x = make_six(), *back = NULL;
  cr_assert_eq(tn__array_to_dlpack_versioned(x, &d), TN_OK);
  d->flags = TN_DLPACK_READ_ONLY;
  cr_assert_eq(tn__array_from_dlpack_versioned(&w.env, d, 0, &back), TN_OK,
               "%s", tn_error_text());
  tn__array_release(x);
  cr_expect_eq(back->block->device, device);
  expect(back, VALUES(1, 2, 3, 4, 5, 6));
  tn__array_release(back);
}

Test(device_arrays, never_written_arrays_are_exported_as_zeros) {
  tn_dlpack *d = NULL;
  tn_array *x = make_array(), *back = NULL;
  cr_assert_eq(tn__array_to_dlpack(x, &d), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn__array_from_dlpack(&w.env, d, 0, &back), TN_OK);
  expect(back, VALUES(0, 0, 0, 0, 0, 0));
  tn__array_release(back);
  tn__array_release(x);
}

Test(device_arrays, arrays_of_devices_are_saved) {
  tn_array *x = make_six(), *turned = NULL;
  cr_assert_eq(tn__array_transpose(x, NULL, &turned), TN_OK);
  const tn_bundle_item items[] = {{"x", x}, {"turned", turned}};
  const char *path = box_path("x.safetensors");
  cr_assert_eq(tn__bundle_save(&w.env, path,
                               &(tn_bundle_content){
                                   .struct_size = sizeof(tn_bundle_content),
                                   .items = items,
                                   .n_items = 2}),
               TN_OK, "%s", tn_error_text());
  expect_array(path, "x", SPEC(TN_F32, 2, 3), (float[]){1, 2, 3, 4, 5, 6});
  expect_array(path, "turned", SPEC(TN_F32, 3, 2), (float[]){1, 4, 2, 5, 3, 6});
  tn__array_release(turned);
  tn__array_release(x);
}
