/* SPDX-License-Identifier: Apache-2.0
 * by_hand.h: what every plugin has that a test describes by hand, for the
 * beginning of an initialiser:
 *
 *   static const tn_plugin mine = {PLUGIN_BY_HAND("mine", 1, "Two devices"),
 *                                  .init = init};
 */
#ifndef TESTS_BY_HAND_H_
#define TESTS_BY_HAND_H_

#define PLUGIN_BY_HAND(name_, release_, summary_)                \
  .magic = TN_PLUGIN_MAGIC, .struct_size = sizeof(tn_plugin),    \
  .abi_major = TN_ABI_MAJOR, .abi_minor = TN_ABI_MINOR,          \
  .min_host_minor = TN_ABI_MINOR, .flags = TN_PLUGIN_UNLOADABLE, \
  .release = (release_), .name = (name_), .summary = (summary_), \
  .license = "Apache-2.0", .opgen = "by hand"

#endif /* TESTS_BY_HAND_H_ */
