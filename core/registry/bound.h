/* SPDX-License-Identifier: Apache-2.0
 * bound.h: operators of a manifest without compiled code. For the files of the
 * registry that load them.
 *
 * files: manifest.c           makes a plugin of a manifest and enters it
 *        bound.c              finds a library's function and calls it (libffi)
 *        strict.h, strict.c   calls a function so that wrong prototypes fail
 *        probe.c              runs its examples in a separate process
 */
#ifndef TENON_REGISTRY_BOUND_H_
#define TENON_REGISTRY_BOUND_H_

#include "module.h"
#include "registry.h"

/* Data of a kernel that calls a library's function: the value of
 * tn_frame.options, where compiled kernels have their options. */
typedef struct tn__bound tn__bound;

/* Opens the library, finds the function and prepares calls of it. `folder`
 * replaces "./" in a library's name. The message of TN_NOT_FOUND names the
 * libraries that were tried, or the one without such a symbol. The caller frees
 * *out. Libraries stay open, because the registry cannot know whether closing
 * one is safe. */
tn_code tn__bound_create(tn__registry *registry, const char *folder,
                         const tnm_operator *op, tn__bound **out);

/* tn_kernel.prepare and tn_kernel.compute of every bound kernel. */
int32_t tn__bound_prepare(const tn_frame *call, tn_plan *plan);
int32_t tn__bound_compute(const tn_frame *call);

/* Runs every example of a manifest in a separate process. TN_OK, or the reason
 * why its operators must not be used. `from` as for tnm_module.read. */
tn_code tn__probe_manifest(tn__registry *registry, const tnm_origin *from);

#endif /* TENON_REGISTRY_BOUND_H_ */
