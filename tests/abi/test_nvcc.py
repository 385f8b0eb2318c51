# SPDX-License-Identifier: Apache-2.0
"""The public headers inside CUDA C++: each must compile for the device too.

    test_nvcc.py [NVCC]     without it every case is skipped, and says why
"""

import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import structs  # noqa: E402
import tap  # noqa: E402

NVCC = sys.argv[1] if len(sys.argv) > 1 else None
HEADERS = ["plugin/op.h", "plugin/note.h", "plugin/device.h",
           "kernel/kernel.h", "kernel/convert.h", "kernel/convert_loops.h",
           "kernel/math.h", "kernel/math/wide.h",
           "kernel/math/wide_pieces.h", "kernel/cpu_levels.h",
           "kernel/elementwise.h", "kernel/body_forms.h",
           "kernel/tensor_walk.h", "kernel/strided.h",
           "kernel/elementwise.cuh", "kernel/kernel.cuh",
           "kernel/block_reduce.cuh", "tenon.h", "exchange.h", "define.h",
           "graph.h", "plugin/blas.h", "plugin/lapack.h", "draft/pass.h",
           "draft/reduction.h", "draft/registers.h", "draft/register_loops.h",
           "kernel/checked_size.h", "kernel/philox.h", "kernel/philox.cuh",
           "plugin/device_blas.h", "plugin/device_lapack.h",
           "plugin/device_scope.h",
           "kernel_options.h", "draft/capture.h", "kernel/scatter.cuh",
           "kernel/prefetch.cuh", "kernel/storage.h",
           "kernel/storage_loops.h"]


def compiles(headers, *options):
    """A .cu file that includes them, for one architecture."""
    if not NVCC:
        raise tap.Skip("the CUDA toolkit is not installed, or -Dcuda=disabled")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "header.cu"
        source.write_text("".join(f"#include <tenon/{each}>\n"
                                  for each in headers))
        tap.output([NVCC, "-arch=sm_80", "-Werror", "all-warnings",
                    "-I", structs.INCLUDE, *options, source,
                    "-o", source.with_suffix(".o")])


# Each alone for the device, and once all of them for the host as well; the
# host's compiler takes twice as long to start.
tap.run([(f"{header} compiles in a .cu file",
          lambda h=header: compiles([h], "-ptx")) for header in HEADERS]
        + [("all compile in one .cu file, for device and host",
            lambda: compiles(HEADERS, "-c"))])
