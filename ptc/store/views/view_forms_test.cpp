// Folders of torch and Megatron, there and back: by our manifest, and without it, as anybody else's.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/state/collection/megatron.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/torch/dcp.h"
#include "ptc/store/views/reshard.h"
#include "ptc/store/views/testing/test_model.h"
#include "ptc/store/views/view.h"

namespace scalai::store {
namespace view_forms_test {

using ::testing::Contains;
using ::testing::HasSubstr;

class ViewFormsTest : public FolderTest {
 protected:
  std::shared_ptr<const Checkpoint> open(const std::string& name) const {
    OpenOptions options;
    options.config = path("config.json");
    auto opened = Checkpoint::open(path(name), options);
    SCALAI_CHECK(opened.ok(), message_of(opened.status()));
    return *opened;
  }
  std::shared_ptr<const View> write(const std::string& from, const std::string& as, const std::string& to,
                                    bool masters = true) const {
    ViewSpec spec = *parse_view_name(as);
    spec.masters = masters;
    auto view = View::make(open(from), spec);
    SCALAI_CHECK(view.ok(), message_of(view.status()));
    const ReshardOptions options{.target = path(to), .verify = true, .progress = {}};
    const auto plan = plan_reshard(**view, options);
    SCALAI_CHECK(plan.ok(), message_of(plan.status()));
    const auto result = reshard(**view, *plan, options);
    SCALAI_CHECK(result.ok(), message_of(result.status()));
    return *view;
  }
  std::string refusal(const std::string& from, const std::string& as) const {
    const auto view = View::make(open(from), *parse_view_name(as));
    return view.ok() ? "accepted" : message_of(view.status());
  }
  // A job's checkpoint with masters and moments, at step 7.
  void write_job(const std::string& name, const std::string& config, const model::Recipe& recipe = {}) const {
    const auto model = model_of_config(config, "tiny");
    SCALAI_CHECK(model.ok(), message_of(model.status()));
    const auto collection = collection::megatron_collection(*model, recipe, {.tp = 2}, {DeviceId(0), DeviceId(1)});
    SCALAI_CHECK(collection.ok() && write_checkpoint(path(name), *collection, {"job", 7}).ok());
    write_text(path("config.json"), config);
  }
  void forget_manifest(const std::string& name) const { std::filesystem::remove(path(name) + "/" + kManifestName); }
};

TEST_F(ViewFormsTest, ParametersComeBackAsTheyWere) {
  const std::vector<std::pair<std::string, std::string>> models = {{"gqa", llama_config(8, 2)},
                                                                   {"tied", llama_config(8, 4, true)},
                                                                   {"gpt2", gpt2_config(97)},
                                                                   {"mixtral", mixtral_config()}};
  for (const auto& [name, config] : models) {
    write_hugging_face(path(name), config, {}, 4);
    write_text(path("config.json"), config);
    for (const std::string form : {"dcp", "torch_dist", "tp2,pp2,torch", "tp4,torch"}) {
      SCOPED_TRACE(name + " " + form);
      const std::string at = name + "-" + form;
      write(name, form, at);
      EXPECT_TRUE(open(at)->verify({}).ok());
      write(at, "hf", at + "-back");
      forget_manifest(at);
      write(at, "hf", at + "-again");
      for (const char* back : {"-back", "-again"})
        EXPECT_TRUE(text_of(path(name) + "/model.safetensors") == text_of(path(at + back) + "/model.safetensors"))
            << back;
    }
  }
}

TEST_F(ViewFormsTest, NamesOfTransformerEngineAndAnyPaddingAreReadAndKept) {
  for (const auto& config : {llama_config(8, 2), mixtral_config()}) {
    write_hugging_face(path("hf"), config, {}, 4);
    write_text(path("config.json"), config);
    ViewSpec spec = *parse_view_name("tp2,torch");
    spec.transformer_engine = true;
    spec.vocab_multiple = 600;
    const auto view = View::make(open("hf"), spec);
    ASSERT_TRUE(view.ok()) << view.status();
    const ReshardOptions options{.target = path("torch"), .progress = {}};
    ASSERT_TRUE(reshard(**view, *plan_reshard(**view, options), options).ok());
    forget_manifest("torch");
    EXPECT_TRUE(open("torch")->info().transformer_engine);
    EXPECT_THAT(open("torch")->info().notes,
                Contains(HasSubstr("the vocabulary has 1200 rows; those behind the 1000 words")));
    write("torch", "hf", "back");
    EXPECT_TRUE(text_of(path("hf/model.safetensors")) == text_of(path("back/model.safetensors")));
    write("torch", "tp4,megatron", "kept");
    EXPECT_TRUE(open("kept")->info().transformer_engine);
    for (const char* name : {"hf", "torch", "back", "kept"}) std::filesystem::remove_all(path(name));
  }
}

TEST_F(ViewFormsTest, SeveralFilesAreOneFolder) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 4);
  write_text(path("config.json"), llama_config(8, 2));
  for (const char* form : {"dcp", "torch_dist"}) {
    ViewSpec spec = *parse_view_name(form);
    spec.shard_bytes = 40'000;
    const auto view = View::make(open("hf"), spec);
    ASSERT_TRUE(view.ok()) << view.status();
    int files = 0;
    for (size_t f = 0; f < (*view)->files(); ++f) files += (*view)->has_tensors(f) ? 1 : 0;
    EXPECT_GT(files, 3);
    const ReshardOptions options{.target = path(form), .progress = {}};
    ASSERT_TRUE(reshard(**view, *plan_reshard(**view, options), options).ok());
    forget_manifest(form);
    write(form, "hf", std::string(form) + "-back");
    EXPECT_TRUE(text_of(path("hf/model.safetensors")) == text_of(path(std::string(form) + "-back/model.safetensors")));
  }
}

TEST_F(ViewFormsTest, StateOfTheOptimizerComesBack) {
  const std::pair<std::string, model::Optimizer> jobs[] = {{llama_config(8, 2), model::Optimizer::kAdam},
                                                           {mixtral_config(), model::Optimizer::kAdam},
                                                           {llama_config(8, 2), model::Optimizer::kSgdMomentum}};
  for (const auto& [config, optimizer] : jobs) {
    write_job("job", config, {.optimizer = optimizer});
    const auto notes = write("job", "torch_dist", "dist")->notes();
    EXPECT_THAT(notes, Contains(HasSubstr("of the job (counters, generators)")));
    EXPECT_TRUE(std::filesystem::exists(path("dist/iter_0000007/.metadata")));
    EXPECT_EQ(text_of(path("dist/latest_checkpointed_iteration.txt")), "7");
    write("dist", "logical-tp1", "all");
    write("job", "dcp", "dcp", /*masters=*/false);
    write("dcp", "logical-tp1", "moments");
    const std::string all = text_of(path("all/rank_000.safetensors")),
                      moments = text_of(path("moments/rank_000.safetensors"));
    forget_manifest("dist");
    write("dist", "logical-tp1", "all-again");
    EXPECT_TRUE(all == text_of(path("all-again/rank_000.safetensors")));
    forget_manifest("dcp");
    EXPECT_EQ(open("dcp")->info().step, 7);
    write("dcp", "logical-tp1", "moments-again");
    EXPECT_TRUE(moments == text_of(path("moments-again/rank_000.safetensors")));
    // And both are what the job had.
    for (const char* name : {"all", "moments"}) {
      const auto found = open(name), job = open("job");
      EXPECT_GT(found->tensors().size(), found->model()->model.params.size()) << name;
      for (size_t i = 0; i < found->tensors().size(); ++i) {
        const LogicalState& state = found->tensors()[i];
        const std::optional<size_t> other = job->find(state.name);
        ASSERT_TRUE(other.has_value()) << state.name;
        const tensor::Box box = tensor::Box::whole(state.shape);
        std::vector<std::byte> a(static_cast<size_t>(box.volume() * tensor::size_of(state.dtype))), b(a.size());
        ASSERT_TRUE(found->read(i, box, a).ok() && job->read(*other, box, b).ok());
        EXPECT_EQ(a, b) << state.name;
      }
    }
    for (const char* name : {"job", "dist", "all", "all-again", "dcp", "moments", "moments-again"})
      std::filesystem::remove_all(path(name));
  }
}

TEST_F(ViewFormsTest, WhatAFormHasNoPlaceForIsNamed) {
  write_job("job", llama_config(8, 2));
  EXPECT_THAT(refusal("job", "dcp"), HasSubstr("--to=dcp: torch's optimizers keep no masters"));
  EXPECT_THAT(refusal("job", "dcp"), HasSubstr("--drop=masters leaves them out"));
  EXPECT_THAT(refusal("job", "tp2,torch"), HasSubstr("--drop=optimizer leaves them out"));
  write_hugging_face(path("moe"), mixtral_config(), {}, 4);
  write_text(path("config.json"), mixtral_config());
  EXPECT_THAT(refusal("moe", "tp2,etp1,torch"), HasSubstr("so etp is tp; not etp1"));
}

// What lies where the index does not say, or not whole, is found.
TEST_F(ViewFormsTest, DamageIsFound) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 4);
  write_text(path("config.json"), llama_config(8, 2));
  for (const std::string form : {"dcp", "torch_dist", "tp2,torch"}) {
    SCOPED_TRACE(form);
    const std::string at = "damaged-" + form;
    const auto view = write("hf", form, at);
    for (size_t f = 0; f < view->files(); ++f) {
      if (!view->has_tensors(f)) continue;
      const std::string file = path(at) + "/" + view->file_name(f), text = text_of(file);
      std::string other = text;
      other[other.size() / 2] = static_cast<char>(other[other.size() / 2] ^ 1);
      write_text(file, other);
      EXPECT_FALSE(open(at)->verify({}).ok());
      write_text(file, text.substr(0, text.size() - 1));
      EXPECT_FALSE(Checkpoint::open(path(at)).ok()) << "too short";
      write_text(file, text);
    }
    EXPECT_TRUE(open(at)->verify({}).ok());
  }
}

TEST_F(ViewFormsTest, RanksOfAnotherIterationAreTold) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 4);
  write_text(path("config.json"), llama_config(8, 2));
  write("hf", "tp2,torch", "ranks");
  forget_manifest("ranks");
  const std::string file = path("ranks/release/mp_rank_01/model_optim_rng.pt");
  std::string text = text_of(file);
  const std::string key = "iteration";
  const size_t number = text.find(key) + key.size() + 5;  // behind its place in the memo
  ASSERT_EQ(text.substr(number, 2), std::string("K\0", 2));
  // The archive's checksum of the pickle goes: 0 is none.
  const size_t pickle = text.find('\x80'), crc = text.find("PK\3\4") + 14;
  ASSERT_LT(crc, pickle);
  const std::string sum = text.substr(crc, 4);
  for (size_t at = crc; at != std::string::npos; at = text.find(sum, at)) text.replace(at, 4, 4, '\0');
  text[number + 1] = 9;
  write_text(file, text);
  EXPECT_THAT(message_of(Checkpoint::open(path("ranks"), {.config = path("config.json")}).status()),
              HasSubstr("mp_rank_01/model_optim_rng.pt: is of iteration 9, "
                        "release/mp_rank_00/model_optim_rng.pt of 0"));
}

// Read from inside of the folder of an iteration, too, where Megatron's metadata.json lies beside.
TEST_F(ViewFormsTest, TheNameOfABackendDoesNotGoAlong) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 4);
  write_text(path("config.json"), llama_config(8, 2));
  write("hf", "torch_dist", "dist");
  write("dist/release", "dcp", "dcp");
  EXPECT_FALSE(std::filesystem::exists(path("dcp/metadata.json")));
  forget_manifest("dcp");
  EXPECT_EQ(open("dcp")->info().kind, CheckpointKind::kHuggingFace);
}

TEST_F(ViewFormsTest, AFolderWithFoldersIsReplacedIfItIsOurs) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 4);
  write_text(path("config.json"), llama_config(8, 2));
  const auto view = write("hf", "torch_dist", "dist");
  ReshardOptions options{.target = path("dist"), .force = true, .progress = {}};
  const auto plan = plan_reshard(*view, options);
  ASSERT_TRUE(reshard(*view, *plan, options).ok());
  write_text(path("dist/release/notes.txt"), "mine");
  EXPECT_THAT(message_of(reshard(*view, *plan, options).status()),
              HasSubstr("has \"release/notes.txt\", which is not of it"));
  std::filesystem::remove(path("dist/release/notes.txt"));
  std::filesystem::create_directories(path("dist/mine"));
  EXPECT_THAT(message_of(reshard(*view, *plan, options).status()), HasSubstr("has \"mine\", which is no file"));
}

}  // namespace view_forms_test
}  // namespace scalai::store
