/* plugin.gen.h: written by opgen 0.1.0 from plugin.yaml; do not edit.
 * Manifest 26675be38e311b1a. */
#ifndef HOOKS_PLUGIN_GEN_H_
#define HOOKS_PLUGIN_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* tn_plugin.init: runs when the plugin is loaded. [load] */
int32_t hooks_init(const tn_host *host, tn_registrar *registrar,
                   void **instance);

/* tn_plugin.fini: undoes init. [load] */
void hooks_fini(void *instance);

/* The entry; with TN_STATIC_PLUGINS, what tn_plugin_add() takes. */
extern const tn_plugin TN_PLUGIN_ENTRY(hooks);

#ifdef __cplusplus
}
#endif
#endif /* HOOKS_PLUGIN_GEN_H_ */
