/* SPDX-License-Identifier: Apache-2.0
 * bound.h: operators of a manifest without compiled code, for the files of
 * libtenon-manifest.so. They use core/base, sdk/manifest, and the shape
 * programs of core/registry.
 *
 * files: manifest_module.c    the table that libtenon uses (module.h)
 *        allowed.c            manifests that need a compiler are refused
 *        bound.c              finds a library's function and calls it (libffi)
 *        strict.h, strict.c   calls a function so that wrong prototypes fail
 *        probe.c              runs the examples in a separate process
 */
#ifndef TENON_BINDING_BOUND_H_
#define TENON_BINDING_BOUND_H_

#include "module.h"

/* A prepared function: the value of tn_frame.options, where compiled kernels
 * have their options. */
typedef struct tn__bound tn__bound;

/* Implement the functions of tnm_module; messages are those of tn__fail. */
tn_code tn__bound_create(const tnm_bind_request *what, tn__bound **out);
int32_t tn__bound_prepare(const tn_frame *call, tn_plan *plan);
int32_t tn__bound_compute(const tn_frame *call);
tn_code tn__probe_manifest(const tnm_probe *how);
tn_code tn__manifest_check(const tnm_origin *from, const tnm_plugin *manifest,
                           const tn_host_kernels *host);

/* The name of a manifest in messages. */
static inline const char *tn__origin_name(const tnm_origin *from) {
  return from->path ? from->path : from->text.path;
}

#endif /* TENON_BINDING_BOUND_H_ */
