/* SPDX-License-Identifier: Apache-2.0
 * Memory of published nets: of the default plan, of plans by the rules of MXNet
 * 0.12 with and without in-place and sharing, and the lower bound of all plans.
 *
 *   plans     bytes by plan and net, and the seconds that the default plan took
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "compat/compat.h"
#include "measure.h"
#include "nets.h"

static const int RESNET_50[4] = {3, 4, 6, 3};
static const int RESNET_1000[4] = {3, 150, 177, 3};

static net_graph *make_net(int which) {
  switch (which) {
    case 0:
      return net_inception_bn(32, false);
    case 1:
      return net_inception_bn(32, true);
    case 2:
      return net_resnet(32, RESNET_50);
    case 3:
      return net_alexnet(64);
    case 4:
      return net_vgg16(64);
    case 5:
      return net_googlenet(64);
    case 6:
      return net_lstm(20, 4);
    case 7:
      return net_lstm(200, 4);
    default:
      return net_resnet(32, RESNET_1000);
  }
}

static const char *const names[] = {
    "inception_bn", "inception_bn_cudnn", "resnet_50", "alexnet",
    "vgg_16",       "googlenet",          "lstm_20",   "lstm_200",
    "resnet_1000"};

static void print_value(const char *plan, const char *net, const char *part,
                        double value) {
  printf("%s/%s_%s %.6f\n", plan, net, part, value);
}

static tn__memory_plan plan_of(const net_plan *lowered,
                               const tn__plan_options *options) {
  tn__memory_plan plan;
  if (tn__memory_plan_init(&plan, tn__env_default(), &lowered->net, options))
    measure_fail("%s", tn_error_text());
  return plan;
}

static void measure_net(const char *name, const char *part, net_graph *n) {
  static const struct {
    const char *name;
    compat_options options;
  } compat[] = {{"none", {.no_inplace = true, .no_share = true}},
                {"inplace", {.no_share = true}},
                {"share", {.no_inplace = true}},
                {"both", {0}}};
  net_plan *lowered = net_lower(n);
  for (size_t i = 0; i < sizeof compat / sizeof *compat; ++i) {
    tn__memory_plan plan;
    if (compat_plan_init(&plan, tn__env_default(), &lowered->net,
                         &compat[i].options))
      measure_fail("%s", tn_error_text());
    print_value(compat[i].name, name, part, (double)sum_separate(&plan));
    tn__memory_plan_deinit(&plan);
  }
  const double start = measure_now();
  tn__memory_plan plan = plan_of(lowered, &(tn__plan_options){0});
  print_value("seconds", name, part, measure_now() - start);
  print_value("default", name, part, (double)tn__memory_plan_bytes(&plan));
  print_value("bound", name, part, (double)tn__memory_plan_lower_bound(&plan));
  tn__memory_plan_deinit(&plan);
  net_plan_free(lowered);
  net_free(n);
}

int main(void) {
  for (int i = 0; i < (int)(sizeof names / sizeof *names); ++i) {
    net_graph *n = make_net(i);
    net_gradient(n, NULL, NULL);
    measure_net(names[i], "train", n);
    measure_net(names[i], "forward", make_net(i));
  }
  return EXIT_SUCCESS;
}
