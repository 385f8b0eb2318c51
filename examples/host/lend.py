# SPDX-License-Identifier: Apache-2.0
"""An array of libtenon in the hands of NumPy, by DLPack and without a copy.

    lend.py LIBTENON
"""

import ctypes
import sys

import numpy

tenon = ctypes.CDLL(sys.argv[1])
tenon.tn_error_text.restype = ctypes.c_char_p
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
F32 = 2 | 32 << 8 | 1 << 16


def check(code):
    if code:
        raise RuntimeError(tenon.tn_error_text().decode())


class Spec(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_uint32), ("ndim", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64))]


class Array:
    """The methods that `numpy.from_dlpack` and `torch.from_dlpack` call."""

    def __init__(self, runtime, *shape):
        self.handle = ctypes.c_void_p()
        lengths = (ctypes.c_int64 * len(shape))(*shape)
        check(tenon.tn_array_create(
            runtime, ctypes.byref(Spec(F32, len(shape), lengths)),
            ctypes.byref(self.handle)))

    def __dlpack__(self, stream=None):
        lent = ctypes.c_void_p()
        check(tenon.tn_array_to_dlpack(self.handle, ctypes.byref(lent)))
        return new_capsule(lent, b"dltensor", None)

    def __dlpack_device__(self):
        return 1, 0  # the cpu


runtime = ctypes.c_void_p()
check(tenon.tn_runtime_create(None, ctypes.byref(runtime)))
array = Array(runtime, 2, 3)
values = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
check(tenon.tn_array_set(array.handle, values,
                         ctypes.c_size_t(ctypes.sizeof(values))))
borrowed = numpy.from_dlpack(array)
tenon.tn_array_release(array.handle)
tenon.tn_runtime_release(runtime)
print(borrowed.sum(axis=0))  # NumPy keeps the memory
