/* SPDX-License-Identifier: Apache-2.0
 * bound.h: operators that come from a manifest alone. Shared by the files of
 * the registry that load them.
 *
 * files: manifest.c  a manifest becomes a plugin: read, filled in, entered
 *        bound.c     the function of a library, and a call of it (libffi)
 *        strict.h, strict.c
 *                    a call in which nothing is right by luck
 *        probe.c     its examples, in a process of their own
 */
#ifndef TENON_REGISTRY_BOUND_H_
#define TENON_REGISTRY_BOUND_H_

#include "module.h"
#include "registry.h"

/* What a kernel that calls a library's function needs: stands where compiled
 * kernels have their options, tn_frame.options. */
typedef struct tn__bound tn__bound;

/* Opens the library, finds the function and prepares calls of it. `folder` is
 * where "./" in a library's name is. TN_NOT_FOUND says which libraries were
 * tried, or which has no such symbol. The caller frees *out. Libraries stay
 * open: whether one can be closed, nobody knows. */
tn_code tn__bound_create(tn__registry *registry, const char *folder,
                         const tnm_operator *op, tn__bound **out);

/* tn_kernel.prepare and compute of all of them. */
int32_t tn__bound_prepare(const tn_frame *call, tn_plan *plan);
int32_t tn__bound_compute(const tn_frame *call);

/* Runs every example of a manifest in a process of its own. TN_OK, or the
 * reason why its operators must not be used. `from` as for tnm_module.read. */
tn_code tn__probe(tn__registry *registry, const tnm_origin *from);

#endif /* TENON_REGISTRY_BOUND_H_ */
