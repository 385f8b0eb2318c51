/* SPDX-License-Identifier: Apache-2.0
 * plans.c: a cache of plans. A plan takes milliseconds to create, and seconds
 * if cuDNN compiles. So threads create plans outside of the lock, and the
 * second of two equal plans is destroyed.
 */
#include <stdlib.h>
#include <string.h>

#include "kit.h"

/* Padding with undefined bytes would give equal tasks different keys. */
_Static_assert(sizeof(cudnn_task) == 4 * 4 + 8 * (1 + 3 * CUDNN_MOST_DIMS +
                                                  4 * CUDNN_MOST_RANK + 2),
               "a key without gaps");

void cudnn_plans_open(cudnn_plans *plans, int most) {
  *plans = (cudnn_plans){.most = most};
  (void)pthread_mutex_init(&plans->lock, NULL);
}

static void destroy_one(const cudnn_maker *maker, cudnn_plan *plan) {
  maker->unmake(maker->arg, plan->task.device, &plan->made);
  free(plan);
}

/* Destroys a plan, and its second plan unless that has other users; a second
 * plan has no second plan. */
static void destroy_plan(cudnn_plans *plans, const cudnn_maker *maker,
                         cudnn_plan *plan) {
  cudnn_plan *beside = plan->beside;
  destroy_one(maker, plan);
  if (!beside) return;
  (void)pthread_mutex_lock(&plans->lock);
  const int is_last = --beside->n_users == 0 && !beside->is_kept;
  (void)pthread_mutex_unlock(&plans->lock);
  if (is_last) destroy_one(maker, beside);
}

/* ------------------------------------------------------- the list; locked */

static void take_out(cudnn_plans *plans, cudnn_plan *plan) {
  *(plan->newer ? &plan->newer->older : &plans->newest) = plan->older;
  *(plan->older ? &plan->older->newer : &plans->oldest) = plan->newer;
  plan->is_kept = 0;
  --plans->n_kept;
}

static void put_in_front(cudnn_plans *plans, cudnn_plan *plan) {
  plan->newer = NULL;
  plan->older = plans->newest;
  *(plan->older ? &plan->older->newer : &plans->oldest) = plan;
  plans->newest = plan;
  plan->is_kept = 1;
  ++plans->n_kept;
}

/* Finds the plan of a key, which becomes the newest and gets one more user. */
static cudnn_plan *find_plan(cudnn_plans *plans, const cudnn_task *task,
                             uint64_t hash) {
  cudnn_plan *plan = plans->newest;
  while (plan &&
         (plan->hash != hash || memcmp(&plan->task, task, sizeof *task) != 0))
    plan = plan->older;
  if (!plan) return NULL;
  take_out(plans, plan);
  put_in_front(plans, plan);
  ++plan->n_users;
  return plan;
}

/* Removes the oldest plan if there are too many. Returns it for destruction, or
 * NULL if it has users or is the newest plan: its last user destroys it. */
static cudnn_plan *evict_plan(cudnn_plans *plans, const cudnn_plan *newest) {
  cudnn_plan *plan = plans->oldest;
  if (plans->n_kept <= plans->most) return NULL;
  take_out(plans, plan);
  return plan->n_users == 0 && plan != newest ? plan : NULL;
}

/* -------------------------------------------------------------- take, give */

/* FNV-1a. */
static uint64_t hash_of(const cudnn_task *task) {
  unsigned char bytes[sizeof *task];
  uint64_t hash = 14695981039346656037u;
  memcpy(bytes, task, sizeof *task);
  for (size_t i = 0; i < sizeof *task; ++i)
    hash = (hash ^ bytes[i]) * 1099511628211u;
  return hash;
}

static int make_plan(const cudnn_maker *maker, const cudnn_task *task,
                     cudnn_plan **out) {
  cudnn_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return DNN_NO_HOST_MEMORY;
  memcpy(&plan->task, task, sizeof *task);
  plan->hash = hash_of(task);
  plan->n_users = 1;
  const int status = maker->make(maker->arg, task, &plan->made);
  if (status == DNN_OK)
    *out = plan;
  else
    free(plan);
  return status;
}

/* Adds a new plan to the cache, or finds the one that another thread added
 * meanwhile. */
static cudnn_plan *keep_plan(cudnn_plans *plans, const cudnn_maker *maker,
                             cudnn_plan *made) {
  (void)pthread_mutex_lock(&plans->lock);
  cudnn_plan *other = find_plan(plans, &made->task, made->hash);
  cudnn_plan *useless = other ? made : NULL;
  if (!other) {
    put_in_front(plans, made);
    useless = evict_plan(plans, made);
  }
  (void)pthread_mutex_unlock(&plans->lock);
  if (useless) destroy_plan(plans, maker, useless);
  return other ? other : made;
}

int cudnn_plans_take(cudnn_plans *plans, const cudnn_maker *maker,
                     const cudnn_task *task, cudnn_plan **out) {
  (void)pthread_mutex_lock(&plans->lock);
  *out = find_plan(plans, task, hash_of(task));
  (void)pthread_mutex_unlock(&plans->lock);
  if (*out) return DNN_OK;
  const int status = make_plan(maker, task, out);
  if (status == DNN_OK) *out = keep_plan(plans, maker, *out);
  return status;
}

void cudnn_plans_give(cudnn_plans *plans, const cudnn_maker *maker,
                      cudnn_plan *plan) {
  if (!plan) return;
  (void)pthread_mutex_lock(&plans->lock);
  const int is_last = --plan->n_users == 0 && !plan->is_kept;
  (void)pthread_mutex_unlock(&plans->lock);
  if (is_last) destroy_plan(plans, maker, plan);
}

static cudnn_plan *get_second(cudnn_plans *plans, const cudnn_plan *plan) {
  (void)pthread_mutex_lock(&plans->lock);
  cudnn_plan *there = plan->beside;
  (void)pthread_mutex_unlock(&plans->lock);
  return there;
}

int cudnn_plans_beside(cudnn_plans *plans, const cudnn_maker *maker,
                       cudnn_plan *plan, const cudnn_task *task,
                       cudnn_plan **out) {
  cudnn_plan *made = NULL;
  *out = get_second(plans, plan);
  if (*out) return DNN_OK;
  const int status = cudnn_plans_take(plans, maker, task, &made);
  if (status != DNN_OK) return status;
  (void)pthread_mutex_lock(&plans->lock);
  const int is_first = !plan->beside;
  if (is_first) plan->beside = made;
  *out = plan->beside;
  (void)pthread_mutex_unlock(&plans->lock);
  if (!is_first) cudnn_plans_give(plans, maker, made);
  return DNN_OK;
}

/* Plans of the cache use second plans, which lose their last user here. */
void cudnn_plans_close(cudnn_plans *plans, const cudnn_maker *maker) {
  for (cudnn_plan *plan = plans->newest; plan; plan = plan->older) {
    cudnn_plans_give(plans, maker, plan->beside);
    plan->beside = NULL;
  }
  for (cudnn_plan *plan = plans->newest, *older; plan; plan = older) {
    older = plan->older;
    destroy_one(maker, plan);
  }
  (void)pthread_mutex_destroy(&plans->lock);
}
