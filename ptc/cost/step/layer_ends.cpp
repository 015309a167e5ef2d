// first_work and last_work of layer_work.h.
#include <vector>

#include "ptc/cost/step/internal/layer_kernels.h"

namespace scalai::step {

using namespace internal;

LayerWork first_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu) {
  const Context c(workload, hardware, gpu);
  LayerWork work;
  KernelTime forward(c.rates), backward(c.rates);
  forward.memory(2 * c.e * c.tokens * c.h);
  if (c.model().dropout) forward.memory((2 * c.e + 1) * c.outside * c.h);
  if (c.model().dropout) backward.memory((2 * c.e + 1) * c.outside * c.h);
  backward.memory((c.e + c.gradient_bytes()) * c.tokens * c.h);
  add(forward, work.forward);
  add(backward, work.backward);
  const Collective kind = c.sequence_parallel ? Collective::kReduceScatter : Collective::kAllReduce;
  work.forward.tp = c.tensor(kind);
  if (c.sequence_parallel) work.backward.tp = c.tensor(Collective::kAllGather);
  return work;
}

// Bytes a logit of `e` bytes that the loss reads and writes, a kernel each.
struct LossBytes {
  std::vector<double> forward, backward;
};
LossBytes loss_bytes(Loss loss, double e) {
  switch (loss) {
    // To 32 bits, maximum, difference, exponential, sum, quotient; back: copy, scale, to 16 bits.
    case Loss::kSeparate: return {{e + 4, 4, 8, 8, 4, 8}, {8, 8, 4 + e}};
    // To 32 bits with the maximum; difference, exponential and sum; quotient; back: scale and to 16 bits.
    case Loss::kCompiled: return {{e + 4, 8, 8}, {8 + e}};
    // Read for maximum and sum, read and replaced by the gradient; back: scaled.
    case Loss::kFused: return {{3 * e}, {2 * e}};
  }
  return {};
}

LayerWork last_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu) {
  const Context c(workload, hardware, gpu);
  const double vocab = static_cast<double>(c.model().vocab) / c.t, logits = c.tokens * vocab;
  // Logits stay in 16 bits also where the layers are FP8; the loss is in 32.
  const Product product{c.tokens, vocab, c.h, 1, c.e, c.e};
  LayerWork work;
  KernelTime forward(c.rates), backward(c.rates);
  norm_forward(c, forward);
  forward.product_in_16_bits(product);
  const LossBytes loss = loss_bytes(workload.training.loss_kernels(), c.e);
  for (const double bytes : loss.forward) forward.memory(bytes * logits);
  for (const double bytes : loss.backward) backward.memory(bytes * logits);
  backward.product_in_16_bits({c.tokens, c.h, vocab, 1, c.e, c.e});
  backward.product_in_16_bits({vocab, c.h, c.tokens, 1, c.e, c.gradient_bytes()});
  norm_backward(c, backward);
  add(forward, work.forward);
  add(backward, work.backward);
  if (c.t <= 1) return work;
  if (c.sequence_parallel) {
    work.forward.tp = c.tensor(Collective::kAllGather);
    work.backward.tp = c.tensor(Collective::kReduceScatter);
  } else {
    work.backward.tp = c.tensor(Collective::kAllReduce);
  }
  return work;
}

}  // namespace scalai::step
