/* SPDX-License-Identifier: Apache-2.0
 * The patterns of work.h as OpenMP tasks:  openmp THREADS SHRINK
 *
 *   depend    one thread submits tasks with `depend` clauses, as a dynamic
 *             program does
 *   plain     independent tasks without such clauses
 */
#include <cstdlib>
#include <string>
#include <vector>

#include "../measure.h"
#include "../work.h"

namespace {

struct job {
  const work *w;
  int threads;
  std::vector<char> vars;
};

using submit = void(job &);

void chain(job &j) {
  [[maybe_unused]] char *x = j.vars.data();
  for (size_t i = 0; i < j.w->n_tasks; ++i) {
#pragma omp task depend(inout : x[0])
    measure_task();
  }
}

void independent(job &j) {
  [[maybe_unused]] char *x = j.vars.data();
  for (size_t i = 0; i < j.w->n_tasks; ++i) {
#pragma omp task depend(out : x[i])
    measure_task();
  }
}

void plain(job &j) {
  for (size_t i = 0; i < j.w->n_tasks; ++i) {
#pragma omp task
    measure_task();
  }
}

void reads_some([[maybe_unused]] char *x, const uint32_t *use, uint32_t n) {
#pragma omp task depend(iterator(uint32_t k = 0 \
                                 : n),          \
                        in                      \
                        : x[use[k]]) depend(out \
                                            : x[use[n]])
  measure_task();
}

void reads_two([[maybe_unused]] char *x, const uint32_t *use) {
#pragma omp task depend(in : x[use[0]], x[use[1]]) depend(out : x[use[2]])
  measure_task();
}

void reads_one([[maybe_unused]] char *x, const uint32_t *use) {
#pragma omp task depend(in : x[use[0]]) depend(out : x[use[1]])
  measure_task();
}

void reads_none([[maybe_unused]] char *x, const uint32_t *use) {
#pragma omp task depend(out : x[use[0]])
  measure_task();
}

/* n reads and a write; the cheapest form that says so. */
void one_of_many(char *x, const uint32_t *use, uint32_t n) {
  if (n == 0) {
    reads_none(x, use);
  } else if (n == 1) {
    reads_one(x, use);
  } else if (n == 2) {
    reads_two(x, use);
  } else {
    reads_some(x, use, n);
  }
}

void general(job &j) {
  const work &w = *j.w;
  for (size_t k = 0; k < w.times; ++k)
    for (size_t i = 0; i < w.n_tasks; ++i)
      one_of_many(j.vars.data(), w.vars + w.first[i],
                  w.first[i + 1] - w.first[i] - 1);
}

template <submit *Submit>
void once(void *arg) {
  job &j = *static_cast<job *>(arg);
#pragma omp parallel num_threads(j.threads)
#pragma omp single
  Submit(j);
}

template <submit *Submit>
void measure(job &j, const char *variant) {
  const std::string name = std::string(j.w->name) + "/" + variant;
  measure_tasks(name.c_str(), j.w->n_tasks * j.w->times, once<Submit>, &j);
}

void all_of(job &j, size_t index) {
  if (index == 0) {
    measure<chain>(j, "depend");
  } else if (index == 1) {
    measure<independent>(j, "depend");
    measure<plain>(j, "plain");
  } else {
    measure<general>(j, "depend");
  }
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  measure_join();
  for (size_t i = 0; i < WORKS; ++i) {
    work *w = work_create(i, static_cast<size_t>(std::atoi(argv[2])));
    w->times = 1; /* libgomp's cost grows with the square of the queue's length
                   */
    job j = {w, std::atoi(argv[1]), std::vector<char>(w->n_vars)};
    all_of(j, i);
    work_release(w);
  }
  return 0;
}
