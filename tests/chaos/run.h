#pragma once
// One run of `scalai exec` with a fault:
//
//   Choice ─► scenario, files ─► controller ─► delay ─► fault ─► it ends, or is resumed ─► judge(), replay, what is
//   left
//
// Several may be played at a time, each by one thread.

#include <string>

#include "tests/chaos/choice.h"

namespace scalai::chaos {

struct Setting {
  std::string bin;               // folder of the executables, absolute
  std::string nccl;              // library; "" = none
  std::string clock;             // library for LD_PRELOAD; "" = none
  std::string certificate, key;  // "" = none
  std::string state;             // a checkpoint of the scenario's job to begin with; "" = none
  std::string python;            // an interpreter with PyTorch; "" = none
  std::string training;          // folder of a real training, made by make_training()
};

struct Outcome {
  std::string wrong;  // "" = nothing
  bool hangs = false;
  bool left_over = false;  // processes or files
  bool resumed = false;
  bool not_begun = false;  // killed before there was anything to go on with
  bool over = false;       // the fault came too late
};

// Everything lies below FOLDER and FOLDER.*; it is removed unless something went wrong. `number` tells runs of one time
// apart, from 0 to 250.
Outcome play(const Choice& choice, const Setting& setting, const std::string& folder, int number);

}  // namespace scalai::chaos
