/* SPDX-License-Identifier: Apache-2.0
 * codes_built.c: explanations of E0201 and on, about the code of a built
 * plugin: the side effects of its calls. Text only.
 */
#include <stddef.h>

#include "codes.h"

const tnm_code tnm_codes_built[] = {
    TNM_CODE("E0201", "an operand that a call only reads is written",
             "A call reads its inputs, and a backward call reads the outputs "
             "too. Other operations may\nread the same memory at the same "
             "time. `check` makes this memory read-only.",
             "  x[0] = 0; /* x is call->in[0].data */",
             "  float first = 0; /* a copy, and x stays as it is */"),
    TNM_CODE("E0202", "memory outside of an operand is read or written",
             "`check` computes each example twice more: with memory that ends "
             "at a page that may not\nbe touched, and with memory that begins "
             "after one. `tn_tensor_size` is the number of\nelements; dense "
             "operands have no other bytes.",
             "  for (int64_t i = 0; i <= n; ++i) y[i] = x[i];",
             "  for (int64_t i = 0; i < n; ++i) y[i] = x[i];"),
    TNM_CODE(
        "E0203", "equal inputs give another result",
        "The same call was made again, with the same random numbers. A "
        "`static` variable, an\noutput that is not written as a whole, and "
        "memory outside of an operand are the usual\nreasons. Kernels "
        "with the flag `deterministic` give equal bits, others nearly "
        "equal\nvalues.",
        "  static float sum; /* the next call goes on with it */",
        "  float sum = 0;"),
    TNM_CODE(
        "E0204", "a gradient that needs the other ones",
        "The request for a gradient that is not needed is TN_REQ_NULL, and "
        "its `data` is NULL. A\ntape that watches one input requests one "
        "gradient. `check` requests each of them alone.",
        "  da[i] = g[i]; db[i] = -g[i];",
        "  if (call->req[0] != TN_REQ_NULL) da[i] = g[i];\n"
        "  if (call->req[1] != TN_REQ_NULL) db[i] = -g[i];"),
    TNM_CODE(
        "E0205", "floating-point control that stays changed",
        "A kernel runs on a thread of the host. Rounding, and the flushing "
        "of denormals to 0, are\nproperties of that thread: later calls of "
        "other plugins would compute other results.",
        "  _mm_setcsr(_mm_getcsr() | 0x8040);",
        "  unsigned before = _mm_getcsr();\n"
        "  _mm_setcsr(before | 0x8040);\n"
        "  ...\n"
        "  _mm_setcsr(before);"),
    TNM_CODE(
        "E0206", "code of a plugin prints",
        "The output of the process belongs to the host. The log of the "
        "host takes lines, and\n`TN_FAIL` the reason of a failure.",
        "  printf(\"%d elements\\n\", n);",
        "  call->host->log(call->host, TN_LOG_DEBUG, \"%d elements\", n);"),
    TNM_CODE("E0207", "the state of the process stays changed",
             "Signal handlers, the locale, the current folder, the umask, the "
             "environment and open\nfiles belong to the host, and all its "
             "threads share them.",
             "  setlocale(LC_ALL, \"\");",
             "  locale_t own = newlocale(LC_ALL_MASK, \"\", (locale_t)0);"),
    TNM_CODE("E0208", "a process is left running",
             "A plugin that starts a process waits for it. `check` ends the "
             "others, also one with a\nsession of its own.",
             "  if (fork() == 0) serve();",
             "  posix_spawn(&pid, ...);\n  waitpid(pid, &status, 0);"),
    {NULL, NULL}};
