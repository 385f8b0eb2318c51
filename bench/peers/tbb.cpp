/* SPDX-License-Identifier: Apache-2.0
 * The patterns of work.h under oneTBB:  tbb THREADS SHRINK
 *
 *   flow      a flow graph of continue_nodes, built once and run again
 *   light     the same with the policy `lightweight`: bodies run on the thread
 *             that makes them ready; not for the chain, which would recurse a
 *             million deep
 *   group     a task_group and a counter per task; ready tasks are spawned
 *   enqueue   independent tasks handed to THREADS workers by a thread that
 *             executes none of them
 */
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "../measure.h"
#include "../work.h"

namespace {

using tbb::flow::continue_msg;

template <typename Once>
void measure(const work &w, const char *variant, Once once) {
  const std::string name = std::string(w.name) + "/" + variant;
  measure_tasks(
      name.c_str(), w.n_tasks * w.times,
      [](void *arg) { (*static_cast<Once *>(arg))(); }, &once);
}

template <typename Policy>
void flow(const work &w, const work_edges &e, const char *variant) {
  using node = tbb::flow::continue_node<continue_msg, Policy>;
  tbb::flow::graph graph;
  std::deque<node> nodes;
  std::vector<node *> sources;
  for (size_t i = 0; i < w.n_tasks; ++i)
    nodes.emplace_back(graph, [](const continue_msg &) {
      measure_task();
      return continue_msg();
    });
  for (size_t i = 0; i < w.n_tasks; ++i) {
    if (e.n_before[i] == 0) sources.push_back(&nodes[i]);
    for (uint32_t at = e.first[i]; at < e.first[i + 1]; ++at)
      tbb::flow::make_edge(nodes[i], nodes[e.successors[at]]);
  }
  measure(w, variant, [&] {
    for (size_t k = 0; k < w.times; ++k) {
      for (node *source : sources) source->try_put(continue_msg());
      graph.wait_for_all();
    }
  });
}

/* A program with counters that spawns each task when it becomes ready. */
class group {
 public:
  group(const work &w, const work_edges &e)
      : w_(w), e_(e), before_(new std::atomic<uint32_t>[w.n_tasks]) {
    for (size_t i = 0; i < w.n_tasks; ++i) before_[i] = e.n_before[i];
  }

  void run() {
    for (uint32_t i = 0; i < w_.n_tasks; ++i)
      if (e_.n_before[i] == 0) spawn(i);
    tasks_.wait();
  }

 private:
  void spawn(uint32_t i) {
    tasks_.run([this, i] { execute(i); });
  }

  void execute(uint32_t i) {
    measure_task();
    before_[i].store(e_.n_before[i], std::memory_order_relaxed);
    for (uint32_t at = e_.first[i]; at < e_.first[i + 1]; ++at)
      if (before_[e_.successors[at]].fetch_sub(1) == 1)
        spawn(e_.successors[at]);
  }

  const work &w_;
  const work_edges &e_;
  std::unique_ptr<std::atomic<uint32_t>[]> before_;
  tbb::task_group tasks_;
};

void grouped(const work &w, const work_edges &e) {
  group tasks(w, e);
  measure(w, "group", [&] {
    for (size_t k = 0; k < w.times; ++k) tasks.run();
  });
}

void enqueued(const work &w, int threads) {
  tbb::global_control more(tbb::global_control::max_allowed_parallelism,
                           static_cast<size_t>(threads) + 1);
  tbb::task_arena workers(threads, 0);
  tbb::task_group tasks;
  measure(w, "enqueue", [&] {
    for (size_t i = 0; i < w.n_tasks; ++i)
      workers.enqueue(tasks.defer([] { measure_task(); }));
    tasks.wait();
  });
}

void all_of(const work &w, size_t index, int threads) {
  using policies = tbb::flow::lightweight;
  std::unique_ptr<work_edges, void (*)(work_edges *)> e(work_edges_create(&w),
                                                        work_edges_release);
  {
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                              static_cast<size_t>(threads));
    flow<tbb::flow::queueing>(w, *e, "flow");
    if (index != 0) flow<policies>(w, *e, "light");
    grouped(w, *e);
  }
  if (index == 1) enqueued(w, threads);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  measure_join();
  for (size_t i = 0; i < WORKS; ++i) {
    work *w = work_create(i, static_cast<size_t>(std::atoi(argv[2])));
    all_of(*w, i, std::atoi(argv[1]));
    work_release(w);
  }
  return 0;
}
