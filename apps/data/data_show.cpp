#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common/dataset_state.h"
#include "apps/common/output.h"
#include "apps/data/data_command.h"
#include "ptc/base/json.h"
#include "ptc/base/progress.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/store/datasets/data_files.h"
#include "ptc/store/datasets/order.h"
#include "ptc/store/datasets/reader.h"
#include "ptc/store/datasets/share.h"

namespace scalai::apps {
namespace {

using datasets::DpRank;
using datasets::Extent;
using datasets::Index;
using datasets::PositionRange;
using datasets::Samples;
using datasets::State;
using datasets::Steps;
using nlohmann::ordered_json;

constexpr int64_t kIdsInTable = 8;
constexpr int64_t kMostShown = 1 << 22;  // samples, all of which are in memory before the first is printed

struct Asked {
  std::shared_ptr<const Samples> samples;
  State state;
  int64_t step = 0;
  int64_t steps = 1;
  int dp = 1;
  int rank = -1;  // −1: all
};

struct Share {
  int64_t step = 0;
  int64_t pass = 0;
  int rank = 0;
  PositionRange positions;
  std::vector<int64_t> ids;
  std::vector<std::vector<Extent>> extents;  // of each sample
  int64_t bytes = 0;
};

absl::StatusOr<Share> share_of(const Asked& asked, const Steps& steps, int64_t step, int rank) {
  Share share{.step = step, .pass = steps.batch(step).pass, .rank = rank};
  share.positions = positions_of(steps, step, DpRank{rank, asked.dp});
  const datasets::Order order(asked.state.samples, asked.state.shuffle, asked.state.seed);
  for (int64_t position = share.positions.begin; position < share.positions.end; ++position) {
    share.ids.push_back(order.at(share.pass, position));
    SCALAI_RETURN_IF_ERROR(asked.samples->extents(share.ids.back(), share.extents.emplace_back()));
    for (const Extent& extent : share.extents.back()) share.bytes += extent.bytes;
  }
  return share;
}

absl::StatusOr<std::vector<Share>> shares_of(const Asked& asked) {
  std::vector<Share> shares;
  const Steps steps(asked.state);
  for (int64_t step = asked.step; step < asked.step + asked.steps; ++step) {
    for (int rank = 0; rank < asked.dp; ++rank) {
      if (asked.rank >= 0 && rank != asked.rank) continue;
      SCALAI_ASSIGN_OR_RETURN(Share share, share_of(asked, steps, step, rank));
      shares.push_back(std::move(share));
    }
  }
  return shares;
}

ordered_json json_of(const Samples& samples) {
  const Index& index = samples.index();
  ordered_json files = ordered_json::array();
  for (const datasets::DataFile& file : index.files())
    files.push_back({{"location", datasets::shown_location(file.location)}, {"bytes", file.bytes}});
  return {{"index", index.path()},
          {"digest", index.digest()},
          {"kind", name_of(index.format())},
          {"documents", index.documents()},
          {"tokens", index.tokens()},
          {"bytes", index.bytes()},
          {"sequence", samples.sequence()},
          {"samples", samples.count()},
          {"tokens_dropped", samples.tokens_dropped()},
          {"files", files}};
}

void show_index(const Samples& samples, const std::string& format) {
  const Index& index = samples.index();
  if (format == "json") return print("{}\n", json_text(json_of(samples), {.indent = 2}));
  Table files({"file>", "location", "bytes>"});
  for (size_t i = 0; i < index.files().size(); ++i) {
    files.row({std::to_string(i), datasets::shown_location(index.files()[i].location),
               std::to_string(index.files()[i].bytes)});
  }
  if (format == "csv") return print(files.csv());
  print("{}: {} {} documents, {}\ndigest {}\n", index.path(), index.documents(), name_of(index.format()),
        format_bytes(index.bytes()), index.digest());
  if (index.tokens() > 0) print("{} tokens of {} B\n", index.tokens(), index.token_bytes());
  if (samples.sequence() > 0) {
    print("{} of sequence {} ({} at the end dropped)\n", counted(samples.count(), "sample"), samples.sequence(),
          counted(samples.tokens_dropped(), "token"));
  }
  print("\n{}", files.text(stdout_screen()));
}

std::string ids_text(const std::vector<int64_t>& ids, bool all) {
  const auto shown = all ? ids.size() : std::min(ids.size(), static_cast<size_t>(kIdsInTable));
  return fmt::format("{}{}", fmt::join(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(shown), " "),
                     shown < ids.size() ? " …" : "");
}

Table table_of_ranks(const std::vector<Share>& shares, bool all_ids) {
  Table table({"step>", "pass>", "rank>", "position>", "samples>", "bytes>", "sample ids~"});
  table.leave_out_first({"pass", "position"});
  for (size_t i = 0; i < shares.size(); ++i) {
    const Share& share = shares[i];
    if (i > 0 && share.step != shares[i - 1].step) table.rule();
    table.row({std::to_string(share.step), std::to_string(share.pass), std::to_string(share.rank),
               std::to_string(share.positions.begin), std::to_string(share.ids.size()), std::to_string(share.bytes),
               ids_text(share.ids, all_ids)});
  }
  return table;
}

// One line an extent; a window that goes on in the next file has two.
Table table_of_samples(const std::vector<Share>& shares) {
  Table table({"step>", "pass>", "rank>", "position>", "sample>", "file>", "offset>", "bytes>"});
  for (const Share& share : shares) {
    for (size_t i = 0; i < share.ids.size(); ++i) {
      for (const Extent& extent : share.extents[i]) {
        table.row({std::to_string(share.step), std::to_string(share.pass), std::to_string(share.rank),
                   std::to_string(share.positions.begin + static_cast<int64_t>(i)), std::to_string(share.ids[i]),
                   std::to_string(extent.file), std::to_string(extent.offset), std::to_string(extent.bytes)});
      }
    }
  }
  return table;
}

ordered_json json_of(const Share& share, bool with_extents) {
  ordered_json json = {
      {"step", share.step},         {"pass", share.pass},   {"rank", share.rank},  {"begin", share.positions.begin},
      {"end", share.positions.end}, {"bytes", share.bytes}, {"samples", share.ids}};
  if (!with_extents) return json;
  ordered_json& all = json["extents"] = ordered_json::array();
  for (const std::vector<Extent>& extents : share.extents) {
    ordered_json& one = all.emplace_back(ordered_json::array());
    for (const Extent& extent : extents) {
      one.push_back({{"file", extent.file}, {"offset", extent.offset}, {"bytes", extent.bytes}});
    }
  }
  return json;
}

int show_shares(const Asked& asked, const std::string& format) {
  const auto shares = shares_of(asked);
  if (!shares.ok()) return report_error(shares.status());
  const bool one_rank = asked.rank >= 0;
  const State at = Steps(asked.state).at(asked.step);
  if (format == "json") {
    ordered_json reads = ordered_json::array();
    for (const Share& share : *shares) reads.push_back(json_of(share, one_rank));
    ordered_json json = json_of(*asked.samples);
    json["state"] = read_ordered_json(state_text(at)).value();
    json["dp"] = asked.dp;
    json["reads"] = reads;
    print("{}\n", json_text(json, {.indent = 2}));
    return 0;
  }
  const Table table = one_rank ? table_of_samples(*shares) : table_of_ranks(*shares, format == "csv");
  if (format == "csv") {
    print(table.csv());
    return 0;
  }
  print("{} a pass, global batch {}{}, {}\n", counted(at.samples, "sample"), at.global_batch,
        at.drop_last ? ", drop last" : "", at.shuffle ? fmt::format("shuffled with seed {}", at.seed) : "not shuffled");
  print("state {}\n\n{}", state_text(at), table.text(stdout_screen()));
  return 0;
}

// The index with its checksums, each data file as it was indexed, and each TFRecord's checksums.
absl::Status check(const std::shared_ptr<const Samples>& samples) {
  SCALAI_RETURN_IF_ERROR(samples->index().verify());
  SCALAI_ASSIGN_OR_RETURN(SourceOpener opener, data_opener());
  const datasets::Reader reader(samples, std::move(opener), {.check_crc = true});
  for (size_t i = 0; i < samples->index().files().size(); ++i) {
    SCALAI_RETURN_IF_ERROR(reader.files().source(static_cast<int>(i)).status());
  }
  if (samples->index().format() != datasets::Format::kTfRecord) return absl::OkStatus();
  Progress progress("checking");
  for (int64_t i = 0; i < samples->count(); ++i) {
    SCALAI_RETURN_IF_ERROR(reader.read(i).status());
    progress.update(static_cast<double>(i) / static_cast<double>(samples->count()), samples->name(i));
  }
  return absl::OkStatus();
}

// "": fine; otherwise what is wrong with the words.
std::string problem_with(const Arguments& arguments) {
  if (arguments.positional().front() == "-") return std::string(kNoStandardInput);
  if (const std::string problem = problem_beside_state(arguments); !problem.empty()) return problem;
  const bool batch = arguments.has("global-batch") || arguments.has("state");
  if (arguments.has("dp") != batch) return "--dp and --global-batch, or --dp and --state, go together";
  if (!arguments.has("dp")) {
    for (const char* name : {"rank", "no-shuffle", "drop-last"}) {
      const bool given = std::string(name) == "rank" ? arguments.has(name) : arguments.flag(name);
      if (given) return fmt::format("--{} needs --dp and --global-batch", name);
    }
    return "";
  }
  constexpr int64_t kMostRanks = 1 << 24;
  if (arguments.count("dp") < 1 || arguments.count("dp") > kMostRanks) return "--dp takes 1 to 16777216";
  if (arguments.has("rank") && arguments.count("rank") >= arguments.count("dp")) return "--rank must be less than --dp";
  if (arguments.count("steps") < 1) return "--steps takes 1 or more";
  const int64_t step = arguments.has("step") ? arguments.count("step") : 0;
  if (step > datasets::kMostInState || arguments.count("steps") > datasets::kMostInState / 2 ||
      step + arguments.count("steps") > datasets::kMostInState) {
    return fmt::format("steps are numbered up to {}", datasets::kMostInState);
  }
  return "";
}

absl::Status check_size(const Asked& asked) {
  const int64_t batch = std::min(asked.state.global_batch, asked.state.samples);
  const int64_t a_step = asked.rank >= 0 ? batch / asked.dp + 1 : std::max(batch, int64_t{asked.dp});
  if (asked.steps <= kMostShown / a_step) return absl::OkStatus();
  return invalid(
      fmt::format("{} steps are more than {} samples; ask for fewer steps or for one rank", asked.steps, kMostShown));
}

absl::StatusOr<Asked> asked_of(const Arguments& arguments, const std::optional<State>& said,
                               std::shared_ptr<const Samples> samples) {
  Asked asked{.samples = std::move(samples)};
  SCALAI_ASSIGN_OR_RETURN(asked.state, first_state(arguments, said, *asked.samples));
  asked.step = arguments.has("step") ? arguments.count("step") : asked.state.step;
  if (asked.step < asked.state.step)
    return invalid(fmt::format("step {} is before the state, which begins with step {}", asked.step, asked.state.step));
  asked.steps = arguments.count("steps");
  asked.dp = static_cast<int>(arguments.count("dp"));
  if (arguments.has("rank")) asked.rank = static_cast<int>(arguments.count("rank"));
  return asked;
}

int show(const Arguments& arguments) {
  if (const std::string problem = problem_with(arguments); !problem.empty()) return usage_error("data show", problem);
  const auto index = Index::open(arguments.positional().front());
  if (!index.ok()) return report_error(index.status());
  const auto said = said_state(arguments);
  if (!said.ok()) return report_error(said.status());
  const int64_t sequence = *said ? (*said)->sequence : arguments.has("sequence") ? arguments.count("sequence") : 0;
  const auto samples = Samples::make(*index, sequence);
  if (!samples.ok()) return report_error(samples.status());
  if (arguments.flag("verify")) {
    if (const absl::Status status = check(*samples); !status.ok()) return report_error(status);
    say("checked: the index is whole, data files are as they were indexed ({})\n", (*index)->files().size());
  }
  if (!arguments.has("dp")) {
    show_index(**samples, arguments.text("format"));
    return 0;
  }
  const absl::StatusOr<Asked> asked = asked_of(arguments, *said, *samples);
  if (!asked.ok()) return report_error(asked.status());
  if (const absl::Status status = validate(asked->state); !status.ok()) return report_error(status);
  if (const absl::Status status = check_size(*asked); !status.ok()) return report_error(status);
  return show_shares(*asked, arguments.text("format"));
}

std::vector<OptionSpec> show_options() {
  return {count_option("dp", "N", "Data-parallel ranks."),
          count_option("global-batch", "N", "Samples a step, of all ranks."),
          dataset_state_option(),
          count_option("step", "N", "First step shown (if not given: 0, or the next of --state)."),
          count_option("steps", "N", "How many steps.", "1"),
          count_option("rank", "N", "This rank only, with the place of each sample."),
          count_option("sequence", "N", "Samples are windows of N + 1 tokens (Megatron); otherwise documents."),
          count_option("seed", "N", "Of the order.", "0"),
          flag_option("no-shuffle", "Read in the order of the index."),
          flag_option("drop-last", "Leave out a pass's last batch when it is short."),
          formerly(flag_option(
                       "verify",
                       "First check the whole index, the data files' sizes and times, and all checksums of TFRecords."),
                   {"check"}),
          format_option()};
}

}  // namespace

Command data_show_command() {
  return {{.name = "show",
           .summary = "show an index, and which rank reads what",
           .usage = "scalai data show INDEX [--dp=N --global-batch=N|--state=STATE]",
           .description =
               R"(Without --dp: what the index holds. With it: which samples each rank reads in a step, and with --rank
where they lie. A batch is cut into contiguous runs in rank order, the first ranks get one sample more
when it does not divide; so the batch of a step is the same for every dp. With --state it is the batches
of a job from that state on, as after a change of the global batch.)",
           .options = show_options(),
           .examples = {"scalai data show train.index --verify",
                        "scalai data show train.index --dp=4 --global-batch=512 --step=1200 --steps=2",
                        "scalai data show train.index --dp=4 --global-batch=512 --rank=3 --format=csv"},
           .min_arguments = 1,
           .max_arguments = 1},
          show};
}

}  // namespace scalai::apps
