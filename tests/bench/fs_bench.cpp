// How fast `scalai fs` is beside Debian's bindfs, a file system that passes files through, on the same bytes in the
// same run; and how long mounting a large dataset takes.
//
//   fs_bench [--rounds=5] [--layers=16] [--samples=100000000] [--folder=/tmp] [--csv=FILE]
//
// The checkpoint is a Llama in Hugging Face's form, one file for each of 8 readers (121 MB a layer, bf16). Read through
// views/tp4-pp2 are, rank by rank: "dim 0", the tensors that are cut along their first dimension, and "dim 1", those
// cut along the second (rows of 4 KiB). bindfs shows the source's files; its readers read as many bytes, one file each.
// Reads are of 1 MiB, one after the other. The source lies in the page cache; what the mounts themselves have cached is
// dropped before each measurement. Programs take turns, every other round goes backwards, and what counts is the
// median.
//
// The dataset has TFRecords of 24 bytes. The clock runs from when its index is mapped until a rank's folder is listed.
// Exit codes: 0 done; 2 command line; 4 FUSE or bindfs is missing; 5 something failed.

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ptc/base/parallel.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/crc32c.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/safetensors/testing/write_safetensors.h"
#include "vfs/dataset_tree.h"
#include "vfs/mounts.h"
#include "vfs/server.h"

namespace scalai {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kReaders = 8;
constexpr int64_t kHidden = 2048, kInner = 8192, kHeads = 16, kGroups = 8, kVocabulary = 32768;
constexpr size_t kRead = size_t{1} << 20;

struct Options {
  int64_t rounds = 5, layers = 16, samples = 100'000'000;
  std::string folder = "/tmp", csv;
};

[[noreturn]] void give_up(int code, const std::string& why) {
  fmt::print(stderr, "fs_bench: {}\n", why);
  std::exit(code);
}

void must(const absl::Status& status) {
  if (!status.ok()) give_up(5, message_of(status));
}

// --- the checkpoint --------------------------------------------------------------------------------------------------

std::string config_text(int64_t layers) {
  return fmt::format(
      R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": {},
 "intermediate_size": {}, "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "vocab_size": {},
 "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
 "torch_dtype": "bfloat16"}})",
      kHidden, kInner, layers, kHeads, kGroups, kVocabulary);
}

std::vector<store::TensorSpec> tensors_of_layer(int64_t layer) {
  const int64_t small = kHidden / kHeads * kGroups;
  const std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {
      {"input_layernorm", {kHidden}},           {"post_attention_layernorm", {kHidden}},
      {"self_attn.q_proj", {kHidden, kHidden}}, {"self_attn.k_proj", {small, kHidden}},
      {"self_attn.v_proj", {small, kHidden}},   {"self_attn.o_proj", {kHidden, kHidden}},
      {"mlp.gate_proj", {kInner, kHidden}},     {"mlp.up_proj", {kInner, kHidden}},
      {"mlp.down_proj", {kHidden, kInner}}};
  std::vector<store::TensorSpec> tensors;
  for (const auto& [name, shape] : shapes)
    tensors.push_back({fmt::format("model.layers.{}.{}.weight", layer, name), tensor::DType::kBF16, shape});
  return tensors;
}

std::string shard_name(int file) { return fmt::format("model-{:05}-of-{:05}.safetensors", file + 1, kReaders); }

// Bytes without meaning, other ones for each tensor.
void write_checkpoint(const std::string& folder, int64_t layers) {
  fs::create_directories(folder);
  std::ofstream(folder + "/config.json") << config_text(layers);
  std::string map;
  int64_t total = 0;
  std::vector<std::byte> bytes;
  for (int file = 0; file < kReaders; ++file) {
    std::vector<store::TensorSpec> tensors;
    for (int64_t layer = file * layers / kReaders; layer < (file + 1) * layers / kReaders; ++layer) {
      for (auto& tensor : tensors_of_layer(layer)) tensors.push_back(std::move(tensor));
    }
    const std::vector<int64_t> vocabulary = {kVocabulary, kHidden};
    if (file == 0) tensors.push_back({"model.embed_tokens.weight", tensor::DType::kBF16, vocabulary});
    if (file == kReaders - 1) tensors.push_back({"model.norm.weight", tensor::DType::kBF16, {kHidden}});
    if (file == kReaders - 1) tensors.push_back({"lm_head.weight", tensor::DType::kBF16, vocabulary});
    for (const auto& tensor : tensors)
      map += fmt::format("{}\"{}\": \"{}\"", map.empty() ? "" : ", ", tensor.name, shard_name(file));
    must(store::write_safetensors(folder + "/" + shard_name(file), tensors, {{"format", "pt"}},
                                  [&](const store::StoredTensor& tensor) -> absl::StatusOr<std::span<const std::byte>> {
                                    bytes.resize(static_cast<size_t>(tensor.bytes));
                                    uint64_t word =
                                        static_cast<uint64_t>(tensor.offset) + static_cast<uint64_t>(file) * 7919;
                                    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
                                      word = word * 6364136223846793005U + 1442695040888963407U;
                                      std::memcpy(&bytes[i], &word, 8);
                                    }
                                    total += tensor.bytes;
                                    return std::span<const std::byte>(bytes);
                                  }));
  }
  std::ofstream(folder + "/model.safetensors.index.json")
      << fmt::format("{{\"metadata\": {{\"total_size\": {}}}, \"weight_map\": {{{}}}}}", total, map);
}

// --- reading ---------------------------------------------------------------------------------------------------------

struct Part {
  int64_t offset = 0, bytes = 0;
};
struct Task {  // of one reader
  std::string path;
  std::vector<Part> parts;
  int64_t bytes() const {
    int64_t sum = 0;
    for (const Part& part : parts) sum += part.bytes;
    return sum;
  }
};

bool read_task(const Task& task) {
  std::vector<char> buffer(kRead);
  const int fd = ::open(task.path.c_str(), O_RDONLY);
  bool good = fd >= 0;
  for (const Part& part : task.parts) {
    for (int64_t done = 0; good && done < part.bytes;) {
      const auto wanted = std::min<size_t>(kRead, static_cast<size_t>(part.bytes - done));
      const ssize_t got = ::pread(fd, buffer.data(), wanted, part.offset + done);
      good = got > 0;
      if (!good) fmt::print(stderr, "fs_bench: {} at {}: {}\n", task.path, part.offset + done, std::strerror(errno));
      done += got;
    }
  }
  if (fd >= 0) ::close(fd);
  return good;
}

// What a mount has cached of these files.
void drop_cached(const std::vector<Task>& tasks) {
  for (const Task& task : tasks) {
    const int fd = ::open(task.path.c_str(), O_RDONLY);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

// Bytes a second of all readers together.
double rate_of(const std::vector<Task>& tasks) {
  int64_t bytes = 0;
  for (const Task& task : tasks) bytes += task.bytes();
  std::atomic<bool> good = true;
  const auto begin = Clock::now();
  const bool begun = run_concurrently(tasks.size(), [&](size_t i) { good = read_task(tasks[i]) && good; }).ok();
  good = good && begun;
  const std::chrono::duration<double> elapsed = Clock::now() - begin;
  if (!good) give_up(5, "a read failed: " + tasks[0].path);
  return static_cast<double>(bytes) / elapsed.count();
}

bool cut_along_second(const std::string& name) {
  return name.find("linear_fc2.weight") != std::string::npos || name.find("linear_proj.weight") != std::string::npos;
}

// The tensors of a rank's file that are cut so; neighbours are one part.
Task task_of_rank(const std::string& path, bool second) {
  const auto file = store::SafetensorsFile::open(path);
  must(file.status());
  Task task{path, {}};
  int64_t end = -1;
  for (const auto& tensor : file->header().tensors) {
    if (cut_along_second(tensor.name) != second) continue;
    const int64_t at = tensor.offset;
    if (at != end) task.parts.push_back({at, 0});
    task.parts.back().bytes += tensor.bytes;
    end = at + tensor.bytes;
  }
  if (task.parts.empty()) give_up(5, path + ": none of the tensors that are looked for");
  return task;
}

std::vector<Task> first(std::vector<Task> tasks, int count) {
  tasks.resize(static_cast<size_t>(count));
  return tasks;
}

// --- rates -----------------------------------------------------------------------------------------------------------

struct Case {
  std::string name;
  int readers = 1;
  double goal = 0;
  std::map<std::string, std::vector<Task>> tasks;  // by what is measured
  std::map<std::string, std::vector<double>> rates = {};
};

std::vector<Case> make_cases(const std::string& source, const std::string& views, const std::string& through) {
  std::vector<Case> cases;
  for (const bool second : {false, true}) {
    std::vector<Task> ours, plain, passed;
    for (int i = 0; i < kReaders; ++i) {
      ours.push_back(task_of_rank(fmt::format("{}/rank_{:03}.safetensors", views, i), second));
      plain.push_back({source + "/" + shard_name(i), {{0, ours.back().bytes()}}});
      passed.push_back({through + "/" + shard_name(i), {{0, ours.back().bytes()}}});
    }
    for (const int readers : {1, kReaders}) {
      cases.push_back(
          {second ? "dim 1" : "dim 0",
           readers,
           second         ? 0.6
           : readers == 1 ? 1.2
                          : 2.0,
           {{"scalai fs", first(ours, readers)}, {"bindfs", first(passed, readers)}, {"file", first(plain, readers)}}});
    }
  }
  return cases;
}

void measure(std::vector<Case>& cases, int64_t rounds, std::ofstream& csv) {
  const std::vector<std::string> order = {"scalai fs", "bindfs", "file"};
  for (int64_t round = 0; round < rounds; ++round) {
    for (Case& one : cases) {
      for (size_t i = 0; i < order.size(); ++i) {
        const std::string& what = order[round % 2 == 0 ? i : order.size() - 1 - i];
        if (what != "file") drop_cached(one.tasks[what]);
        one.rates[what].push_back(rate_of(one.tasks[what]));
        csv << fmt::format("{},{},{},{},{:.0f}\n", round, one.name, one.readers, what, one.rates[what].back());
      }
    }
  }
}

void print_rates(const std::vector<Case>& cases) {
  fmt::print("{:<6} {:>7} {:>13} {:>13} {:>13} {:>18} {:>6}\n", "shards", "readers", "scalai fs", "bindfs", "file",
             "ours / bindfs", "goal");
  for (const Case& one : cases) {
    const auto& ours = one.rates.at("scalai fs");
    const auto& theirs = one.rates.at("bindfs");
    std::vector<double> ratios;
    for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    fmt::print("{:<6} {:>7} {:>13} {:>13} {:>13} {:>5.2f} ({:.2f} to {:.2f}) {:>5.1f}\n", one.name, one.readers,
               format_bandwidth(*median(ours)), format_bandwidth(*median(theirs)),
               format_bandwidth(*median(one.rates.at("file"))), *median(ratios), *least, *most, one.goal);
  }
}

// --- mounting a dataset ----------------------------------------------------------------------------------------------

void write_records(const std::string& path, int64_t count) {
  std::string record(24, '\0');
  const auto put = [&](size_t at, uint64_t value, size_t bytes) { std::memcpy(&record[at], &value, bytes); };
  const auto crc_of = [&](size_t at, size_t bytes) {
    return datasets::masked(datasets::crc32c(std::as_bytes(std::span(record.data() + at, bytes))));
  };
  put(0, 8, 8);
  put(8, crc_of(0, 8), 4);
  put(12, 0x0123456789ABCDEFU, 8);
  put(20, crc_of(12, 8), 4);
  std::string block;
  for (int i = 0; i < 40'000; ++i) block += record;
  std::ofstream file(path, std::ios::binary);
  for (int64_t left = count * 24; left > 0; left -= static_cast<int64_t>(block.size()))
    file.write(block.data(), std::min<std::streamsize>(left, static_cast<std::streamsize>(block.size())));
}

size_t entries_in(const std::string& path) {
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) give_up(5, path + ": cannot be listed");
  size_t entries = 0;
  while (::readdir(folder) != nullptr) ++entries;
  ::closedir(folder);
  return entries - 2;
}

void time_mounting(const Options& options, const std::string& folder, std::ofstream& csv) {
  const std::string data_file = folder + "/records.tfrecord", index_file = folder + "/records.index";
  fs::create_directories(folder + "/data");
  write_records(data_file, options.samples);
  must(
      datasets::build_index({.format = datasets::Format::kTfRecord, .files = {data_file}, .out = index_file}).status());
  std::vector<double> times;
  size_t shards = 0;
  for (int64_t round = 0; round < options.rounds; ++round) {
    auto index = datasets::Index::open(index_file);
    must(index.status());
    const auto begin = Clock::now();
    vfs::Dataset dataset;
    dataset.name = "records";
    dataset.samples = *datasets::Samples::make(*index);
    dataset.files = std::make_shared<datasets::DataFiles>(*index, open_file_source);
    dataset.first.index = (*index)->digest();
    dataset.first.samples = dataset.samples->count();
    dataset.first.global_batch = 512;
    vfs::DatasetTree tree({dataset});
    must(tree.repartition(4, 1200));
    vfs::Log log;
    const auto server = vfs::Server::mount(tree.directory(), {.directory = *vfs::mount_directory(folder + "/data")},
                                           log, [](const std::string&) { return absl::StatusOr<std::string>(""); });
    must(server.status());
    shards = entries_in(folder + "/data/current/rank_02");
    const std::chrono::duration<double> elapsed = Clock::now() - begin;
    times.push_back(elapsed.count());
    csv << fmt::format("{},mount,{},seconds,{:.6f}\n", round, options.samples, times.back());
  }
  fmt::print("\nmounting {} samples and listing a rank's {} shards: {} (goal 10 ms)\n", options.samples, shards,
             format_seconds(*median(times)));
}

// --- all of it -------------------------------------------------------------------------------------------------------

int shell(const std::string& command) { return std::system(command.c_str()); }

void compare(const Options& options, const std::string& folder, std::ofstream& csv) {
  const std::string programs = fs::read_symlink("/proc/self/exe").parent_path().string();
  const std::string source = folder + "/source", views = folder + "/views", through = folder + "/through";
  write_checkpoint(source, options.layers);
  for (const std::string& path : {views, through}) fs::create_directories(path);
  if (shell(fmt::format("'{}/scalai-fs' mount {} --checkpoint={} --daemonize --log={}/log", programs, views, source,
                        folder)) != 0)
    give_up(5, "mounting failed");
  if (shell(fmt::format("bindfs -r {} {}", source, through)) != 0) give_up(5, "bindfs failed");
  std::vector<Case> cases = make_cases(source, views + "/views/tp4-pp2", through);
  measure(cases, options.rounds, csv);
  print_rates(cases);
}

void unmount_all(const std::string& folder) {
  for (const char* name : {"views", "through", "data"}) {
    const std::string path = folder + "/" + name;
    if (vfs::mount_at(path)) (void)vfs::unmount(path, /*force=*/true);
  }
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name.rfind("--benchmark_", 0) == 0) continue;  // of the other programs that `./dev bench` runs
    const auto count = parse_count(value);
    if (name == "--folder") {
      options.folder = value;
    } else if (name == "--csv") {
      options.csv = value;
    } else if (count.ok() && *count > 0 && name == "--rounds") {
      options.rounds = *count;
    } else if (count.ok() && *count >= kReaders && name == "--layers") {
      options.layers = *count;
    } else if (count.ok() && *count > 0 && name == "--samples") {
      options.samples = *count;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace scalai

int main(int argc, char** argv) {
  scalai::Options options;
  if (!scalai::parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: fs_bench [--rounds=N] [--layers=N (from 8)] [--samples=N] [--folder=DIR] [--csv=FILE]\n");
    return 2;
  }
  if (::access("/dev/fuse", R_OK | W_OK) != 0) scalai::give_up(4, "no /dev/fuse");
  if (scalai::shell("bindfs --version >/dev/null 2>&1") != 0) scalai::give_up(4, "no bindfs (Debian: bindfs)");
  std::string folder = options.folder + "/scalai-fs-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) scalai::give_up(5, folder + ": cannot be made");
  folder = std::filesystem::canonical(folder).string();
  std::ofstream csv(options.csv.empty() ? "/dev/null" : options.csv);
  csv << "round,case,readers,what,value\n";
  scalai::compare(options, folder, csv);
  scalai::unmount_all(folder);
  std::filesystem::remove_all(folder + "/source");
  scalai::time_mounting(options, folder, csv);
  scalai::unmount_all(folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return 0;
}
