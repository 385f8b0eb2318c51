/* SPDX-License-Identifier: Apache-2.0
 * Compiled, never run: op.h and note.h must have the sizes, offsets and values
 * that are committed in sdk/abi/. TN_ABI_NUMBERS names the file;
 * tests/abi/test_abi.py compiles this as C11 and C++17 for every target minor.
 */
#include <assert.h>
#include <tenon/plugin/note.h>

#define TN_ABI_SIZE(type, bytes)                                     \
  static_assert(sizeof(type) == (bytes), "size of " #type " moved"); \
  static_assert(sizeof(type) % 4 == 0, #type " has a ragged end");
#define TN_ABI_OFFSET(type, member, bytes)                           \
  static_assert(offsetof(type, member) == (bytes), #type "." #member \
                                                         " move"     \
                                                         "d");
#define TN_ABI_VALUE(name, number) \
  static_assert((name) == (number), #name " changed its value");

#include TN_ABI_NUMBERS
