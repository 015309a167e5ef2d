#pragma once
// Options of commands that read a checkpoint: facts that it does not contain, and changes of its state on the way.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/command.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::apps {

std::vector<OptionSpec> checkpoint_source_options();  // --from, --names, --config, --model, --families
// --drop of commands that look at a checkpoint; `scalai checkpoint reshard` has one that says more.
OptionSpec drop_option();
// What it left out, on stderr; nothing for nullptr.
void tell_dropped(const store::Checkpoint* checkpoint);
// For the checkpoint at `path`, which may be the address of a folder or file on a server (http, https, s3).
// InvalidArgument: an address with a user or a query; without libcurl any address.
absl::StatusOr<store::OpenOptions> open_options_of(const Arguments& arguments, const std::string& path);

// Of --dtype: "bf16", or by kind "params=bf16,master=fp32,moments=fp32". InvalidArgument: the text is neither.
absl::StatusOr<std::map<model::StateKind, tensor::DType>> parse_dtypes(const std::string& text);

}  // namespace scalai::apps
