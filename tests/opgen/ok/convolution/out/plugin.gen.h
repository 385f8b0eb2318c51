/* plugin.gen.h: written by opgen 0.1.0 from plugin.yaml; do not edit.
 * Manifest c60e3677e98b619a. */
#ifndef NN_PLUGIN_GEN_H_
#define NN_PLUGIN_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The entry; with TN_STATIC_PLUGINS, what tn_plugin_add() takes. */
extern const tn_plugin TN_PLUGIN_ENTRY(nn);

#ifdef __cplusplus
}
#endif
#endif /* NN_PLUGIN_GEN_H_ */
