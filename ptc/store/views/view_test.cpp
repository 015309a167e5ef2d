#include "ptc/store/views/view.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "ptc/state/collection/megatron.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/views/internal/file_image.h"
#include "ptc/store/views/internal/view_layout.h"
#include "ptc/store/views/reshard.h"
#include "ptc/store/views/testing/checkpoint_folder.h"

namespace scalai::store {
namespace {

using ::testing::HasSubstr;

std::string renamed(const std::string& text) {
  const absl::StatusOr<ViewSpec> spec = parse_view_name(text);
  return spec.ok() ? canonical(*spec) : "refused: " + message_of(spec.status());
}

TEST(ViewName, HasOneParserAndOneForm) {
  EXPECT_EQ(renamed("hf"), "hf");
  EXPECT_EQ(renamed("tp4,pp2"), "tp4-pp2");
  EXPECT_EQ(renamed("pp2-tp4"), "tp4-pp2");
  EXPECT_EQ(renamed("tp4,pp2,hf"), "hf-tp4-pp2");
  EXPECT_EQ(renamed("logical-tp4-pp2-zero1"), "logical-tp4-pp2-zero1");
  EXPECT_EQ(renamed("job,tp1"), "job-tp1");
  EXPECT_EQ(renamed("megatron-tp2-order=pp-tp-cp-dp"), "megatron-tp2-order=pp-tp-cp-dp");
  EXPECT_EQ(renamed("dcp"), "dcp");
  EXPECT_EQ(renamed("torch_dist"), "torch_dist");
  EXPECT_EQ(renamed("tp2,pp2,torch"), "torch-tp2-pp2");
  EXPECT_EQ(renamed("logical"), "logical");
  EXPECT_THAT(renamed("torch"), HasSubstr("needs a layout"));
  EXPECT_THAT(renamed("dcp,tp2"), HasSubstr("no layout"));
  EXPECT_THAT(renamed("tp4,xx2"), HasSubstr("no layout"));
  EXPECT_THAT(renamed(""), HasSubstr("refused"));
  EXPECT_THAT(renamed("hf-hf"), HasSubstr("refused"));
}

class ViewTest : public CheckpointFolder {
 protected:
  static std::shared_ptr<const View> view_of(const std::shared_ptr<const Checkpoint>& checkpoint,
                                             const std::string& name) {
    auto view = View::make(checkpoint, name);
    SCALAI_CHECK(view.ok(), message_of(view.status()));
    return *view;
  }
};

// Files of the view, read in random pieces, are what reshard writes.
TEST_F(ViewTest, IsByteForByteWhatReshardWrites) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 3);
  for (const char* name : {"tp4-pp2", "tp8", "hf", "logical", "logical-tp2-pp2-dp2", "hf-tp2", "job-tp4-dp2", "dcp",
                           "torch_dist", "torch-tp2-pp2"}) {
    SCOPED_TRACE(name);
    const auto view = view_of(open("hf"), name);
    write(*view, std::string("written-") + name);
    Random random(9);
    for (size_t f = 0; f < view->files(); ++f) {
      SCOPED_TRACE(view->file_name(f));
      const std::string written = text_of(path(std::string("written-") + name) + "/" + view->file_name(f));
      EXPECT_EQ(*view->size(f), static_cast<int64_t>(written.size()));
      EXPECT_EQ(view->find(view->file_name(f)), f);
      const absl::StatusOr<ByteSourcePtr> source = view->open(f);
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ(*read_all(**source), written);
      for (int i = 0; i < 200; ++i) {
        const int64_t begin = random.between(0, static_cast<int64_t>(written.size()));
        const int64_t end =
            random.between(begin, std::min<int64_t>(begin + 3000, static_cast<int64_t>(written.size())));
        std::string part(static_cast<size_t>(end - begin), '?');
        ASSERT_TRUE((*source)->read(begin, std::as_writable_bytes(std::span(part))).ok());
        ASSERT_EQ(part, written.substr(static_cast<size_t>(begin), part.size())) << begin << " " << end;
      }
    }
  }
}

// Through layouts that cut everything differently and back, to the first byte and the last.
TEST_F(ViewTest, HuggingFaceThroughMegatronAndBackIsTheSameFile) {
  const std::vector<std::pair<std::string, std::string>> models = {
      {"gqa", llama_config(8, 2)},        {"mha", llama_config(4, 4)}, {"mqa", llama_config(8, 1)},
      {"tied", llama_config(8, 4, true)}, {"gpt2", gpt2_config()},     {"mixtral", mixtral_config()}};
  for (const auto& [name, config] : models) {
    for (const char* prefix : {"", "transformer."}) {
      if (*prefix != '\0' && name != "gpt2") continue;
      SCOPED_TRACE(name + prefix);
      const std::string at = name + prefix;
      WholeOptions options;
      if (name == "gpt2") options.prefix = prefix;
      write_hugging_face(path(at), config, options, 4);
      const std::string ep = name == "mixtral" ? "-dp2-ep2" : "";
      write(*view_of(open(at), "tp4-pp2" + ep), at + "-a");
      write(*view_of(open(at + "-a"), "tp2-pp1"), at + "-b");
      write(*view_of(open(at + "-b"), "hf"), at + "-c");
      EXPECT_TRUE(text_of(path(at) + "/model.safetensors") == text_of(path(at + "-c/model.safetensors")));
      EXPECT_EQ(text_of(path(at) + "/config.json"), text_of(path(at + "-c/config.json")));
      EXPECT_TRUE(open(at + "-a")->verify({}).ok());
    }
  }
}

TEST_F(ViewTest, ShardsAreThoseOfTheSource) {
  WholeOptions options;
  options.shard_bytes = 40'000;
  write_hugging_face(path("hf"), llama_config(8, 2), options);
  write(*view_of(open("hf"), "tp2"), "ranks");
  ViewSpec spec = *parse_view_name("hf");
  spec.shard_bytes = 40'000;
  const auto view = View::make(open("ranks"), spec);
  ASSERT_TRUE(view.ok()) << view.status();
  write(**view, "back");
  for (const auto& entry : std::filesystem::directory_iterator(path("hf"))) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(text_of(entry.path()) == text_of(path("back/" + name))) << name;
  }
}

TEST_F(ViewTest, AJobsCheckpointBecomesOneThatTheExecutorOpens) {
  const collection::Collection collection = sample_collection();
  ASSERT_TRUE(write_checkpoint(path("job"), collection, {"job", 12}).ok());
  collection::Collection other = collection;  // the same state on one rank
  other.meshes = {collection::Mesh({{"tp", 1}})};
  other.device_of_rank = {DeviceId(0)};
  for (collection::LogicalTensor& tensor : other.tensors) {
    tensor.layout = {};
    tensor.pins = {};
  }
  ViewSpec spec;
  spec.collection = other;
  const auto view = View::make(open("job"), spec);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ((*view)->spec().naming, "job");
  write(**view, "one");
  const absl::StatusOr<Reader> reader = Reader::open(path("one"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->stamp(), (Stamp{"job", 12}));
  EXPECT_EQ(reader->collection().epoch, 5);
  EXPECT_TRUE(reader->verify().ok());
  for (size_t i = 0; i < other.tensors.size(); ++i) {
    const TensorId id = *reader->find(other.tensors[i].name);
    const tensor::Box whole = tensor::Box::whole(other.tensors[i].shape);
    std::vector<std::byte> bytes(static_cast<size_t>(other.tensors[i].bytes()));
    ASSERT_TRUE(reader->read(id, whole, bytes).ok());
    EXPECT_EQ(bytes, content_of(collection.tensors[i], TensorId(static_cast<int64_t>(i)), whole));
  }
}

TEST_F(ViewTest, StateOfTheOptimizerIsLeftOutWhenThatIsSaid) {
  const auto model = model_of_config(llama_config(8, 2), "tiny");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto collection = collection::megatron_collection(*model, {}, {.tp = 2}, {DeviceId(0), DeviceId(1)});
  ASSERT_TRUE(collection.ok()) << collection.status();
  ASSERT_TRUE(write_checkpoint(path("job"), *collection, {"job", 1}).ok());
  write_text(path("config.json"), llama_config(8, 2));
  OpenOptions options;
  options.config = path("config.json");
  const auto source = Checkpoint::open(path("job"), options);
  ASSERT_TRUE(source.ok()) << source.status();
  const size_t params = model->params.size();
  EXPECT_THAT(message_of(check_places(**source, *parse_view_name("hf"))),
              HasSubstr(fmt::format("has {} tensors of an optimizer, such as", 3 * params)));
  ViewSpec spec{.naming = "megatron", .layout = collection::ParallelConfig{.tp = 1}};
  const auto whole = View::make(*source, spec);
  ASSERT_TRUE(whole.ok()) << whole.status();
  spec.optimizer = false;
  const auto bare = View::make(*source, spec);
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_EQ((*whole)->tensors().size() - (*bare)->tensors().size(), 3 * params);
  EXPECT_THAT((*bare)->notes(), ::testing::Contains(fmt::format("left out: {} tensors of the optimizer", 3 * params)));
  write(**bare, "bare");
  OpenOptions again;
  EXPECT_TRUE(check_places(**Checkpoint::open(path("bare"), again), *parse_view_name("hf")).ok());
  spec.naming = "job";
  EXPECT_THAT(message_of(View::make(*source, spec).status()),
              HasSubstr("a job's checkpoint has the state of its optimizer"));
}

TEST_F(ViewTest, WhatCannotBeIsRefusedWithAReason) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  const auto refusal = [&](const std::string& name, const std::string& view) {
    const auto made = View::make(open(name), view);
    return made.ok() ? "accepted" : message_of(made.status());
  };
  EXPECT_THAT(refusal("hf", "tp3"), HasSubstr("tp3 does not divide"));
  EXPECT_THAT(refusal("hf", "pp5"), HasSubstr("more than the 4 layers"));
  ASSERT_TRUE(write_checkpoint(path("job"), sample_collection(), {"job", 1}).ok());
  EXPECT_THAT(refusal("job", "tp2"), HasSubstr("--model=NAME"));
  EXPECT_THAT(refusal("job", "hf"), HasSubstr("--model=NAME"));
}

TEST_F(ViewTest, ReadersAtOnceSeeTheSame) {
  write_hugging_face(path("hf"), gpt2_config(1000));
  const auto view = view_of(open("hf"), "tp4-pp2");
  const size_t file = *view->find("rank_003.safetensors");
  const std::string expected = *read_all(**view->open(file));
  std::vector<std::thread> readers;
  std::atomic<int> wrong = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    readers.emplace_back([&, seed] {
      Random random(seed);
      const ByteSourcePtr source = *view->open(file);
      for (int i = 0; i < 200; ++i) {
        const int64_t begin = random.below(source->size());
        std::string part(static_cast<size_t>(random.between(0, source->size() - begin)), '?');
        const bool read = source->read(begin, std::as_writable_bytes(std::span(part))).ok();
        if (!read || part != expected.substr(static_cast<size_t>(begin), part.size())) ++wrong;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

// A server lists no names: what the folder's own manifest names is there, however it is called.
TEST_F(ViewTest, WhatAManifestNamesGoesAlong) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  write_text(path("hf/NOTICE-of-others"), "text");
  const auto view = View::make(open("hf"), "hf");
  ASSERT_TRUE(view.ok());
  const ReshardOptions options = {.target = path("copy"), .progress = {}};
  ASSERT_TRUE(reshard(**view, *plan_reshard(**view, options), options).ok());
  const auto remote = Checkpoint::open(path("copy"), {.opener = open_file_source});
  ASSERT_TRUE(remote.ok()) << remote.status();
  EXPECT_THAT((*remote)->info().others, ::testing::ElementsAre("NOTICE-of-others"));
  std::filesystem::remove(path("copy/NOTICE-of-others"));
  EXPECT_THAT(open("copy")->info().notes,
              ::testing::ElementsAre("NOTICE-of-others: manifest.json names it, and it is not there"));
}

TEST_F(ViewTest, AConfigThatIsGivenIsTheOneThatIsWritten) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  const std::string own = text_of(path("hf/config.json"));
  write_text(path("given.json"), own + "\n");
  EXPECT_EQ(open("hf")->info().config, own);
  EXPECT_EQ((*Checkpoint::open(path("hf"), {.config = path("given.json")}))->info().config, own + "\n");
}

TEST_F(ViewTest, NamesWhatIsNotTakenAlong) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  EXPECT_TRUE(open("hf")->info().others.empty());
  write_text(path("hf/tokenizer.json"), "{}");
  EXPECT_EQ(open("hf")->info().others, std::vector<std::string>{"tokenizer.json"});
  // Weights in another format, and links to what is not of the folder.
  write_text(path("hf/pytorch_model.bin"), "weights");
  write_text(path("secret"), "mine");
  std::filesystem::create_symlink(path("secret"), path("hf/README.md"));
  std::filesystem::create_directories(path("hf/LICENSE"));
  const auto view = View::make(open("hf"), "hf");
  ASSERT_TRUE(view.ok());
  EXPECT_THAT((*view)->notes(), ::testing::ElementsAre(HasSubstr(": LICENSE, README.md, pytorch_model.bin; copy")));
  EXPECT_FALSE((*view)->find("README.md").has_value());
}

TEST_F(ViewTest, WhatBelongsToTheModelGoesAlong) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  const std::string large(300'000, 't');
  std::filesystem::create_directories(path("blobs"));
  write_text(path("blobs/1f"), large);
  std::filesystem::create_symlink("../blobs/1f", path("hf/tokenizer.json"));
  const std::vector<std::string> names = {"LICENSE.txt", "chat_template.jinja", "generation_config.json",
                                          "modeling_llama.py"};
  for (const std::string& name : names) write_text(path("hf/" + name), name);
  write(*view_of(open("hf"), "tp2"), "ranks");
  EXPECT_TRUE(open("ranks")->verify({}).ok());
  write(*view_of(open("ranks"), "hf"), "back");
  for (const char* folder : {"ranks/", "back/"}) {
    for (const std::string& name : names) EXPECT_EQ(text_of(path(folder + name)), name) << folder;
    EXPECT_TRUE(text_of(path(std::string(folder) + "tokenizer.json")) == large) << folder;
    EXPECT_FALSE(std::filesystem::is_symlink(path(std::string(folder) + "tokenizer.json")));
  }
  // Checked like everything else.
  write_text(path("ranks/LICENSE.txt"), "LICENCE.txt");
  EXPECT_THAT(message_of(open("ranks")->verify({})), HasSubstr("LICENSE.txt"));
  ViewSpec bare = *parse_view_name("hf");
  bare.extras = false;
  const auto view = View::make(open("hf"), bare);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ((*view)->files(), 2u);
  EXPECT_THAT((*view)->notes(), ::testing::Contains(HasSubstr("left out, for they are no state: LICENSE.txt")));
}

}  // namespace
}  // namespace scalai::store
