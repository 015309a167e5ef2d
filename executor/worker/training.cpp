#include "executor/worker/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "executor/worker/device_state.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {

using state::SharedPart;
using trainers::Trainers;

using collection::Collection;
using nlohmann::json;
using proto::TrainerState;

namespace {

constexpr int64_t kStepsKept = 100'000;  // of samples read: more than the control loop asks for at a time

bool is_among(const std::vector<DeviceId>& devices, DeviceId device) {
  return std::find(devices.begin(), devices.end(), device) != devices.end();
}

// An empty object for what is none.
json said_of(const Trainers::Answer& answer) {
  json said = read_json(answer.said).value_or(json());
  return said.is_object() ? said : json::object();
}

json box_json(const tensor::Box& box) {
  json list = json::array();
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) list.push_back({box.lo[dim], box.hi[dim]});
  return list;
}

json shape_json(const tensor::Shape& shape) {
  json list = json::array();
  for (int dim = 0; dim < shape.rank(); ++dim) list.push_back(shape[dim]);
  return list;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Training>> Training::create(const Places& places, trainers::TrainerProgram program) {
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<Trainers> trainers, Trainers::create(std::move(program)));
  return std::unique_ptr<Training>(new Training(places, std::move(trainers)));
}

std::vector<DeviceId> Training::own_devices(const Collection& side) const {
  std::vector<DeviceId> own;
  for (const DeviceId device : places_.devices()) {
    if (is_among(side.device_of_rank, device)) own.push_back(device);
  }
  return own;
}

absl::Status Training::start(const Collection& side) { return trainers_->start(own_devices(side)); }

absl::StatusOr<std::vector<TrainerState>> Training::gather(const Collection& side) {
  const std::vector<DeviceId> devices = own_devices(side);
  SCALAI_RETURN_IF_ERROR(trainers_->start(devices));
  std::vector<Trainers::Order> orders;
  for (const DeviceId device : devices) orders.push_back({device, ""});
  std::vector<TrainerState> ended;
  for (const Trainers::Answer& answer : trainers_->tell(std::move(orders))) {
    if (answer.ended.empty()) continue;
    ended.emplace_back().set_device(static_cast<int32_t>(answer.device.value));
    ended.back().set_ended(answer.ended);
  }
  return ended;
}

absl::StatusOr<Training::Meeting> Training::ask_port(const Collection& side) {
  const DeviceId first = side.device_of_rank.front();
  SCALAI_RETURN_IF_ERROR(trainers_->start({first}));
  const std::vector<Trainers::Answer> answers =
      trainers_->tell({{first, json_text(json{{"do", "meet"}, {"world", side.device_of_rank.size()}})}});
  const Trainers::Answer& answer = answers.front();
  if (!answer.ended.empty()) return Meeting{0, answer.ended};
  const json said = said_of(answer), port = said.value("port", json());
  if (!port.is_number_integer()) return Meeting{0, "it has no port"};
  return Meeting{port.get<int>(), ""};
}

absl::StatusOr<Training::Given> Training::given_to(const Layout& layout, DeviceId device) {
  const Collection& side = layout.side;
  const LogicalRank rank = *rank_of(side, device);
  const state::Store& store = *places_.own(Location::device(device));
  const state::SegmentAddress memory = store.address();
  Given given{.by_parts = memory.fd < 0};
  json tensors = json::array();
  for (size_t i = 0; i < side.tensors.size(); ++i) {
    const collection::LogicalTensor& tensor = side.tensors[i];
    const TensorId id(static_cast<int64_t>(i));
    for (const tensor::Piece& piece : side.pieces(id, rank).pieces) {  // of a flat range several, in its order
      if (piece.box.empty()) continue;
      const std::vector<state::Piece> found = store.find(layout.key, id, piece.box);
      if (found.size() != 1 || found.front().box != piece.box)
        return failed(
            fmt::format("tensor \"{}\" {} is not one buffer on g{}", tensor.name, piece.box.str(), device.value));
      const uint64_t offset = found.front().offset;
      given.ranges.emplace_back(offset, offset + static_cast<uint64_t>(piece.box.volume() * size_of(tensor.dtype)));
      tensors.push_back({{"name", tensor.name},
                         {"dtype", tensor::name_of(tensor.dtype)},
                         {"shape", shape_json(tensor.shape)},
                         {"box", box_json(piece.box)},
                         {"offset", offset}});
    }
  }
  std::sort(given.ranges.begin(), given.ranges.end());
  const std::vector<collection::MeshAxis>& axes = side.meshes.front().axes();
  json slowest_first = json::array();
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) slowest_first.push_back({axis->name, axis->size});
  const auto [words, offset] = trainers_->place_of_word(device);
  const std::vector<DeviceId> own = places_.devices();
  given.order = {.device = device, .what = {}, .descriptors = {words}};
  if (!given.by_parts) given.order.descriptors.push_back(memory.fd);
  given.order.what =
      json_text(json{{"do", "layout"},
                     {"version", layout.key.version.wire()},
                     {"step", layout.step},
                     {"fresh", layout.fresh},
                     {"rank", rank.value},
                     {"local_rank", std::distance(own.begin(), std::find(own.begin(), own.end(), device))},
                     {"axes", slowest_first},
                     {"address", layout.address},
                     {"word", offset},
                     {"descriptors", given.order.descriptors.size()},
                     {"tensors", std::move(tensors)}});
  return given;
}

namespace {

// The parts of a memory that have some ranges, one after the other.
class Parts {
 public:
  Parts(const state::Store& store, const std::vector<std::pair<uint64_t, uint64_t>>& ranges)
      : store_(store), ranges_(ranges) {}

  // From the first byte of the first part to the last one of the last. Errors: those of Memory::share.
  absl::StatusOr<json> range() const {
    SCALAI_ASSIGN_OR_RETURN(const SharedPart first, store_.share(ranges_.front().first));
    SCALAI_ASSIGN_OR_RETURN(const SharedPart last, store_.share(ranges_.back().second - 1));
    return json{first.offset, last.offset + static_cast<uint64_t>(last.bytes)};
  }
  // At most so many; none: those were all. Errors: those of Memory::share.
  absl::StatusOr<std::vector<SharedPart>> next(size_t most) {
    std::vector<SharedPart> parts;
    while (parts.size() < most && at_ < ranges_.size()) {
      const uint64_t begin = std::max(ranges_[at_].first, given_);
      if (begin >= ranges_[at_].second) {
        ++at_;
        continue;
      }
      SCALAI_ASSIGN_OR_RETURN(SharedPart part, store_.share(begin));
      given_ = part.offset + static_cast<uint64_t>(part.bytes);
      parts.push_back(std::move(part));
    }
    return parts;
  }

 private:
  const state::Store& store_;
  const std::vector<std::pair<uint64_t, uint64_t>>& ranges_;
  size_t at_ = 0;
  uint64_t given_ = 0;  // up to here
};

bool has_failed(const Trainers::Answer& answer) {
  const json problem = said_of(answer).value("problem", json());
  return !answer.ended.empty() || (problem.is_string() && !problem.get<std::string>().empty());
}

}  // namespace

absl::StatusOr<std::vector<Trainers::Answer>> Training::give_parts(const std::vector<Given>& all) {
  std::vector<Parts> left;
  for (const Given& given : all) left.emplace_back(*places_.own(Location::device(given.order.device)), given.ranges);
  // All devices together, because a process may often have no more than 1,024 open, and on their way, at a time.
  const size_t most = std::max<size_t>(1, Trainers::kMostDescriptors / std::max<size_t>(1, all.size()));
  std::vector<Trainers::Answer> answers;
  for (bool first = true; std::none_of(answers.begin(), answers.end(), has_failed); first = false) {
    std::vector<Trainers::Order> orders;
    std::vector<SharedPart> kept;  // as long as they are on their way
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].by_parts) continue;
      SCALAI_ASSIGN_OR_RETURN(std::vector<SharedPart> parts, left[i].next(most));
      if (parts.empty()) continue;
      Trainers::Order order{.device = all[i].order.device, .what = {}};
      json places = json::array();
      for (SharedPart& part : parts) {
        places.push_back({part.offset, part.bytes});
        order.descriptors.push_back(part.descriptor.get());
        kept.push_back(std::move(part));
      }
      json what = {
          {"do", "map"}, {"first", first}, {"descriptors", order.descriptors.size()}, {"parts", std::move(places)}};
      if (first) {
        what["gpu"] = places_.gpu_of(all[i].order.device);
        SCALAI_ASSIGN_OR_RETURN(what["range"], left[i].range());
      }
      order.what = json_text(what);
      orders.push_back(std::move(order));
    }
    if (orders.empty()) break;
    answers = trainers_->tell(std::move(orders));
  }
  return answers;
}

absl::StatusOr<std::vector<TrainerState>> Training::begin(const Layout& layout) {
  devices_ = own_devices(layout.side);
  SCALAI_RETURN_IF_ERROR(trainers_->start(devices_));
  std::vector<Given> all;
  for (const DeviceId device : devices_) {
    trainers_->set_word(device, layout.step);
    SCALAI_ASSIGN_OR_RETURN(Given given, given_to(layout, device));
    all.push_back(std::move(given));
    trained_.insert(device);
  }
  SCALAI_ASSIGN_OR_RETURN(const std::vector<Trainers::Answer> mapped, give_parts(all));
  if (std::any_of(mapped.begin(), mapped.end(), has_failed)) return states(mapped);
  std::vector<Trainers::Order> orders;
  for (Given& given : all) orders.push_back(std::move(given.order));
  return states(trainers_->tell(std::move(orders)));
}

absl::Status Training::keep(const Collection* side) {
  std::vector<DeviceId> leaving;
  for (const DeviceId device : trainers_->devices()) {
    if (side == nullptr || !is_among(side->device_of_rank, device)) leaving.push_back(device);
  }
  if (stand_by_) {
    // Those that wait already have nothing to let go of; one that does not answer is replaced.
    std::vector<Trainers::Order> orders;
    for (const DeviceId device : leaving) {
      if (trained_.erase(device) > 0 && trainers_->running(device)) orders.push_back({device, R"({"do":"rest"})"});
    }
    (void)trainers_->tell(std::move(orders));
    return stand_by();
  }
  const absl::Status left = trainers_->dismiss(leaving);
  for (const DeviceId device : leaving) trained_.erase(device);
  return left;
}

absl::Status Training::stand_by() {
  stand_by_ = true;
  return trainers_->start(places_.devices());
}

std::vector<TrainerState> Training::train(int64_t step, const std::function<void()>& before_change) {
  json train = {{"do", "train"}, {"until", step}};
  if (before_change) train["ask"] = true;
  std::vector<Trainers::Order> orders;
  for (const DeviceId device : devices_) {
    if (trainers_->running(device)) orders.push_back({device, json_text(train)});
  }
  std::vector<Trainers::Answer> answers = trainers_->tell(std::move(orders));
  if (!before_change) return states(answers);
  // Nobody has changed anything yet; those that cannot do the step have said so, and the others wait.
  before_change();
  const auto waits = [](const Trainers::Answer& answer) {
    return said_of(answer).value("done", json()) == "rewriting";
  };
  orders.clear();
  for (const Trainers::Answer& answer : answers) {
    if (waits(answer)) orders.push_back({answer.device, json_text(json{{"do", "rewrite"}})});
  }
  std::erase_if(answers, waits);
  if (!orders.empty()) {
    for (Trainers::Answer& answer : trainers_->tell(std::move(orders))) answers.push_back(std::move(answer));
  }
  return states(answers);
}

std::vector<TrainerState> Training::states(const std::vector<Trainers::Answer>& answers) {
  std::vector<TrainerState> list;
  for (const DeviceId device : devices_) {
    TrainerState& state = list.emplace_back();
    note_read(device);
    const Trainers::Word word = trainers_->word(device);
    state.set_device(static_cast<int32_t>(device.value));
    state.set_step(word.step);
    state.set_torn(word.torn);
    const auto answer =
        std::find_if(answers.begin(), answers.end(), [&](const Trainers::Answer& one) { return one.device == device; });
    if (answer == answers.end()) {
      if (!trainers_->running(device)) state.set_ended("it does not run");
      continue;
    }
    state.set_ended(answer->ended);
    const json said = said_of(*answer);
    const auto number = [&](const char* key) {
      const json value = said.value(key, json());
      return value.is_number() ? value.get<double>() : 0;
    };
    const json problem = said.value("problem", json());
    if (problem.is_string()) state.set_problem(problem.get<std::string>());
    const json asked = said.value("asked", json::object());
    if (asked.is_object()) {
      const json gpus = asked.value("gpus", json()), save = asked.value("save", json());
      if (gpus.is_number_integer()) state.set_asked_gpus(gpus.get<int32_t>());
      state.set_asked_save(save.is_boolean() && save.get<bool>());
    }
    state.set_build_s(number("build_s"));
    state.set_group_s(number("group_s"));
    state.set_copy_s(number("copy_s"));
  }
  return list;
}

// {"share": [0, 2], "read": [step, samples, low, high]}, a note a step
void Training::note_read(DeviceId device) {
  const auto numbers = [](const json& list, size_t count) {
    return list.is_array() && list.size() == count &&
           std::all_of(list.begin(), list.end(), [](const json& one) { return one.is_number_integer(); });
  };
  int64_t last = 0;
  for (const std::string& note : trainers_->take_notes(device)) {
    const json said = read_json(note).value_or(json());
    const json share = said.value("share", json()), read = said.value("read", json());
    if (!numbers(share, 2) || !numbers(read, 4)) continue;
    last = read[0].get<int64_t>();
    accounts_[{last, share[1].get<int>(), share[0].get<int>()}] = {read[1].get<int64_t>(), read[2].get<uint64_t>(),
                                                                   read[3].get<uint64_t>()};
  }
  accounts_.erase(accounts_.begin(), accounts_.lower_bound({last - kStepsKept, 0, 0}));
}

std::optional<datasets::SampleAccount> Training::read(int64_t step, int share, int shares) const {
  const auto found = accounts_.find({step, shares, share});
  return found == accounts_.end() ? std::nullopt : std::optional(found->second);
}

void Training::lose(DeviceId device) {
  trainers_->kill({device});
  std::erase(devices_, device);
}

}  // namespace scalai::executor::worker
