/* SPDX-License-Identifier: Apache-2.0
 * Compiled, never run: tn_tensor is DLPack's DLTensor, member by member, and a
 * tn_dtype is a DLDataType. Debian's DLPack is 0.6: it has no name for bool;
 * later versions added its code 6.
 */
#include <assert.h>
#include <dlpack/dlpack.h>
#include <tenon/plugin/op.h>

#define SAME(ours, theirs)                                               \
  static_assert(offsetof(tn_tensor, ours) == offsetof(DLTensor, theirs), \
                #ours " is not where DLPack has " #theirs);              \
  static_assert(                                                         \
      sizeof(((tn_tensor *)0)->ours) == sizeof(((DLTensor *)0)->theirs), \
      #ours " is not as wide as DLPack's " #theirs)

static_assert(sizeof(tn_tensor) == sizeof(DLTensor), "size of a tensor");
SAME(data, data);
SAME(device_type, device.device_type);
SAME(device_id, device.device_id);
SAME(ndim, ndim);
SAME(dtype, dtype);
SAME(shape, shape);
SAME(strides, strides);
SAME(byte_offset, byte_offset);

static_assert(offsetof(DLDataType, code) == 0, "code is the lowest byte");
static_assert(offsetof(DLDataType, bits) == 1, "bits is the second byte");
static_assert(offsetof(DLDataType, lanes) == 2, "lanes is the upper half");

#define CODE(dtype) ((dtype)&0xffu)
static_assert(CODE(TN_I8) == kDLInt && CODE(TN_I64) == kDLInt, "int");
static_assert(CODE(TN_U8) == kDLUInt && CODE(TN_U64) == kDLUInt, "uint");
static_assert(CODE(TN_F16) == kDLFloat && CODE(TN_F64) == kDLFloat, "float");
static_assert(CODE(TN_BF16) == kDLBfloat, "bfloat");
static_assert((TN_F32 >> 8 & 0xffu) == 32 && TN_F32 >> 16 == 1, "bits, lanes");

static_assert((int)TN_DEVICE_CPU == (int)kDLCPU, "cpu");
static_assert((int)TN_DEVICE_CUDA == (int)kDLCUDA, "cuda");
static_assert((int)TN_DEVICE_CUDA_HOST == (int)kDLCUDAHost, "cuda host");
