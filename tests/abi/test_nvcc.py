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
HEADERS = ["plugin/op.h", "plugin/note.h", "plugin/device.h", "kernel.h", "convert.h",
           "convert_loops.h", "math.h",
           "math/wide.h", "math/wide_pieces.h", "cpu_levels.h",
           "elementwise.h", "body_forms.h", "tensor_walk.h", "strided.h",
           "elementwise.cuh", "kernel.cuh", "block_reduce.cuh",
           "tenon.h", "exchange.h", "define.h", "graph.h", "plugin/blas.h",
           "pass.h",
           "reduction.h", "registers.h", "register_loops.h", "checked_size.h",
           "philox.h", "philox.cuh", "plugin/device_blas.h",
           "plugin/device_scope.h",
           "kernel_options.h", "capture.h", "scatter.cuh", "prefetch.cuh"]


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
