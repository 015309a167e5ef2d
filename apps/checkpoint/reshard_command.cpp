#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "apps/checkpoint/checkpoint_options.h"
#include "apps/checkpoint/commands.h"
#include "apps/common/output.h"
#include "apps/common/transform_option.h"
#include "ptc/base/json.h"
#include "ptc/base/process.h"
#include "ptc/base/progress.h"
#include "ptc/base/say.h"
#include "ptc/base/screen.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/store/views/reshard.h"

namespace scalai::apps {
namespace {

using nlohmann::ordered_json;
using store::Checkpoint;
using store::PlannedFile;
using store::ReshardOptions;
using store::ReshardPlan;
using store::ReshardProgress;
using store::View;
using store::ViewSpec;

constexpr int kMostParts = 65'536;

// Of "2/4", part 1 of 4.
std::optional<std::pair<int, int>> part_of(const std::string& text) {
  const std::vector<std::string> numbers = absl::StrSplit(text, '/');
  int part = 0, parts = 0;
  const bool well = numbers.size() == 2 && absl::SimpleAtoi(numbers[0], &part) && absl::SimpleAtoi(numbers[1], &parts);
  if (!well || part < 1 || part > parts || parts > kMostParts) return std::nullopt;
  return std::pair(part - 1, parts);
}

absl::StatusOr<ViewSpec> spec_of(const Arguments& arguments) {
  const std::string to = arguments.text("to");
  ViewSpec spec;
  if (to.ends_with(".textproto") || to.ends_with(".json")) {
    SCALAI_ASSIGN_OR_RETURN(collection::CollectionFile file,
                            collection::load_collection(to, collection::FileRole::kPlanned));
    spec.collection = std::move(file.collection);
  } else {
    absl::StatusOr<ViewSpec> parsed = store::parse_view_name(to);
    if (!parsed.ok()) return invalid(fmt::format("--to: {}", message_of(parsed.status())));
    spec = *std::move(parsed);
  }
  const std::vector<std::string> drop = arguments.list("drop");
  const auto drops = [&](const char* word) { return std::find(drop.begin(), drop.end(), word) != drop.end(); };
  spec.extras = !drops("extras");
  spec.optimizer = !drops("optimizer");
  spec.masters = spec.optimizer && !drops("masters");
  if (arguments.has("transformer-impl")) spec.transformer_engine = arguments.text("transformer-impl") != "local";
  if (arguments.has("vocab-multiple")) spec.vocab_multiple = arguments.count("vocab-multiple");
  if (arguments.has("part")) std::tie(spec.part, spec.parts) = part_of(arguments.text("part")).value();
  if (arguments.has("shard-size")) spec.shard_bytes = arguments.bytes("shard-size");
  return spec;
}

ReshardOptions options_of(const Arguments& arguments) {
  return {
      .target = arguments.positional()[1],
      .memory_cap = arguments.bytes("process-memory"),
      .threads = arguments.has("threads") ? static_cast<int>(std::min<int64_t>(arguments.count("threads"), 1024)) : 0,
      .verify = arguments.flag("verify"),
      .compare_replicas = arguments.text("replicas") == "compare",
      .families = arguments.text("families"),
      .force = arguments.flag("force"),
      .restart = arguments.flag("restart"),
      .trust_source = arguments.flag("trust-source"),
      .progress = {}};
}

// Bytes, rate and time left of one phase after the other.
class ProgressLine {
 public:
  void update(const ReshardProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (phase_ != progress.phase) {
      phase_ = progress.phase;
      begun_ = now;
    }
    const double seconds = std::chrono::duration<double>(now - begun_).count();
    const double rate = seconds > 0 ? static_cast<double>(progress.bytes_now) / seconds : 0;
    const double left = rate > 0 ? static_cast<double>(progress.bytes_total - progress.bytes_done) / rate : 0;
    line_.update(
        static_cast<double>(progress.bytes_done) / static_cast<double>(std::max<int64_t>(progress.bytes_total, 1)),
        fmt::format("{} {} of {}, {}, {} left", progress.phase, format_bytes(progress.bytes_done),
                    format_bytes(progress.bytes_total), format_bandwidth(rate), format_seconds(left)));
  }

 private:
  Progress line_{"reshard"};
  std::string phase_;
  std::chrono::steady_clock::time_point begun_;
};

ordered_json head_json(const View& view, const ReshardOptions& options, const ReshardPlan& plan) {
  const store::CheckpointInfo& info = view.checkpoint().info();
  return {{"source", info.path},
          {"source_kind", store::name_of(info.kind)},
          {"source_files", view.checkpoint().files().size()},
          {"source_state_bytes", view.checkpoint().state_bytes()},
          {"target", options.target},
          {"view", view.name()},
          {"naming", view.spec().naming},
          {"files", plan.files.size()},
          {"bytes", plan.bytes_total}};
}

std::vector<std::string> notes_of(const View& view, const ReshardOptions& options) {
  std::vector<std::string> notes = view.notes();
  if (const Checkpoint::Sums sums = view.checkpoint().sums(); sums.summed < sums.tensors) {
    notes.push_back(fmt::format(
        "{} no checksums, so damage in {} would go along unseen",
        sums.summed == 0 ? std::string("the source has")
                         : fmt::format("{} of {} tensors of the source have", sums.tensors - sums.summed, sums.tensors),
        sums.summed == 0 ? "it" : "them"));
  }
  if (!view.checkpoint().has_versions())
    notes.push_back(fmt::format("the server tells no version of the source: {}",
                                options.trust_source ? "it is taken for unchanged" : "what is read is read twice"));
  if (!options.compare_replicas && view.checkpoint().has_replicas()) {
    notes.push_back("copies of the same state were not compared; the first of each counts");
  }
  return notes;
}

std::string notes_text(const View& view, const ReshardOptions& options) {
  std::string text;
  for (const std::string& note : notes_of(view, options)) text += fmt::format("note: {}\n", note);
  return text;
}

// What --verify compared, and what of the source it could not.
std::string compared_text(const View& view, const ReshardOptions& options) {
  if (!options.verify) return "";
  if (view.spec().parts > 1) return "; read back and as it was written";
  const size_t compared = view.tensors().size();
  const size_t left = view.checkpoint().tensors().size() - compared + view.checkpoint().info().dropped.size();
  return fmt::format("; read back and equal to the source: {}{}", counted(static_cast<int64_t>(compared), "tensor"),
                     left > 0 ? fmt::format(", without {} that {} left out", left, left == 1 ? "is" : "are") : "");
}

void print_plan(const View& view, const ReshardOptions& options, const ReshardPlan& plan, const std::string& format) {
  int64_t padding = 0, runs = 0;
  for (const PlannedFile& file : plan.files) {
    padding += file.padding_bytes;
    runs += file.runs;
  }
  if (format == "json") {
    ordered_json json = head_json(view, options, plan);
    json["padding_bytes"] = padding;
    json["runs"] = runs;
    json["threads"] = plan.threads;
    json["chunk_bytes"] = plan.chunk_bytes;
    json["peak_memory_bytes"] = plan.peak_memory_bytes;
    json["left_out"] = view.checkpoint().info().dropped;
    json["notes"] = notes_of(view, options);
    for (const PlannedFile& file : plan.files) {
      json["plan"].push_back({{"file", file.name},
                              {"bytes", file.bytes},
                              {"source_files", file.source_files},
                              {"runs", file.runs},
                              {"smallest_run_bytes", file.smallest_run},
                              {"padding_bytes", file.padding_bytes}});
    }
    print("{}\n", json_text(json, {.indent = 2}));
    return;
  }
  Table table({"file", "bytes>", "from files>", "runs>", "smallest run>", "padding>"});
  for (const PlannedFile& file : plan.files) {
    const bool tensors = file.runs > 0;
    table.row({file.name, fmt::format("{}", file.bytes), tensors ? fmt::format("{}", file.source_files) : "",
               tensors ? fmt::format("{}", file.runs) : "", tensors ? fmt::format("{}", file.smallest_run) : "",
               tensors ? fmt::format("{}", file.padding_bytes) : ""});
  }
  print("{}\n{}, {} ({} bytes) to {}; {}, {} of padding\n", table.text(stdout_screen()),
        counted(std::ssize(plan.files), "file"), format_bytes(plan.bytes_total), plan.bytes_total, options.target,
        counted(runs, "run"), format_bytes(padding));
  print("{} with chunks of {}, at most {} of memory\n{}", counted(plan.threads, "thread"),
        format_bytes(plan.chunk_bytes), format_bytes(plan.peak_memory_bytes), notes_text(view, options));
}

void print_result(const View& view, const ReshardOptions& options, const ReshardPlan& plan,
                  const store::ReshardResult& result, double seconds, const std::string& format) {
  if (format == "json") {
    ordered_json json = head_json(view, options, plan);
    json["bytes_written"] = result.bytes_written;
    json["seconds"] = seconds;
    json["verified"] = options.verify;
    if (options.verify && view.spec().parts == 1) json["compared_tensors"] = view.tensors().size();
    json["left_out"] = view.checkpoint().info().dropped;
    json["was_complete"] = result.was_complete;
    json["damage"] = ordered_json::array();
    for (const store::Damage& damage : result.damage) json["damage"].push_back(damage.what);
    json["notes"] = notes_of(view, options);
    print("{}\n", json_text(json, {.indent = 2}));
    return;
  }
  for (const store::Damage& damage : result.damage) print("damaged, and copied as it is: {}\n", damage.what);
  if (result.was_complete) {
    print("{}: an earlier run had finished it: {}, {}{}\n{}", options.target, counted(result.files, "file"),
          format_bytes(result.bytes_total), compared_text(view, options), notes_text(view, options));
    return;
  }
  const int64_t before = result.bytes_total - result.bytes_written;
  print("{}: {}, {} as {} in {}{}{}\n{}", options.target, counted(result.files, "file"),
        format_bytes(result.bytes_total), view.name(), format_seconds(seconds),
        before > 0 ? fmt::format(", of which an earlier run wrote {}", format_bytes(before)) : "",
        compared_text(view, options), notes_text(view, options));
}

// Runs the plan, with progress, and prints the result.
absl::StatusOr<store::ReshardResult> run(const View& view, const ReshardPlan& plan, ReshardOptions options,
                                         const Arguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<store::ReshardResult> result = absl::InternalError("");
  {
    ProgressLine line;
    options.progress = [&](const ReshardProgress& progress) { line.update(progress); };
    result = store::reshard(view, plan, options);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (result.ok()) print_result(view, options, plan, *result, seconds.count(), arguments.text("format"));
  return result;
}

int tell_joined(const store::Joined& joined, const std::string& target, int parts) {
  if (quiet()) return 0;
  if (joined.busy) {
    say("{}: another process puts the parts together\n", target);
  } else if (joined.missing.empty()) {
    say("{}: all {} parts are put together\n", target, parts);
  } else if (joined.missing.size() == 1) {
    say("{}: waits for part {} of {}\n", target, joined.missing.front() + 1, parts);
  } else {
    say("{}: waits for {} of {} parts, such as part {}\n", target, joined.missing.size(), parts,
        joined.missing.front() + 1);
  }
  return 0;
}

// One machine's share. The last one puts all together.
int reshard_part(const View& view, ViewSpec spec, const ReshardOptions& options, const Arguments& arguments) {
  if (view.spec().naming == "job")
    return report_error(
        invalid("--part: a job's checkpoint is written by one process; say other names, such as logical"));
  if (!view.checkpoint().has_versions() && !options.trust_source)
    return report_error(invalid(
        "--part: the server tells no version of the source, neither ETag nor Last-Modified, so nothing shows that all "
        "parts are of the same one; --trust-source takes it for unchanged"));
  const int part = spec.part, parts = spec.parts;
  spec.part = 0;
  spec.parts = 1;
  const auto whole = View::make(view.checkpoint_ptr(), std::move(spec));
  if (!whole.ok()) return report_error(whole.status());
  ReshardOptions own = options;
  own.target = store::part_folder(options.target, part, parts);
  const absl::StatusOr<bool> there = is_part(own.target, view);
  if (!there.ok()) return report_error(there.status());
  // Before all are put together, --restart writes this one anew, though it be finished; nothing else is replaced.
  const bool anew = options.restart && !store::is_being_joined(options.target);
  own.force = anew && *there;
  const auto plan = plan_reshard(view, own);
  if (!plan.ok()) return report_error(plan.status());
  if (arguments.flag("dry-run")) {
    print_plan(view, own, *plan, arguments.text("format"));
    return 0;
  }
  bool is_finished = false;
  if (!anew) {
    if (*there && options.verify && !store::is_being_joined(options.target)) {
      const absl::Status same = store::verify_part(own.target, plan->threads);
      if (!same.ok()) return report_error(same);
    }
    const auto before = store::join_parts(**whole, parts, options);
    if (!before.ok()) return report_error(before.status());
    if (before->busy && !*there)
      return report_error(failed(options.target + ": another process is writing this target"));
    if (before->missing.empty()) return tell_joined(*before, options.target, parts);
    is_finished = *there;
  }
  if (const absl::Status free = store::check_target(options.target, options.force); !free.ok())
    return report_error(free);
  if (!is_finished) {
    const absl::StatusOr<store::ReshardResult> result = run(view, *plan, own, arguments);
    if (!result.ok()) return report_error(result.status());
  }
  const auto joined = store::join_parts(**whole, parts, options);
  return joined.ok() ? tell_joined(*joined, options.target, parts) : report_error(joined.status());
}

// What is wrong with the command line, whatever the checkpoint is.
std::vector<std::string> problems_of(const Arguments& arguments) {
  constexpr int64_t kMostMultiple = 1 << 20;
  std::vector<std::string> problems;
  if (!arguments.has("to")) problems.emplace_back("--to says in which layout, as in --to=tp4,pp2 or --to=hf");
  for (const char* const name : {"threads", "vocab-multiple"}) {
    if (arguments.has(name) && arguments.count(name) == 0) problems.push_back(fmt::format("--{}=0", name));
  }
  if (arguments.has("vocab-multiple") && arguments.count("vocab-multiple") > kMostMultiple)
    problems.push_back(fmt::format("--vocab-multiple is at most {}", kMostMultiple));
  if (arguments.has("shard-size") && arguments.bytes("shard-size") == 0) problems.emplace_back("--shard-size=0");
  if (arguments.has("part") && !part_of(arguments.text("part")))
    problems.push_back(
        fmt::format("--part={}: is not I/N with 1 <= I <= N <= {}", clipped(arguments.text("part"), 40), kMostParts));
  if (arguments.has("model") && arguments.has("config"))
    problems.emplace_back("--model and --config exclude each other");
  if (arguments.has("dtype")) {
    if (const auto dtypes = parse_dtypes(arguments.text("dtype")); !dtypes.ok())
      problems.push_back(message_of(dtypes.status()));
  }
  if (const auto steps = parse_transforms(arguments.texts("transform")); !steps.ok())
    problems.push_back(message_of(steps.status()));
  if (arguments.text("backend") == "cuda" && arguments.texts("transform").empty())
    problems.emplace_back("--backend=cuda computes the steps of --transform, and there are none");
  return problems;
}

// Options that files of this form have no use for.
std::vector<std::string> useless_options(const Arguments& arguments, const ViewSpec& spec) {
  const bool ranks = spec.layout || spec.collection;
  const bool megatron = spec.naming.empty() || spec.naming == "megatron";
  std::vector<std::string> problems;
  const auto check = [&](const char* name, bool useful, const char* where) {
    if (arguments.has(name) && !useful)
      problems.push_back(
          fmt::format("--{} has no meaning for --to={}: it is for {}", name, clipped(arguments.text("to"), 80), where));
  };
  check("shard-size", !ranks, "whole tensors, as in --to=hf");
  check("vocab-multiple", ranks && spec.form != store::ViewForm::kVllm, "files of ranks, as in --to=tp4,pp2");
  check("transformer-impl", ranks && megatron, "files of ranks under Megatron's names");
  if (arguments.text("kv") == "replicate" && !spec.layout)
    problems.emplace_back("--kv=replicate needs a layout with tp, as --to=tp8,hf");
  return problems;
}

// Tensors that a step adds are of no model, and most forms have no place for them.
absl::Status with_hint(const absl::Status& status, const std::vector<transform::Step>& steps) {
  const bool adds = std::any_of(steps.begin(), steps.end(), [](const transform::Step& step) {
    const auto* const function = std::get_if<transform::Function>(&step.what);
    return function != nullptr && function->split == transform::Split::kRows;
  });
  if (!adds) return status;
  return absl::Status(status.code(),
                      message_of(status) + "\n--to=logical has a place for the scales that quantise adds");
}

int reshard(const Arguments& arguments, const MakeStepDevice& make_device) {
  const std::vector<std::string> problems = problems_of(arguments);
  if (!problems.empty()) return usage_error("checkpoint reshard", fmt::format("{}", fmt::join(problems, "\n")));
  raise_open_files();  // a checkpoint of a thousand ranks has as many files
  absl::StatusOr<ViewSpec> spec = spec_of(arguments);
  if (!spec.ok()) return report_error(spec.status());
  if (const std::vector<std::string> useless = useless_options(arguments, *spec); !useless.empty())
    return usage_error("checkpoint reshard", fmt::format("{}", fmt::join(useless, "\n")));
  absl::StatusOr<store::OpenOptions> open = open_options_of(arguments, arguments.positional()[0]);
  if (!open.ok()) return report_error(open.status());
  std::erase(open->drop, "masters");
  std::erase(open->drop, "extras");
  if (arguments.has("dtype")) open->dtypes = *parse_dtypes(arguments.text("dtype"));
  open->transforms = *parse_transforms(arguments.texts("transform"));
  open->accept_damage = arguments.flag("accept-damage");
  auto device = arguments.text("backend") == "cuda" ? make_device() : nullptr;
  if (!device.ok()) return report_error(device.status());
  open->device = *std::move(device);
  if (arguments.text("kv") == "replicate" || spec->form == store::ViewForm::kVllm) open->kv_heads = spec->layout->tp;
  auto source = Checkpoint::open(arguments.positional()[0], *open);
  if (!source.ok()) return report_error(source.status());
  if (const absl::Status status = store::check_places(**source, *spec); !status.ok()) return report_error(status);
  const auto view = View::make(*source, *spec);
  if (!view.ok()) return report_error(with_hint(view.status(), open->transforms));
  ReshardOptions options = options_of(arguments);
  if (spec->parts > 1) return reshard_part(**view, *std::move(spec), options, arguments);
  const auto plan = plan_reshard(**view, options);
  if (!plan.ok()) return report_error(plan.status());
  if (arguments.flag("dry-run")) {
    print_plan(**view, options, *plan, arguments.text("format"));
    return 0;
  }
  const absl::StatusOr<store::ReshardResult> result = run(**view, *plan, options, arguments);
  return result.ok() ? 0 : report_error(result.status());
}

std::vector<OptionSpec> reshard_options() {
  const std::vector<OptionSpec> to = {text_option(
      "to", "LAYOUT",
      "Layout of DST: tp4,pp2 (rank files; tp4,pp2,logical has our names, tp4,pp2,torch is Megatron-LM's own "
      "folder, tp4,vllm vLLM's sharded state); whole tensors as hf, logical (by the names in the job), torch_dist "
      "(Megatron-Core) or dcp (torch.distributed.checkpoint); or a collection file, FILE.textproto.")};
  const std::vector<OptionSpec> rest = {
      formerly(bytes_option("process-memory", "SIZE", "Most memory that the program uses.", "1GiB"), {"memory-cap"}),
      count_option("threads", "N", "Threads (one a core if not given)."),
      bytes_option("shard-size", "SIZE", "With hf: most bytes of tensors in a file of several (5GB if not given)."),
      flag_option("verify", "Compare SRC with its checksums first, and all of DST with SRC before it gets its name."),
      flag_option("accept-damage",
                  "Copy also what has not its checksum, and say so in DST's manifest; else it is an error."),
      choice_option("replicas", "WHICH",
                    "State that several files of SRC have (norms on every rank): compare all copies, or take the first "
                    "of each unseen.",
                    {"compare", "first"}, "compare"),
      list_option(
          "drop", "STATE,…",
          "Leave out masters and moments (optimizer), masters alone (masters), what goes along (extras: tokenizer, "
          "generation settings, chat template, code, licence), or tensors that the model has no place for, by their "
          "names in SRC (*, ?, [a-z] as for files). Nothing else that is trained is left out."),
      text_option("dtype", "DTYPE",
                  "Parameters in fp32, bf16, fp16 or fp64, rounded as torch rounds; or by kind, as in "
                  "params=bf16,master=fp32,moments=bf16. Others stay as they are."),
      transform_option(),
      step_backend_option(),
      choice_option("kv", "HOW",
                    "Heads of keys and values where tp is above their number: cut within heads, as Megatron's ranks "
                    "are, or replicated, so that each rank has whole ones.",
                    {"cut", "replicate"}, "cut"),
      choice_option("transformer-impl", "IMPL",
                    "Names of Megatron's rank files: with norms as modules of their own (local), or as parts of the "
                    "linear layers behind them and experts grouped (transformer_engine). As in SRC if not given.",
                    {"local", "transformer_engine"}),
      count_option("vocab-multiple", "N",
                   "The rows of each rank's vocabulary are a multiple of N (128 if not given), as "
                   "make-vocab-size-divisible-by of Megatron."),
      text_option(
          "part", "I/N",
          "Write only share I of N of the files, into DST.part-I-of-N: one process on each of N machines with one "
          "file system. Whichever ends last puts them together as DST."),
      flag_option("dry-run", "Print the plan and write nothing."),
      flag_option("force", "Replace the checkpoint at DST, at one stroke; nothing else is replaced."),
      flag_option("restart", "Remove what an earlier run that did not finish has left, and begin anew."),
      format_option({"table", "json"})};
  return joined({to, checkpoint_source_options(), rest});
}

}  // namespace

Command reshard_command(MakeStepDevice make_device) {
  return {
      {.name = "checkpoint reshard",
       .summary = "write a checkpoint in another layout, in bounded memory",
       .usage = "scalai checkpoint reshard SRC DST --to=LAYOUT [OPTION…]",
       .description =
           R"(SRC is a job's checkpoint, a folder that this command wrote, a Hugging Face folder, what torch or
Megatron saved, rank files (--from, --names, --config or --model say what they are), or a safetensors
file; or the address of one (https://, s3://).
DST gets one file a rank, under Megatron's names where the model's family is known, or as a job's
checkpoint if SRC is one; or whole tensors: under Hugging Face's names (hf, dcp) or Megatron's
(torch_dist). Optimizer state, random states and counters go along into rank files, and tokenizer,
chat template, licence and the like into all but a job's checkpoint.

DST is whole or not there. A run that was killed, or that found the disk full, is gone on with by the
same command; what it has written stays in DST.partial until then.)",
       .options = reshard_options(),
       .examples = {"scalai checkpoint reshard llama3-8b/ out/ --to=tp4,pp2",
                    "scalai checkpoint reshard out/ back/ --to=hf --verify",
                    "scalai checkpoint reshard llama3-8b/ mcore/ --to=torch_dist",
                    "scalai checkpoint reshard ranks/ out/ --from=tp8,pp4 --config=config.json --to=tp2,pp1",
                    "scalai checkpoint reshard job/checkpoints/step_00000100 out/ --to=tp2 --model=gpt3-xl --dry-run"},
       .min_arguments = 2,
       .max_arguments = 2,
       .program_of =
           [](const Arguments& arguments) { return arguments.text("backend") == "cuda" ? "scalai-exec" : ""; }},
      [make_device = std::move(make_device)](const Arguments& arguments) { return reshard(arguments, make_device); }};
}

}  // namespace scalai::apps
