/// Mini-batches for training, a pure function of the step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/train/batch.h"

namespace rannc::runtime {

/// Any worker can ask for any step, in any order, so that a resumed run sees what an uninterrupted one would have.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// The mini-batch of a step, counted from 0.
  virtual Result<Batch> batch(uint64_t step) const = 0;
  /// One line for people: `1.2 MB of text from 214 files`.
  virtual std::string describe() const = 0;
};

/// Next-byte prediction over text files.
struct TextOptions {
  std::vector<std::string> paths;  ///< files, and folders searched for text files (hidden ones and builds left out)
  std::string input = "tokens";    ///< i64[samples, length]: bytes at a random place
  std::string labels = "labels/targets";  ///< the same, one byte further on
  uint64_t samples = 1;                   ///< of a mini-batch
  uint64_t length = 1;                    ///< bytes of a sample
  bool input_by_place = false;            ///< the input is [length, samples]
  bool labels_by_place = false;           ///< the labels are
  uint64_t seed = 0;
};
/// Reads all text into memory. Errors: a path that cannot be read, less text than one sample needs.
Result<std::unique_ptr<Dataset>> open_text(const TextOptions& options);

/// The samples of a .safetensors file in order, mini-batch after mini-batch, from the start again at the end.
/// `x/<input>` feeds the graph input of that name, `labels/<name>` the input `labels/<name>`. Which axis counts samples
/// is what the plan's model says of each input; one without samples goes whole to every mini-batch (`SampleFile`).
/// A trailing partial mini-batch is dropped, which `describe` reports; it is an error if no full mini-batch remains.
Result<std::unique_ptr<Dataset>> open_samples(const std::string& path, const ir::Plan& plan);

/// Reads a whole .safetensors file as one batch, with the same names.
Result<Batch> read_batch(const std::string& path);

}  // namespace rannc::runtime
