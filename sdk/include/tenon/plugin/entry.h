/* SPDX-License-Identifier: Apache-2.0
 * plugin/entry.h: an output of a node of a graph, for hosts (graph.h) and for
 * the passes of plugins.
 */
#ifndef TENON_PLUGIN_ENTRY_H_
#define TENON_PLUGIN_ENTRY_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Output `index` of node number `node`, in one graph. Frozen. */
typedef struct tn_entry {
  uint32_t node;
  uint32_t index;
} tn_entry;

/* An omitted optional input. */
#ifdef __cplusplus
#define TN_ENTRY_NONE (tn_entry{TN_NONE, 0})
#else
#define TN_ENTRY_NONE ((tn_entry){TN_NONE, 0})
#endif

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_ENTRY_H_ */
