// PlannerOptions::derive_params: what is cast from fp32 masters does not move. Plans and lower bounds of small GPTs
// against a count of single elements that knows only who held and who wants what.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "ptc/base/testing/share.h"
#include "ptc/plan/bounds.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/support.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"
#include "ptc/store/naming/family.h"

namespace scalai::plan {
namespace {

using collection::Collection;
using collection::MegatronOptions;
using tensor::Box;
using tensor::DType;

constexpr std::string_view kTinyGpt =
    R"({"architectures": ["GPT2LMHeadModel"], "n_layer": 4, "n_embd": 16, "n_head": 4, "n_positions": 8,
        "vocab_size": 300})";

Collection tiny_gpt(std::string_view layout, std::vector<DeviceId> devices, const MegatronOptions& options,
                    bool previous = false) {
  return collection::megatron_collection(store::model_of_config(kTinyGpt, "tiny").value(),
                                         {.param = DType::kBF16, .previous = previous},
                                         collection::parse_layout(layout).value(), std::move(devices), options)
      .value();
}

// ---- The count ------------------------------------------------------------------------------------------------------

// For every element of a tensor, the set of devices (at most 32) that have it.
using Holders = std::vector<uint32_t>;

// Calls visit(flat index) for every element of the box.
template <class Visit>
void for_each_element(const tensor::Shape& shape, const Box& box, Visit visit) {
  const auto strides = shape.strides();
  for (int64_t flat = 0; flat < shape.elements(); ++flat) {
    bool inside = true;
    int64_t rest = flat;
    for (size_t dim = 0; dim < static_cast<size_t>(shape.rank()); ++dim) {
      const int64_t at = rest / strides[dim];
      rest %= strides[dim];
      inside = inside && box.lo[dim] <= at && at < box.hi[dim];
    }
    if (inside) visit(static_cast<size_t>(flat));
  }
}

Holders holders_of(const Collection& collection, TensorId id, const std::set<DeviceId>& lost = {}) {
  const tensor::Shape& shape = collection.tensors[static_cast<size_t>(id.value)].shape;
  std::map<Box, uint32_t> boxes;
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    const DeviceId device = collection.device_of_rank[static_cast<size_t>(rank)];
    if (lost.count(device) != 0) continue;
    for (const auto& piece : collection.pieces(id, LogicalRank(rank)).pieces) boxes[piece.box] |= 1U << device.value;
  }
  Holders holders(static_cast<size_t>(shape.elements()), 0);
  for (const auto& [box, devices] : boxes)
    for_each_element(shape, box, [&, set = devices](size_t flat) { holders[flat] |= set; });
  return holders;
}

struct Count {
  int64_t stays = 0;  // kept or copied on its device
  int64_t derived = 0, moved = 0, cross_host = 0, from_storage = 0;
  friend bool operator==(const Count&, const Count&) = default;
};
void PrintTo(const Count& count, std::ostream* out) {
  *out << "stays " << count.stays << " derived " << count.derived << " moved " << count.moved << " cross_host "
       << count.cross_host << " from_storage " << count.from_storage;
}
Count count_of(const ClassBytes& bytes) {
  return {bytes.kept + bytes.same_device, bytes.derived, bytes.moved(), bytes.cross_host, bytes.from_storage};
}

uint32_t hosts_of(uint32_t devices, const cluster::Cluster& cluster) {
  uint32_t hosts = 0;
  for (int device = 0; device < cluster.device_count(); ++device) {
    if ((devices >> device & 1U) != 0) hosts |= 1U << cluster.host_of(DeviceId(device)).value;
  }
  return hosts;
}

TensorId master_of(const Collection& collection, TensorId param) {
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    if (collection.tensors[i].name == collection.tensors[static_cast<size_t>(param.value)].name + ".master")
      return TensorId(static_cast<int64_t>(i));
  }
  return TensorId();
}

// What has to happen: an element that a device wants is there already, or is cast from the master that will be there,
// or comes from somebody who has it, once a host where nobody has or casts it. What nobody has is read from storage
// once; from there it crosses once to every other host.
Count expected(const Case& job) {
  Count count;
  for (size_t i = 0; i < job.to.tensors.size(); ++i) {
    const TensorId id(static_cast<int64_t>(i));
    const Holders held = holders_of(job.from, id, job.residency.lost), wanted = holders_of(job.to, id);
    Holders masters(held.size(), 0);
    const TensorId master = master_of(job.to, id);
    if (job.options.derive_params && master.valid()) masters = holders_of(job.to, master);
    const int64_t bytes = tensor::size_of(job.to.tensors[i].dtype);
    for (size_t element = 0; element < held.size(); ++element) {
      const uint32_t lacking = wanted[element] & ~held[element];
      const uint32_t derived = lacking & masters[element], rest = lacking & ~masters[element];
      count.stays += bytes * std::popcount(wanted[element] & held[element]);
      count.derived += bytes * std::popcount(derived);
      if (held[element] == 0 && rest != 0) {
        count.from_storage += bytes;
        count.moved += bytes * (std::popcount(rest) - 1);
        count.cross_host += bytes * (std::popcount(hosts_of(rest, job.cluster)) - 1);
        continue;
      }
      count.moved += bytes * std::popcount(rest);
      const uint32_t lacking_hosts = hosts_of(rest, job.cluster) & ~hosts_of(held[element], job.cluster);
      count.cross_host += bytes * std::popcount(lacking_hosts & ~hosts_of(derived, job.cluster));
    }
  }
  return count;
}

// The plan (right by both interpreters), its bound and the count agree.
Plan expect_agreement(const Case& job) {
  const Plan plan = job.plan();
  EXPECT_TRUE(plan.feasible());
  const Count count = expected(job);
  EXPECT_EQ(count_of(lower_bounds(job.input()).given_placement), count);
  EXPECT_EQ(count_of(plan.lower_bound()), count);
  EXPECT_EQ(count_of(plan.bytes()), count);
  return plan;
}

int64_t bytes_over_links(const Plan& plan, const Case& job, model::StateKind kind) {
  int64_t bytes = 0;
  plan.for_each_operation([&](const Operation& operation) {
    const bool moves =
        operation.transfer_class == TransferClass::kSameHost || operation.transfer_class == TransferClass::kCrossHost;
    if (moves && job.to.tensors[static_cast<size_t>(operation.tensor.value)].kind == kind) bytes += operation.bytes;
  });
  return bytes;
}

// ---- Changes --------------------------------------------------------------------------------------------------------

struct Change {
  const char *from, *to;
  int first_device = 0;  // of the new job
};
constexpr Change kChanges[] = {
    {"tp2,pp2,dp2,zero1", "tp4,dp2,zero1"},
    {"tp2,pp2,dp2,zero1", "tp2,pp2,dp3,zero1"},
    {"tp1,pp2,dp4,zero1", "tp2,pp4,dp1,zero1", 4},
    {"tp2,dp2,cp2,zero1", "tp4,pp2,dp1,zero1", 4},
    {"tp4,dp2,zero1", "dp3,zero1", 8},
};

Case job_of(const Change& change, const MegatronOptions& options, bool previous = false) {
  const auto side = [&](const char* layout, int first) {
    return tiny_gpt(layout, first_devices(collection::parse_layout(layout)->world(), first), options, previous);
  };
  Case job{.from = side(change.from, 0), .to = side(change.to, change.first_device)};
  job.options.derive_params = true;
  return job;
}

struct Flavour {
  const char* name;
  MegatronOptions options;
};
const Flavour kFlavours[] = {
    {"masters cut tensor by tensor", {}},
    {"masters in one bucket a buffer", {.distributed_optimizer_buckets = true}},
    {"masters in small buckets", {.distributed_optimizer_buckets = true, .bucket_elements = 1000}},
};

// Each change with one flavour; with all of them when soaking. Returns the number of tests.
template <class Test>
int for_each_change(Test test) {
  int tests = 0;
  for (size_t f = 0; f < std::size(kFlavours); ++f) {
    for (size_t c = 0; c < std::size(kChanges); ++c) {
      if (!in_share(f + c, std::size(kFlavours))) continue;
      SCOPED_TRACE(std::string(kFlavours[f].name) + ": " + kChanges[c].from + " to " + kChanges[c].to);
      test(job_of(kChanges[c], kFlavours[f].options));
      ++tests;
    }
  }
  return tests;
}

TEST(DeriveParams, PlanAndBoundAreTheCountOfElements) {
  for_each_change([](const Case& job) { EXPECT_GT(expect_agreement(job).bytes().derived, 0); });
}

// Without the option the same parameters travel: all that is derived is what is saved, and only parameters save.
TEST(DeriveParams, SavesWhatItDerives) {
  for_each_change([](Case job) {
    const Plan derived = job.plan();
    job.options.derive_params = false;
    const Plan moved = expect_agreement(job);
    EXPECT_EQ(moved.bytes().derived, 0);
    EXPECT_EQ(moved.bytes().moved() - derived.bytes().moved(), derived.bytes().derived);
    for (const auto kind : {model::StateKind::kMaster, model::StateKind::kExpAvg, model::StateKind::kExpAvgSq})
      EXPECT_EQ(bytes_over_links(moved, job, kind), bytes_over_links(derived, job, kind));
    EXPECT_LE(derived.lower_bound_any_placement_cross_host(), derived.bytes().cross_host);
  });
}

// A new job of its own devices whose masters lie whole beside the parameters: no parameter travels at all.
TEST(DeriveParams, NoParameterTravelsWhereMastersAreWhole) {
  Case job = job_of({"tp2,pp2,dp2,zero1", "tp4,pp2", 8}, {});
  const Plan plan = expect_agreement(job);
  EXPECT_EQ(bytes_over_links(plan, job, model::StateKind::kParam), 0);
  EXPECT_GT(bytes_over_links(plan, job, model::StateKind::kMaster), 0);
}

// PipeDream-2BW's second version of the weights moves as the parameters do; no master has its values.
TEST(DeriveParams, APreviousVersionMovesWithItsParameterAndIsNeverDerived) {
  size_t index = 0;
  for (const Change& change : kChanges) {
    if (!in_share(index++, 4)) continue;
    SCOPED_TRACE(std::string(change.from) + " to " + change.to);
    Case job = job_of(change, {}, /*previous=*/true);
    const Plan derived = expect_agreement(job);
    derived.for_each_operation([&](const Operation& operation) {
      if (operation.transfer_class != TransferClass::kDerived) return;
      EXPECT_EQ(job.to.tensors[static_cast<size_t>(operation.tensor.value)].kind, model::StateKind::kParam);
    });
    job.options.derive_params = false;
    const Plan moved = expect_agreement(job);
    const int64_t previous = bytes_over_links(moved, job, model::StateKind::kPrevious);
    EXPECT_GT(previous, 0);
    EXPECT_EQ(previous, bytes_over_links(moved, job, model::StateKind::kParam));
    EXPECT_EQ(previous, bytes_over_links(derived, job, model::StateKind::kPrevious));
  }
}

// ---- Losses ---------------------------------------------------------------------------------------------------------

model::StateKind kind_of(const Case& job, TensorId id) { return job.to.tensors[static_cast<size_t>(id.value)].kind; }

// With one device of a replica its share of the masters is gone (unless cp has a twin); its parameters are not, as the
// other replica has them.
TEST(DeriveParams, MastersThatAreLostComeFromStorageAndParametersFromThem) {
  int stored = 0;
  const int tests = for_each_change([&](Case job) {
    job.residency.lost = {DeviceId(0)};
    job.residency.storage = true;
    const Plan plan = expect_agreement(job);
    EXPECT_GT(plan.bytes().derived, 0);
    stored += plan.bytes().from_storage > 0 ? 1 : 0;
    plan.for_each_operation([&](const Operation& operation) {
      if (operation.transfer_class == TransferClass::kFromStorage) {
        EXPECT_NE(kind_of(job, operation.tensor), model::StateKind::kParam);
      }
    });
  });
  EXPECT_GE(stored, tests - 1);
}

TEST(DeriveParams, MastersThatAreLostWithoutStorageAreNamed) {
  int infeasible = 0;
  const int tests = for_each_change([&](Case job) {
    job.residency.lost = {DeviceId(0)};
    const Plan plan = job.plan();
    std::set<model::StateKind> missing;
    for (const Missing& box : plan.missing()) missing.insert(kind_of(job, box.tensor));
    if (plan.feasible()) return;
    ++infeasible;
    EXPECT_EQ(missing, (std::set{model::StateKind::kMaster, model::StateKind::kExpAvg, model::StateKind::kExpAvgSq}));
  });
  EXPECT_GE(infeasible, tests - 1);
}

// One device is the whole job and is lost. Host memory has the masters and moments, but not the parameters.
TEST(DeriveParams, ParametersThatAreLostAreMadeOfMastersThatAreNot) {
  Case job{.from = tiny_gpt("dp1", devices({0}), {}), .to = tiny_gpt("tp2,dp1", devices({4, 5}), {})};
  job.residency.lost = {DeviceId(0)};
  int64_t param_bytes = 0;
  for (int rank = 0; rank < 2; ++rank) {
    for (size_t i = 0; i < job.to.tensors.size(); ++i) {
      const collection::LogicalTensor& tensor = job.to.tensors[i];
      const TensorId id(static_cast<int64_t>(i));
      if (tensor.kind != model::StateKind::kParam) {
        if (rank == 0) job.residency.extra.push_back({id, Box::whole(tensor.shape), HostId(2)});
        continue;
      }
      for (const auto& piece : job.to.pieces(id, LogicalRank(rank)).pieces)
        param_bytes += piece.box.volume() * tensor::size_of(tensor.dtype);
    }
  }
  EXPECT_FALSE(job.plan().feasible()) << "nobody has the parameters";
  job.options.derive_params = true;
  const Plan plan = job.plan();
  EXPECT_TRUE(plan.feasible());
  EXPECT_EQ(plan.bytes().derived, param_bytes);
  EXPECT_EQ(plan.bytes(), plan.lower_bound());
  EXPECT_EQ(bytes_over_links(plan, job, model::StateKind::kParam), 0);
}

// Only a parameter is cast from its master, and only down from a wider floating type. A plan that says otherwise is
// refused.
TEST(DeriveParams, OnlyFloatingParametersOfNarrowerTypesAreDerived) {
  using model::StateKind;
  struct Pair {
    DType param;
    StateKind kind;
    DType master;
    bool derived;
  };
  for (const Pair& pair : {Pair{DType::kBF16, StateKind::kParam, DType::kF32, true},
                           Pair{DType::kBF16, StateKind::kBuffer, DType::kF32, false},
                           Pair{DType::kI8, StateKind::kParam, DType::kF32, false},
                           Pair{DType::kBF16, StateKind::kParam, DType::kI32, false},
                           Pair{DType::kF32, StateKind::kParam, DType::kF32, false},
                           Pair{DType::kF32, StateKind::kParam, DType::kBF16, false}}) {
    SCOPED_TRACE(testing::Message() << tensor::name_of(pair.param) << " from " << tensor::name_of(pair.master));
    const auto side = [&](int device) {
      collection::Collection made =
          collection_of({{"dp", 1}}, devices({device}), {tensor_of("w", {4}, {}), tensor_of("w.master", {4}, {})});
      made.tensors[0].dtype = pair.param, made.tensors[0].kind = pair.kind;
      made.tensors[1].dtype = pair.master, made.tensors[1].kind = StateKind::kMaster;
      return made;
    };
    Case job{.from = side(0), .to = side(1), .options = {.derive_params = true}};
    PlanDraft plan = job.plan().draft();
    EXPECT_EQ(plan.bytes.derived > 0, pair.derived);
    EXPECT_EQ(plan.tensors[0].derived_from.valid(), pair.derived);
    if (pair.derived) continue;
    plan.tensors[0].derived_from = TensorId(1);
    EXPECT_THAT(message_of(interpret(seal(plan), job.oracle())), testing::HasSubstr("\"w.master\" is not its master"));
  }
}

}  // namespace
}  // namespace scalai::plan
