#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/store/views/checkpoint.h"
#include "ptc/store/views/reshard.h"
#include "python/module/module.h"
#include "python/module/transforms.h"

namespace nb = nanobind;

namespace scalai::python {
namespace {

using store::Checkpoint;
using store::LogicalState;
using Memory = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// For nanobind, which takes no pointers to const.
struct Opened {
  std::shared_ptr<const Checkpoint> checkpoint;
  bool drop_optimizer = false, drop_masters = false;
};

Opened open(const std::filesystem::path& path, const std::string& names, const std::string& layout,
            const std::filesystem::path& config, const std::string& model, const nb::list& transforms,
            const std::vector<std::string>& drop) {
  store::OpenOptions options{.names = names, .from = layout, .config = config.string(), .model = model};
  options.transforms = steps_of(transforms);
  Opened opened;
  std::vector<std::string> words = drop;
  opened.drop_masters = std::erase(words, "masters") > 0;  // of what is written; what is read has them
  store::add_drop(words, options);
  opened.drop_optimizer = options.drop_optimizer;
  opened.checkpoint = value_of(Checkpoint::open(path.string(), options));
  return opened;
}

nb::dict info_of(const Opened& opened) {
  const store::CheckpointInfo& info = opened.checkpoint->info();
  nb::dict told;
  told["kind"] = std::string(name_of(info.kind));
  told["layout"] = info.layout;
  told["job"] = info.job;
  told["step"] = info.step;
  nb::list left_out;
  for (const std::string& name : info.dropped) left_out.append(name);
  told["left_out"] = left_out;
  return told;
}

nb::list tensors_of(const Opened& opened) {
  nb::list list;
  for (const LogicalState& state : opened.checkpoint->tensors())
    list.append(tensor_dict(state.name, state.dtype, state.shape, state.kind));
  return list;
}

tensor::Box box_of(const LogicalState& state, const std::vector<Range>& ranges) {
  tensor::Box box = tensor::Box::whole(state.shape);
  if (std::ssize(ranges) != state.shape.rank())
    check(invalid("tensor \"" + state.name + "\" has the shape " + state.shape.str() + ", the box " +
                  std::to_string(ranges.size()) + " ranges"));
  for (size_t dim = 0; dim < ranges.size(); ++dim) {
    const auto [begin, end] = ranges[dim];
    if (begin < 0 || end < begin || end > box.hi[dim])
      check(invalid("tensor \"" + state.name + "\" has the shape " + state.shape.str() + "; " + std::to_string(begin) +
                    ".." + std::to_string(end) + " lies outside of it in dimension " + std::to_string(dim)));
    box.lo[dim] = begin;
    box.hi[dim] = end;
  }
  return box;
}

void read(const Opened& opened, const std::string& name, const std::vector<Range>& ranges, const Memory& into) {
  const std::optional<size_t> found = opened.checkpoint->find(name);
  if (!found) check(missing("the checkpoint has no tensor \"" + name + "\""));
  const LogicalState& state = opened.checkpoint->tensors()[*found];
  const tensor::Box box = box_of(state, ranges);
  const int64_t bytes = box.volume() * size_of(state.dtype);
  if (static_cast<int64_t>(into.size()) != bytes)
    check(invalid("tensor \"" + name + "\": the box has " + std::to_string(bytes) + " bytes, the memory for it " +
                  std::to_string(into.size())));
  absl::Status status;
  {
    const nb::gil_scoped_release others_run;
    status = opened.checkpoint->read(*found, box, std::as_writable_bytes(std::span(into.data(), into.size())));
  }
  check(status);
}

void verify(const Opened& opened) {
  absl::Status status;
  {
    const nb::gil_scoped_release others_run;
    const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    status = opened.checkpoint->verify({.threads = threads, .progress = {}});
    if (status.ok()) status = opened.checkpoint->known_damage();
  }
  check(status);
}

void confirm(const Opened& opened) {
  absl::Status status;
  {
    const nb::gil_scoped_release others_run;
    status = opened.checkpoint->confirm();
  }
  check(status);
}

nb::dict reshard(const Opened& opened, const std::filesystem::path& target, const std::string& to,
                 int64_t process_memory, int threads, bool verify_too, bool force, bool restart) {
  const store::ReshardOptions options{.target = target.string(),
                                      .memory_cap = process_memory,
                                      .threads = threads,
                                      .verify = verify_too,
                                      .families = {},
                                      .force = force,
                                      .restart = restart,
                                      .progress = {}};
  absl::StatusOr<store::ReshardResult> result = absl::InternalError("");
  {
    const nb::gil_scoped_release others_run;  // functions of Python take the lock
    result = [&]() -> absl::StatusOr<store::ReshardResult> {
      SCALAI_ASSIGN_OR_RETURN(store::ViewSpec spec, store::parse_view_name(to));
      spec.optimizer = !opened.drop_optimizer;
      spec.masters = spec.optimizer && !opened.drop_masters;
      SCALAI_RETURN_IF_ERROR(store::check_places(*opened.checkpoint, spec));
      SCALAI_ASSIGN_OR_RETURN(const auto view, store::View::make(opened.checkpoint, std::move(spec)));
      SCALAI_ASSIGN_OR_RETURN(const store::ReshardPlan plan, plan_reshard(*view, options));
      return store::reshard(*view, plan, options);
    }();
  }
  const store::ReshardResult done = value_of(std::move(result));
  nb::dict told;
  told["files"] = done.files;
  told["bytes"] = done.bytes_total;
  told["bytes_written"] = done.bytes_written;
  return told;
}

}  // namespace

void add_checkpoints(nb::module_& module) {
  nb::class_<Opened>(module, "Checkpoint")
      .def_static("open", open, nb::arg("path"), nb::arg("names"), nb::arg("layout"), nb::arg("config"),
                  nb::arg("model"), nb::arg("transforms"), nb::arg("drop"))
      .def_prop_ro("info", info_of)
      .def_prop_ro("tensors", tensors_of)
      .def("read", read, nb::arg("tensor"), nb::arg("box"), nb::arg("into"))
      .def("verify", verify)
      .def("confirm", confirm)
      .def("reshard", reshard, nb::arg("target"), nb::arg("to"), nb::arg("process_memory"), nb::arg("threads"),
           nb::arg("verify"), nb::arg("force"), nb::arg("restart"));
}

}  // namespace scalai::python
