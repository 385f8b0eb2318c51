/* SPDX-License-Identifier: Apache-2.0
 * kinds.h: the kinds of engines. This folder only.
 */
#ifndef TENON_ENGINE_KINDS_H_
#define TENON_ENGINE_KINDS_H_

#include "engine_state.h"

extern const tn__engine_kind tn__kind_pooled;      /* push.c */
extern const tn__engine_kind tn__kind_dispatching; /* mailbox.c */
extern const tn__engine_kind tn__kind_naive;       /* naive.c */

#endif /* TENON_ENGINE_KINDS_H_ */
