#pragma once
// Scenarios to begin with: commented text that runs as it is. Pure functions; any thread.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::apps {

struct Template {
  std::string name;
  std::string summary;  // the question, one line
};
const std::vector<Template>& templates();

struct TemplateRequest {
  std::string name = "elastic";  // of templates()
  std::string model;             // "" = the template's own
  int gpus = 0;                  // 0 = the template's own
  std::string gpu;               // a GPU kind, or a host of the catalogue; "" = the template's own
};
// The scenario as text. InvalidArgument: an unknown template, GPU kind or host, too few GPUs. The model's name is not
// looked at.
absl::StatusOr<std::string> scenario_text(const TemplateRequest& request);

}  // namespace scalai::apps
