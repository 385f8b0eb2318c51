/* SPDX-License-Identifier: Apache-2.0
 * fake_end.h: the end of simulated devices for tests with `fini`.
 */
#ifndef TENON_TESTS_STORAGE_FAKE_END_H_
#define TENON_TESTS_STORAGE_FAKE_END_H_

#include "../must.h"
#include "fake.h"

/* Destroys the devices, after all that uses them; a broken rule ends the
 * process. */
static inline void end_fake(fake *devices) {
  must_hold(fake_counts_get(devices).violations == 0, fake_violation(devices));
  fake_destroy(devices);
}

#endif /* TENON_TESTS_STORAGE_FAKE_END_H_ */
