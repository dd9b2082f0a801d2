/// Data sets: mini-batches for training as a pure function of the step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/token_inputs.h"

namespace rannc::runtime {

/// Any worker can read any step in any order, so that a resumed run sees the same data as an uninterrupted one.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Returns the mini-batch of a step. Steps are counted from 0.
  virtual Result<Batch> batch(uint64_t step) const = 0;
  /// Returns the needed samples and inputs of the same mini-batch, and reads nothing else. The default is an error.
  virtual Result<Batch> part(uint64_t step, const NeededSamples& needed) const;
  /// Returns a one-line description: `1.2 MB of text from 214 files`.
  virtual std::string describe() const = 0;
  /// Number of mini-batches of an epoch; nullopt if the source has no epochs.
  virtual std::optional<uint64_t> steps_per_epoch() const { return std::nullopt; }
};

/// Returns the mini-batch of a step. Every worker of a run must get the same one.
using ReadBatch = std::function<Result<Batch>(uint64_t step)>;
/// Returns a data set that calls `read`, for samples from any source. `description` is returned by `describe`.
std::unique_ptr<Dataset> make_dataset(ReadBatch read, std::string description);

/// Returns a data set whose `batch` is the part of `source`, which reads parts.
std::unique_ptr<Dataset> part_of(std::unique_ptr<const Dataset> source, NeededSamples needed);

/// Next-byte prediction over text files.
struct TextOptions {
  std::vector<std::string> paths;  ///< files, and folders searched for text files (skips hidden entries and `build`)
  TokenInputs inputs;
  uint64_t samples = 1;  ///< per mini-batch; each begins at a random byte
  uint64_t seed = 0;
};
/// Reads all text into memory. Errors: a path that cannot be read, less text than one sample needs.
Result<std::unique_ptr<Dataset>> open_text(const TextOptions& options);

/// Handling of files whose samples have other sizes, such as sequences of other lengths.
struct SampleSizes {
  /// Files of a folder may have other sizes than each other, and so have mini-batches. Else that is an error.
  bool vary = false;
  /// The symbols of the model's sizes are rounded up to multiples of this, and the tensors padded at their ends.
  int64_t multiple = 1;
  std::map<std::string, double> pads;  ///< by input: what it is padded with; of each input that needs it
};

/// Opens a .safetensors file of samples, or a folder of such files, in which each has some of the samples. `x/<input>`
/// feeds the graph input of that name, `labels/<name>` the input `labels/<name>`. The plan's model specifies each
/// input's sample axis. An input without samples is part of every mini-batch as a whole (`SampleFile`). Mini-batches
/// follow in the order of the files, or shuffled by a seed, and start over at the end (`mini_batches`). A trailing
/// partial mini-batch is dropped, which `describe` reports; it is an error if no full mini-batch remains.
Result<std::unique_ptr<Dataset>> open_samples(const std::string& path, const ir::Plan& plan,
                                              std::optional<uint64_t> shuffle_seed = std::nullopt,
                                              const SampleSizes& sizes = {});

/// Reads a .safetensors file as one batch, with the same naming.
Result<Batch> read_batch(const std::string& path);

}  // namespace rannc::runtime
