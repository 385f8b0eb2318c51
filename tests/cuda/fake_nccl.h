/* SPDX-License-Identifier: Apache-2.0
 * fake_nccl.h: control of the simulated NCCL by tests.
 */
#ifndef TENON_TESTS_CUDA_FAKE_NCCL_H_
#define TENON_TESTS_CUDA_FAKE_NCCL_H_

/* The calls that a rank has made since the last time, one a line: "all_reduce
 * n=3 type=7 op=0", "{" and "}" around a group. The caller frees it. */
char *fake_nccl_log(int rank);

/* The next exchange of any rank returns `result` and is not made. */
void fake_nccl_refuse(int result);

/* From now on the communicators of a rank report an asynchronous error. */
void fake_nccl_break(int rank, int result);

/* Communicators that are open. */
int fake_nccl_open(void);

/* Communicators that were aborted since the last time. */
int fake_nccl_aborts(void);

/* The version that the library reports; 0: 2.32.3. */
void fake_nccl_set_version(int version);

#endif /* TENON_TESTS_CUDA_FAKE_NCCL_H_ */
