/* SPDX-License-Identifier: Apache-2.0
 * A plugin that does nothing wrong.
 * says:
 *   nothing
 */
#include "bad.h"
