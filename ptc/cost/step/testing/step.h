#pragma once
// Models, hosts and training runs for the tests of this folder.

#include <string>

#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/training.h"

namespace scalai::step {

// Eight GPUs, a NIC of 200 Gb/s each.
inline cluster::Host test_host(const std::string& gpu = "a100-80g") {
  cluster::Host host;
  host.gpus = 8;
  host.gpu = *cluster::find_gpu_kind(gpu);
  host.gpu_link_bytes_per_s = host.gpu.link_bytes_per_s;
  host.nics = 8;
  host.nic_bytes_per_s = 25e9;
  return host;
}

// As Megatron-LM's of 2021.
inline ModelShape test_gpt(int64_t hidden, int heads, int layers = 16) {
  ModelShape sizes;
  sizes.name = "gpt";
  sizes.layers = layers;
  sizes.hidden = hidden;
  sizes.heads = heads;
  sizes.biases = sizes.dropout = sizes.positions = sizes.tied = true;
  sizes.vocab = 51200;
  sizes.sequence = 2048;
  return transformer_shape(sizes);
}

inline Training test_training(int micro_batch, int global_batch = 64) {
  Training training;
  training.micro_batch = micro_batch;
  training.global_batch = global_batch;
  training.sequence = 2048;
  return training;
}

}  // namespace scalai::step
