// Bounds of the known graphs beside one order of evaluation, as CSV on stdout; results/bounds/run writes it to a file.
// A program without Google Benchmark: the numbers are transfers, `seconds` is what the eigenvalues of
// the graph (star) took.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "labs/bounds/eigenvalues.h"
#include "labs/bounds/known_graphs.h"
#include "labs/bounds/replay.h"
#include "labs/bounds/spectral.h"
#include "labs/bounds/wavefront.h"
#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

constexpr uint64_t kSeed = 1;

// Jain and Zaharia's form, max over k of floor(n/k)·Σλ − 2Mk, of these eigenvalues.
int64_t published(const std::vector<double>& eigenvalues, double weight, int64_t operations, int64_t capacity) {
  double best = 0, sum = 0;
  for (int64_t k = 1; k <= std::min<int64_t>(std::ssize(eigenvalues), kEigenvalues); ++k) {
    sum += weight * eigenvalues[static_cast<size_t>(k - 1)];
    best = std::max(best, static_cast<double>(operations / k) * sum - 2.0 * static_cast<double>(capacity * k));
  }
  return static_cast<int64_t>(best);
}

struct Case {
  const char* name;
  int size;
  ComputationGraph graph;
  std::vector<double> closed_form;  // of the Laplacian without weights; empty = unknown
  std::vector<int64_t> capacities;
};

// Without inputs and results the weights are those of spectral_bound(), so one spectrum serves all capacities.
int64_t bound(const Spectrum& spectrum, const ComputationGraph& graph, const Machine& machine) {
  return static_cast<int64_t>(best_sum(spectrum, graph.operations(), machine).transfers);
}

absl::Status print(const Case& one) {
  const ComputationGraph& graph = one.graph;
  const auto begin = std::chrono::steady_clock::now();
  SCALAI_ASSIGN_OR_RETURN(const Spectrum star, smallest_eigenvalues(expand(graph, Expansion::kStar), kEigenvalues));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  SCALAI_ASSIGN_OR_RETURN(const Spectrum clique, smallest_eigenvalues(expand(graph, Expansion::kClique), kEigenvalues));
  std::vector<int32_t> order;
  size_t edges = 0, most_users = 1;
  for (int32_t value = 0; value < graph.values(); ++value) {
    order.push_back(value);
    edges += graph.operands(value).size();
    most_users = std::max(most_users, graph.users(value).size());
  }
  const double weight = 1 / static_cast<double>(most_users);
  for (const int64_t capacity : one.capacities) {
    const Machine machine = {.capacity = capacity};
    const Machine four = {.capacity = capacity, .processors = 4, .even_split = true};
    SCALAI_ASSIGN_OR_RETURN(const Transfers played, replay(graph, order, capacity));
    const int64_t known = published(one.closed_form, weight, graph.values(), capacity);
    fmt::print("{},{},{},{},{},{},{},{},{},{},{},{},{:.2f}\n", one.name, one.size, graph.values(), edges, capacity,
               one.closed_form.empty() ? "" : fmt::format("{}", known),
               published(star.lower, 1, graph.values(), capacity), bound(star, graph, machine),
               bound(clique, graph, machine), wavefront_bound(graph, machine, moments_of(graph, 64)).transfers,
               std::max(bound(star, graph, four), bound(clique, graph, four)), played.sum(), elapsed.count());
  }
  std::fflush(stdout);
  return absl::OkStatus();
}

absl::Status print_all() {
  fmt::print(
      "graph,size,operations,edges,capacity,closed_form,published,star,clique,wavefront,even_split_of_4,replay,"
      "seconds\n");
  for (const int levels : {4, 6, 8, 10})
    SCALAI_RETURN_IF_ERROR(print({"fft", levels, butterfly(levels), butterfly_spectrum(levels), {2, 4, 8, 16}}));
  for (const int cities : {6, 8, 10, 11})
    SCALAI_RETURN_IF_ERROR(print({"bellman_held_karp",
                                  cities,
                                  bellman_held_karp(cities),
                                  hypercube_spectrum(cities),
                                  {cities, 2 * cities, 4 * cities}}));
  for (const int n : {4, 6, 8, 12})
    SCALAI_RETURN_IF_ERROR(print({"matrix_product", n, matrix_product(n), {}, {2, 4, 8, 16}}));
  for (const int values : {250, 500, 1000, 2000})
    SCALAI_RETURN_IF_ERROR(print({"random", values, random_graph(values, 8.0 / values, 8, kSeed), {}, {8, 16, 32}}));
  return absl::OkStatus();
}

}  // namespace
}  // namespace scalai::bounds

int main() {
  const absl::Status status = scalai::bounds::print_all();
  if (!status.ok()) fmt::print(stderr, "bounds_bench: {}\n", scalai::message_of(status));
  return scalai::exit_code_of(status);
}
