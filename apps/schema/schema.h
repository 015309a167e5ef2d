#pragma once
// The schema of scenario and cluster files, read from the .proto files inside the program: what fields there are and
// what their comments say. Pure functions; the schema is read at the first call. Any thread.

#include <optional>
#include <string>
#include <vector>

namespace scalai::apps {

enum class SchemaOf { kScenario, kCluster };

// Fields as an indented list, each with its type and comment, at most `width` columns wide; messages are spelled out
// where they first occur.
std::string schema_text(SchemaOf what, int width = 80);
// The .proto files, imports first.
std::string schema_proto(SchemaOf what);
// JSON Schema, draft 2020-12, of files in JSON; comments are descriptions, so that editors show them. Names of
// quantities, models or layouts are texts here: `scalai validate` judges what is in them.
std::string json_schema(SchemaOf what);

struct FieldHelp {
  std::string path;                 // "jobs.checkpoint"
  std::string type;                 // "text", "list of Job", "one of STAR, LEAF_SPINE", …
  std::string comment;              // "" = none
  std::string file;                 // "ptc/proto/scenario.proto:66"
  std::vector<std::string> fields;  // of a message: their names
};
// By its path in a scenario, with or without indices: "jobs[0].checkpoint.every_steps"; "" is the scenario itself.
// Nothing: there is no such field.
std::optional<FieldHelp> field_help(const std::string& path);
// Fields that take this word as one of a few values (DRAGONFLY), with the value's own comment. `path` is the field's.
std::vector<FieldHelp> fields_with_value(const std::string& word);
// Paths of fields that end with these names ("leaf_hosts", "fabric.leaf_hosts"), the shortest first.
std::vector<std::string> paths_of(const std::string& end);
std::vector<std::string> field_names();  // distinct last names

}  // namespace scalai::apps
