/* SPDX-License-Identifier: Apache-2.0
 * binding_types.c: the C types of arguments, for the reader of bindings and for
 * the caller of the functions. It uses nothing of the reader.
 */
#include "binding.h"

const char *const tnm_c_names[TNM_C_TYPES + 2] = {
    "int8",   "int16",  "int32", "int64",  "uint8", "uint16",
    "uint32", "uint64", "float", "double", "char",  NULL};

tnm_range tnm_c_range(uint32_t c) {
  static const tnm_range ranges[] = {
      {INT8_MIN, INT8_MAX},   {INT16_MIN, INT16_MAX}, {INT32_MIN, INT32_MAX},
      {INT64_MIN, INT64_MAX}, {0, UINT8_MAX},         {0, UINT16_MAX},
      {0, UINT32_MAX},        {0, INT64_MAX}};
  return c <= TNM_C_U64 ? ranges[c] : (tnm_range){INT64_MIN, INT64_MAX};
}
