// The yardstick of `scalai exec bench`: a matrix of 4-byte elements, cut by rows over the ranks, becomes one cut by
// columns, with one MPI_Alltoallw of subarray types. Rank 0 prints {"ranks": …, "bytes": …, "seconds": median}.
//
//   mpirun -np N alltoallw_bench [--rows=R] [--columns=C] [--repetitions=K]
//
// Both buffers are touched, and one exchange is done, before the clock starts; a repetition takes as long as its
// slowest rank. Every element is checked after the last one. Exit codes: 0 done; 2 command line; 5 an element is wrong.

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

struct Options {
  int64_t rows = 16384, columns = 16384;
  int repetitions = 5;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view name = word.substr(0, equals);
    const int64_t value = std::strtoll(argv[i] + equals + 1, nullptr, 10);
    if (value < 1 || value > INT32_MAX) return false;
    if (name == "--rows") {
      options.rows = value;
    } else if (name == "--columns") {
      options.columns = value;
    } else if (name == "--repetitions") {
      options.repetitions = static_cast<int>(value);
    } else {
      return false;
    }
  }
  return true;
}

// Part `index` of `parts`: the first ones have one more.
struct Range {
  int begin = 0, count = 0;
};
Range part_of(int64_t extent, int parts, int index) {
  const int64_t each = extent / parts, more = extent % parts;
  return {static_cast<int>(index * each + std::min<int64_t>(index, more)), static_cast<int>(each + (index < more))};
}

uint32_t value_at(int64_t row, int64_t column) {
  return static_cast<uint32_t>(row) * 2654435761U ^ static_cast<uint32_t>(column) * 40503U;
}

MPI_Datatype block(int rows, int columns, int block_rows, int block_columns, int row, int column) {
  const int sizes[] = {rows, columns}, parts[] = {block_rows, block_columns}, starts[] = {row, column};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_UINT32_T, &type);
  MPI_Type_commit(&type);
  return type;
}

class Exchange {
 public:
  Exchange(const Options& options, int rank, int ranks)
      : options_(options),
        rows_(part_of(options.rows, ranks, rank)),
        columns_(part_of(options.columns, ranks, rank)),
        from_(static_cast<size_t>(rows_.count * options.columns)),
        to_(static_cast<size_t>(options.rows * columns_.count)),
        counts_(static_cast<size_t>(ranks), 1),
        displacements_(static_cast<size_t>(ranks), 0) {
    for (int64_t row = 0; row < rows_.count; ++row) {
      for (int64_t column = 0; column < options.columns; ++column)
        from_[static_cast<size_t>(row * options.columns + column)] = value_at(rows_.begin + row, column);
    }
    for (int peer = 0; peer < ranks; ++peer) {
      const Range columns = part_of(options.columns, ranks, peer), rows = part_of(options.rows, ranks, peer);
      send_.push_back(
          block(rows_.count, static_cast<int>(options.columns), rows_.count, columns.count, 0, columns.begin));
      receive_.push_back(
          block(static_cast<int>(options.rows), columns_.count, rows.count, columns_.count, rows.begin, 0));
    }
  }

  // Seconds of the slowest rank.
  double run() {
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    MPI_Alltoallw(from_.data(), counts_.data(), displacements_.data(), send_.data(), to_.data(), counts_.data(),
                  displacements_.data(), receive_.data(), MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - began, slowest = 0;
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
  }

  bool all_right() const {
    int right = 1, all = 0;
    for (int64_t row = 0; row < options_.rows; ++row) {
      for (int64_t column = 0; column < columns_.count; ++column) {
        const uint32_t found = to_[static_cast<size_t>(row * columns_.count + column)];
        if (found != value_at(row, columns_.begin + column)) right = 0;
      }
    }
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all == 1;
  }

 private:
  const Options options_;
  const Range rows_, columns_;
  std::vector<uint32_t> from_, to_;
  std::vector<int> counts_, displacements_;
  std::vector<MPI_Datatype> send_, receive_;
};

int run(const Options& options) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (options.rows < ranks || options.columns < ranks) return 2;
  Exchange exchange(options, rank, ranks);
  exchange.run();
  std::vector<double> seconds;
  for (int i = 0; i < options.repetitions; ++i) seconds.push_back(exchange.run());
  std::sort(seconds.begin(), seconds.end());
  const size_t half = seconds.size() / 2;
  const double median = seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
  const bool right = exchange.all_right();
  if (rank == 0) {
    std::printf("{\"ranks\": %d, \"bytes\": %lld, \"seconds\": %.9f}\n", ranks,
                static_cast<long long>(options.rows * options.columns * 4), median);
    if (!right) std::fprintf(stderr, "alltoallw_bench: an element is wrong\n");
  }
  return right ? 0 : 5;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options options;
  int code = 2;
  if (parse(argc, argv, options)) {
    code = run(options);
  } else {
    std::fprintf(stderr, "usage: alltoallw_bench [--rows=R] [--columns=C] [--repetitions=K]\n");
  }
  MPI_Finalize();
  return code;
}
