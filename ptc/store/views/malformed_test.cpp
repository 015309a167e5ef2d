// Sources of strangers that are wrong in some way: each is refused with its place, when it is opened. Nothing is
// written before (reshard_command_test).

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "ptc/store/torch/testing/torch_writer.h"
#include "ptc/store/views/internal/opened_arranged.h"
#include "ptc/store/views/reshard.h"
#include "ptc/store/views/testing/test_model.h"

namespace scalai::store {
namespace malformed_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kTensors = "model.safetensors";

// A folder that was good, in the form that its name says.
class Malformed : public FolderTest {
 protected:
  Malformed() {
    write_hugging_face(path("hf"), llama_config(8, 2), {}, 3);
    for (const char* form : {"tp2", "torch_dist", "dcp", "tp2,torch"}) {
      const auto view = View::make(*Checkpoint::open(path("hf")), form);
      SCALAI_CHECK(view.ok(), message_of(view.status()));
      const ReshardOptions options{.target = path(form), .progress = {}};
      SCALAI_CHECK(reshard(**view, *plan_reshard(**view, options), options).ok());
    }
    fs::copy(path("torch_dist"), path("index"), fs::copy_options::recursive);
    fs::copy(path("tp2,torch"), path("ranks"), fs::copy_options::recursive);
    for (const char* bare : {"index", "ranks"}) fs::remove(path(bare) + "/" + kManifestName);  // as anybody else's
  }

  struct Case {
    const char* name;
    const char* form;                                   // folder that is copied to "bad"
    std::function<void(const std::string& bad)> spoil;  // of its path
    const char* problem;                                // in the message
  };
  void expect_refused(const std::vector<Case>& cases) const {
    for (const Case& each : cases) {
      SCOPED_TRACE(each.name);
      fs::copy(path(each.form), path("bad"), fs::copy_options::recursive);
      each.spoil(path("bad"));
      const auto checkpoint = Checkpoint::open(path("bad"));
      EXPECT_TRUE(absl::IsInvalidArgument(checkpoint.status()) || absl::IsNotFound(checkpoint.status()))
          << checkpoint.status();
      const std::string message = message_of(checkpoint.status());
      EXPECT_THAT(message, HasSubstr(each.problem));
      EXPECT_THAT(message, HasSubstr("bad")) << "the place";
      EXPECT_LT(message.size(), 8000U);
      fs::remove_all(path("bad"));
    }
  }
};

// Edits of a file's text.
std::function<void(const std::string&)> edit(const std::string& file, const std::function<void(std::string&)>& change) {
  return [=](const std::string& bad) {
    std::string text = text_of(bad + "/" + file);
    change(text);
    write_text(bad + "/" + file, text);
  };
}
std::function<void(const std::string&)> becomes(const std::string& file, const std::string& text) {
  return [=](const std::string& bad) { write_text(bad + "/" + file, text); };
}
std::function<void(const std::string&)> replaced(const std::string& file, const std::string& from,
                                                 const std::string& to) {
  return edit(file, [=](std::string& text) {
    const size_t at = text.find(from);
    SCALAI_CHECK(at != std::string::npos, from);
    text.replace(at, from.size(), to);
  });
}
// A safetensors file with this header, in front of bytes.
std::string with_header(const std::string& json, size_t bytes) {
  std::string text;
  append_number(text, json.size(), 8);
  return text + json + std::string(bytes, 'x');
}
std::string one_tensor(const std::string& fields, size_t bytes = 8) {
  return with_header(fmt::format(R"({{"t":{{{}}}}})", fields), bytes);
}
std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }
std::function<void(const std::string&)> instead(const std::string& file,
                                                const std::function<void(const std::string&)>& make) {
  return [=](const std::string& bad) {
    fs::remove_all(bad + "/" + file);
    make(bad + "/" + file);
  };
}

TEST_F(Malformed, Safetensors) {
  const auto file = [](const std::string& text) { return becomes(kTensors, text); };
  std::string long_header;
  append_number(long_header, 200'000'000, 8);
  expect_refused({
      {"empty", "hf", file(""), "model.safetensors"},
      {"seven bytes", "hf", file("1234567"), "model.safetensors"},
      {"header beyond the end", "hf", file(with_header("{}", 0).replace(0, 1, "\x7f")), "model.safetensors"},
      {"header of 2^63 bytes", "hf", file(std::string(8, '\xff') + "{}"), "model.safetensors"},
      {"header beyond the limit", "hf", file(long_header + "{}"), "model.safetensors"},
      {"no JSON", "hf", file(with_header("{\"t\": ", 8)), "model.safetensors"},
      {"a list", "hf", file(with_header("[]", 8)), "model.safetensors"},
      {"deep JSON", "hf", file(with_header("{\"t\":" + nested(100'000) + "}", 8)), "model.safetensors"},
      {"a name twice", "hf",
       file(with_header(
           R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"t":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
           8)),
       "\"t\""},
      {"unknown dtype", "hf", file(one_tensor(R"("dtype":"F7","shape":[8],"data_offsets":[0,8])")), "F7"},
      {"unknown field", "hf", file(one_tensor(R"("dtype":"U8","shape":[8],"data_offsets":[0,8],"x":1)")), "\"t\""},
      {"negative place", "hf", file(one_tensor(R"("dtype":"U8","shape":[8],"data_offsets":[-8,0])")), "\"t\""},
      {"places backwards", "hf", file(one_tensor(R"("dtype":"U8","shape":[8],"data_offsets":[8,0])")), "\"t\""},
      {"other size than its shape", "hf", file(one_tensor(R"("dtype":"U8","shape":[7],"data_offsets":[0,8])")),
       "\"t\""},
      {"size beyond 64 bits", "hf",
       file(one_tensor(R"("dtype":"U8","shape":[4294967296,4294967296,4],"data_offsets":[0,8])")), "\"t\""},
      {"a hole", "hf", file(one_tensor(R"("dtype":"U8","shape":[4],"data_offsets":[4,8])")), "\"t\""},
      {"bytes behind the last", "hf", file(one_tensor(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])")),
       "model.safetensors"},
      {"overlap", "hf",
       file(with_header(
           R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},"b":{"dtype":"U8","shape":[6],"data_offsets":[2,8]}})",
           8)),
       "\"b\""},
      {"cut off", "hf", edit(kTensors, [](std::string& text) { text.pop_back(); }), "model.safetensors"},
      {"name that is no UTF-8", "hf",
       file(with_header("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8)), "model.safetensors"},
  });
}

TEST_F(Malformed, FoldersOfHuggingFace) {
  const auto index = [](const std::string& text) { return becomes(std::string(kIndexFileName), text); };
  const auto loop = [](const std::string& at) { fs::create_symlink(at, at); };
  expect_refused({
      {"index that is no JSON", "hf", index("{"), "index.json"},
      {"index that is deep", "hf", index("{\"weight_map\":" + nested(100'000) + "}"), "index.json"},
      {"index without a map", "hf", index("{}"), "/weight_map"},
      {"index that leads up", "hf", index(R"({"weight_map": {"a": "../hf/model.safetensors"}})"), "/weight_map/a"},
      {"index that leads away", "hf", index(R"({"weight_map": {"a": "/etc/passwd"}})"), "/weight_map/a"},
      {"index with a hidden file", "hf", index(R"({"weight_map": {"a": ".x.safetensors"}})"), "/weight_map/a"},
      {"index of a file that is not there", "hf", index(R"({"weight_map": {"a": "b.safetensors"}})"),
       "model.safetensors"},
      {"config that is no JSON", "hf", becomes("config.json", "{"), "config.json"},
      {"config that is deep", "hf", becomes("config.json", nested(100'000)), "config.json"},
      {"config that is empty", "hf", becomes("config.json", ""), "config.json"},
      {"config without heads", "hf",
       replaced("config.json", "\"num_attention_heads\": 8", "\"num_attention_heads\": 0"), "config.json"},
      {"config beyond all", "hf",
       replaced("config.json", "\"hidden_size\": 32", "\"hidden_size\": 9223372036854775807"), "config.json"},
      {"config with other sizes", "hf", replaced("config.json", "\"hidden_size\": 32", "\"hidden_size\": 64"),
       "model.embed_tokens.weight"},
      {"config of more layers", "hf", replaced("config.json", "\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5"),
       "is missing"},
      {"a folder", "hf", instead(kTensors, [](const std::string& at) { fs::create_directory(at); }), "bad"},
      {"a pipe", "hf", instead(kTensors, [](const std::string& at) { ASSERT_EQ(::mkfifo(at.c_str(), 0600), 0); }),
       "bad"},
      {"a device", "hf", instead(kTensors, [](const std::string& at) { fs::create_symlink("/dev/zero", at); }), "bad"},
      {"a link to nowhere", "hf", instead(kTensors, [](const std::string& at) { fs::create_symlink("nowhere", at); }),
       "bad"},
      {"a circle of links", "hf", instead(kTensors, loop), "bad"},
      {"config is a folder", "hf", instead("config.json", [](const std::string& at) { fs::create_directory(at); }),
       "config.json"},
  });
}

TEST_F(Malformed, ManifestsOfReshard) {
  const OpenOptions options;
  EXPECT_FALSE(internal::open_arranged(internal::Folder(path("tp2"), options), "{}").ok());
  const std::string name = R"("name": "rank_001.safetensors")";
  const auto manifest = [](const std::string& from, const std::string& to) {
    return replaced(kManifestName, from, to);
  };
  expect_refused({
      {"no JSON", "tp2", becomes(kManifestName, "{"), kManifestName},
      {"deep", "tp2", becomes(kManifestName, nested(100'000)), kManifestName},
      {"another kind", "tp2", manifest("\"arranged\"", "\"other\""), "other"},
      {"another version", "tp2", manifest("\"schema_version\": 2", "\"schema_version\": 3"), "schema version 3"},
      {"a file that leads up", "tp2", manifest(name, R"("name": "../rank_001.safetensors")"), "\"name\""},
      {"a file that leads away", "tp2", manifest(name, R"("name": "/etc/passwd")"), "\"name\""},
      {"a file that is not there", "tp2", manifest(name, R"("name": "rank_009.safetensors")"), "rank_009"},
      {"another size", "tp2", edit("rank_001.safetensors", [](std::string& text) { text += "x"; }), "rank_001"},
      {"a negative number", "tp2", manifest("\"bytes\": ", "\"bytes\": -"), "\"bytes\""},
      {"a checksum that is none", "tp2", manifest("\"xxh3_128\": \"", "\"xxh3_128\": \"x"), "xxh3_128"},
      {"state that nobody holds", "tp2", manifest(R"("name":"final_norm.weight")", R"("name":"other.weight")"),
       "holds unknown state"},
      {"a part of a whole", "tp2", manifest("\"texts\"", "\"part_of\": \"0\",\n \"texts\""), "is a part of"},
      {"a chunk before its file", "dcp", manifest("\"offset\":", "\"offset\":-"), "\"offset\""},
      {"a chunk behind its file", "dcp", manifest("\"offset\":", "\"offset\":99999"), "beyond the end"},
      {"a chunk that is too large", "dcp", manifest("\"elements\":", "\"elements\":9"), "__0_0.distcp"},
      {"chunks beyond 64 bits", "dcp", manifest("\"elements\":", "\"elements\":922337203685477"), "\"elements\""},
  });
}

TEST_F(Malformed, FilesOfTorch) {
  const std::string rank = "release/mp_rank_01/model_optim_rng.pt";
  const std::string index = "release/.metadata", chunks = "release/__0_0.distcp";
  ZipWriter packed;
  packed.add("archive/data.pkl", "x", 8);
  expect_refused({
      {"a rank cut off", "ranks", edit(rank, [](std::string& text) { text.resize(text.size() / 2); }), rank.c_str()},
      {"a rank that is no archive", "ranks", becomes(rank, "\x80\x02."), "not a file of torch.save"},
      {"a rank that is compressed", "ranks", becomes(rank, packed.finish()), "compressed"},
      {"a rank without its pickle", "ranks", becomes(rank, ZipWriter().finish() + std::string(8, 'x')), rank.c_str()},
      {"a storage that is not there", "ranks",
       edit(rank,
            [](std::string& text) {
              constexpr std::string_view kEntry = "archive/data/3";
              text[text.rfind(kEntry) + kEntry.size() - 1] = 'x';  // in the table of contents
            }),
       "which is not there"},
      {"a missing rank", "ranks", [](const std::string& bad) { fs::remove_all(bad + "/release/mp_rank_00"); }, "tp 0"},
      {"a tracker that is none", "ranks", becomes("latest_checkpointed_iteration.txt", "../hf"),
       "neither a number nor"},
      {"a tracker of what is not there", "ranks", becomes("latest_checkpointed_iteration.txt", "9"), "no checkpoint"},
      {"an index cut off", "index", edit(index, [](std::string& text) { text.resize(text.size() / 2); }), "cut off"},
      {"an index that is none", "index", becomes(index, std::string("\x80\x02}.", 4)), "no index of"},
      {"an index that leads up", "index", replaced(index, "__0_0.distcp", "../../x.dist"),
       "which is not in the folder"},
      {"chunks cut off", "index", edit(chunks, [](std::string& text) { text.resize(text.size() / 2); }),
       "beyond the end"},
      {"chunks that are none", "index", edit(chunks, [](std::string& text) { text.assign(text.size(), 'x'); }),
       "__0_0.distcp"},
      {"chunks that are not there", "index", [&](const std::string& bad) { fs::remove(bad + "/" + chunks); },
       "__0_0.distcp"},
  });
}

}  // namespace malformed_test
}  // namespace scalai::store
