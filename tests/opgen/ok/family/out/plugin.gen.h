/* plugin.gen.h: written by opgen 0.1.0 from plugin.yaml; do not edit.
 * Manifest 5e7c61964dba5739. */
#ifndef MATH_PLUGIN_GEN_H_
#define MATH_PLUGIN_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The entry; with TN_STATIC_PLUGINS, what tn_plugin_add() takes. */
extern const tn_plugin TN_PLUGIN_ENTRY(math);

#ifdef __cplusplus
}
#endif
#endif /* MATH_PLUGIN_GEN_H_ */
