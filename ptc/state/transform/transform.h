#pragma once
// Functions over tensors on their way from one place to another. A tensor is something that gives boxes; a step makes
// tensors of tensors, and reads nothing. Whoever writes the result reads it box by box, and each box reads the boxes
// that it is made of. So states of any size pass through bounded memory, whoever reads and whoever writes.
//
//   reader of the source ◄── box ── step ◄── box ── step ◄── box ── writer          boxes are asked for from right to
//   left
//
// How a step splits its work says which boxes of its inputs make a box of its output:
//
//   split      a box of the output needs                                      built in
//   kElements  the same box                                                   cast, scale
//   kRows      its whole rows along the last dimension                        quantise
//   kPair      the same box, rows of one matrix and columns of another one    lora
//   kReplicas  the same box of each of several states                         average
//
// Arithmetic is done in F64 and rounded once to the tensor's type, but for cast, which is tensor::convert.
// Values; any thread, several at once, if the readers are.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/state/tensor/box.h"
#include "ptc/state/tensor/dtype.h"
#include "ptc/state/tensor/layout.h"

namespace scalai::transform {

using tensor::Box;
using tensor::DType;
using tensor::Shape;

// The elements of a box inside the tensor, dense and row-major, in its type; `dst` has exactly their bytes.
// `origin`, unless empty, gives the elements of the tensor that the steps began with, in place of its own source: for
// one whose parts come from somewhere else at each read. Steps hand it on; nobody keeps it.
using Origin = std::function<absl::Status(const Box& box, std::span<std::byte> dst)>;
using ReadBox = std::function<absl::Status(const Box& box, std::span<std::byte> dst, const Origin& origin)>;

// A part of a tensor that others know as (a part of) a matrix of another name: Hugging Face's "q_proj.weight" is rows
// of a fused tensor. Offset and strides of the piece count elements of that matrix, which is dense and row-major.
struct MatrixPart {
  std::string name;
  int64_t rows = 0, columns = 0;
  tensor::Piece piece;
};

class Device;  // device.h
struct OnDevice;

struct Tensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  bool usual = true;  // taken by steps that name no tensors
  ReadBox read;
  std::vector<MatrixPart> parts{};              // empty: the tensor is known by its own name
  std::string made{};                           // the steps that made it, as text; empty: it is as it was
  int64_t scratch_bytes = 0;                    // bound of what one call of `read` allocates
  std::string origin{};                         // the tensor that the steps began with; empty: this one
  int dropped_dims = 0;                         // so many of the origin's last dimensions it has not
  int whole_dims = 0;                           // so many of them are read in whole, those among them
  std::shared_ptr<const OnDevice> on_device{};  // how a device makes it in place of `read`; null: it does not
};

// What a box of the tensor is made of, in its origin.
Box box_in_origin(const Tensor& tensor, const Shape& origin, const Box& box);
// The inverse: what a box of the origin has a part in.
Box box_of_origin(const Tensor& tensor, const Box& in_origin);
// Whether a cast is all that was done to it, so that whoever copies may as well cast.
bool is_only_cast(const Tensor& tensor);

enum class Split { kElements, kRows, kPair, kReplicas };

// What a device needs to know of a function to compute it (device.h).
struct BuiltIn {
  enum class What : uint8_t { kCast, kScale, kQuantise };
  What what = What::kCast;
  double factor = 1;  // of kScale
};

// A function of one tensor, kElements or kRows: built in, or a user's.
struct Function {
  Split split = Split::kElements;
  std::string name;  // also tells results apart: another function or version has another name
  bool needs_values =
      false;  // not for codes in 8 bits beside a tensor of their scales ("NAME_scale", "NAME_scale_inv")
  // The first output takes the tensor's place; others are new tensors beside it.
  struct Output {
    std::string suffix;  // of the name; "" for the first
    DType dtype = DType::kF32;
    bool one_per_row = false;  // has the shape without the last dimension; kRows only
  };
  // InvalidArgument: the function is not for tensors of this type or shape; the message is put behind their name.
  std::function<absl::StatusOr<std::vector<Output>>(DType dtype, const Shape& shape)> outputs;
  // A part of the tensor in memory: `in` has the elements of `part` in the tensor's type, `out` is for those of one
  // output. With kRows `part` has whole rows. Its errors end the run.
  struct Part {
    const Tensor* tensor = nullptr;
    Box box;
    size_t output = 0;
    std::span<const std::byte> in;
    std::span<std::byte> out;
  };
  std::function<absl::Status(const Part& part)> run;
  std::optional<BuiltIn> built_in{};  // absent: a user's
};

// The mean of the tensor and of those of the same name in other states; of a name that one lacks, an error.
struct Average {
  std::vector<std::string> others;
};

// W + alpha / rank · B A for matrices W that the adapter has a pair for: "NAME.lora_A.weight" [rank, columns] and
// "NAME.lora_B.weight" [rows, rank] for the matrix "NAME.weight" (PEFT's names, with or without "base_model.model.").
struct Lora {
  std::string adapter;
  std::optional<double> alpha;  // absent: as the adapter says
};

struct Step {
  std::string text;  // as the user wrote it, for messages
  // Names; empty: the usual ones. * stands for any text, ? for a character, [a-c] for one of these.
  std::vector<std::string> tensors;
  std::variant<Function, Average, Lora> what;
};

// Another state that a step names, such as an adapter.
struct Other {
  std::vector<Tensor> tensors;
  std::optional<double> alpha;   // of an adapter
  bool rank_stabilised = false;  // of an adapter: alpha / sqrt(rank)
  std::string identity;          // of its content
};
using OpenOther = std::function<absl::StatusOr<Other>(const std::string& path)>;

// "cast(bf16)", "scale(0.5, tensors=decoder.*)": NAME(VALUE, …, KEY=VALUE, …); a value with a comma or a bracket stands
// in "".
//
//   cast(DTYPE)            fp32, bf16, fp16, fp64 or a name of safetensors
//   scale(FACTOR)
//   quantise(i8)           rows times 127 / largest magnitude, rounded to nearest even, at most 127; "NAME_scale" has
//                          the factor of each row; rows whose factor is no finite F32 are errors
//   lora(PATH, alpha=A)
//   average(PATH, …)
//
// InvalidArgument: the text is none of these; all problems, a line each.
absl::StatusOr<std::vector<Step>> parse_steps(std::span<const std::string> texts);

// The tensors after all steps, in order; new ones come right behind theirs. InvalidArgument, all problems at once, a
// line each, with step, tensor and box: names that fit no tensor, types and shapes that a step is not for, other states
// that differ, pairs that fit nothing, two tensors of one name. Errors of `open`.
absl::StatusOr<std::vector<Tensor>> transform(std::span<const Step> steps, std::vector<Tensor> tensors,
                                              const OpenOther& open);

}  // namespace scalai::transform
