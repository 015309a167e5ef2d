#include "labs/validation/commands.h"

int main(int argc, char** argv) {
  const scalai::Program program{
      .name = "scalai-accuracy",
      .summary = "Published numbers beside those of the models and the policies here.",
      .commands = {scalai::apps::accuracy_command("accuracy"), scalai::apps::accuracy_command("accuracy model"),
                   scalai::apps::accuracy_policies_command()},
      .external = {},
      .former = {{"validate-model", {"accuracy", "model"}}, {"validate-policies", {"accuracy", "policies"}}},
      .typed = "scalai",
  };
  return scalai::run_program(program, argc, argv);
}
