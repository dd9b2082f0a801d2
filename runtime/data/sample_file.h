/// Reads the samples of .safetensors and .npy files as inputs of a plan's model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/base/mapped_file.h"
#include "runtime/data/samples.h"

namespace rannc::runtime {

/// Returns the number of samples in `tensors`, keyed by graph input. The type of an input determines its sample axis,
/// if it has one. If no symbol counts samples, the number is fixed by the graph (`ir::fixed_samples`). Errors are those
/// of `SampleFile::open`, located in `path`.
Result<uint64_t> count_samples(const ir::Graph& graph, const std::map<std::string, TensorSpec>& tensors,
                               const std::string& path);

/// Reader of samples for training, evaluation and checks. A .safetensors file has a tensor `x/<input>` per input of
/// the model and, if there are labels, `labels/<name>`. Each file of a folder has some of the samples. Files are
/// memory-mapped and must not change while they are read; one that has become shorter is an error. Instead, a folder
/// may have a .npy file per tensor: `x/<input>.npy`, `labels/<name>.npy`.
class SampleFile final : public Samples {
 public:
  /// Samples are split along the axis that the type of each input specifies. An input without samples is part of every
  /// mini-batch as a whole. A trained model that mixes its samples has them on axis 0 (`ir::undivided_symbol`).
  /// Evaluation then computes all samples together, because any division would change the outputs. A model exported
  /// with a fixed batch does not specify the sample axis. Its tensors must have the exported shape, or a multiple of it
  /// along axis 0 if axis 0 of every output counts the samples. In evaluation, labels that the model does not read are
  /// skipped and listed by `unread`.
  ///
  /// Errors name the file and the tensor:
  /// - a tensor that is no input of the model, or has another rank or element type (`becomes_type`);
  /// - a different number of samples than in an earlier tensor (the error names both), or none;
  /// - a required input that is missing;
  /// - a label or an index that is out of range (`find_index_fault`);
  /// - for a folder, tensors that differ from those of an earlier file in more than their samples, and sizes;
  /// - sizes that vary and that the model's assumptions exclude;
  /// - an input that is to be padded with nothing, or with a number that is not of its type or out of range;
  /// - for training, fewer samples of each size than a mini-batch.
  static Result<SampleFile> open(const std::string& path, const ir::Plan& plan, SampleUse use = SampleUse::kEvaluation,
                                 const SampleSizes& sizes = {});

  uint64_t samples() const override { return samples_; }
  std::vector<uint64_t> ends_of_sizes() const override;
  /// Maximum number of samples of a mini-batch: that of the plan, or all for the evaluation of an undivided model.
  uint64_t mini_batch() const { return mini_batch_; }
  const std::vector<std::string>& unread() const { return unread_; }
  /// Returns samples [first, last): at most one mini-batch, or exactly one if the batch is fixed.
  Batch batch(uint64_t first, uint64_t last) const;
  Result<Batch> read(std::span<const uint64_t> numbers, const std::set<std::string>& inputs) const override;
  using Samples::read;
  std::string describe() const override;

 private:
  struct Input {
    Value whole;
    SampleAxis axis;              ///< if not present, every mini-batch contains the whole value
    std::vector<int64_t> padded;  ///< extents to which others than that of the axis are padded; empty: none is
    double pad = 0;
  };
  struct Shard {
    std::string path;
    std::map<std::string, Input> inputs;
    std::vector<std::shared_ptr<const MappedFile>> files;
    uint64_t first = 0, samples = 0;
    ir::Bindings sizes;  ///< without the number of samples, after padding
  };
  /// Consecutive samples of one shard.
  struct Run {
    const Shard* shard = nullptr;
    ir::SampleRange range;
  };
  Result<Shard> open_shard(const std::string& path, const ir::Graph& graph, SampleUse use, const SampleSizes& sizes);
  Result<void> pad(const SampleSizes& sizes, const ir::Graph& graph, Shard& shard) const;
  static Result<void> check_alike(const Shard& first, const Shard& other, bool sizes_vary);
  /// Sorts the files by their sizes.
  Result<void> order(const ir::Graph& graph, const SampleSizes& sizes);
  Result<void> check_fixed(const ir::Graph& graph) const;
  std::vector<Run> runs(std::span<const uint64_t> numbers) const;

  std::string path_;
  std::vector<Shard> shards_;
  std::map<std::string, ir::DType> types_;  ///< of the model's inputs
  std::vector<std::string> unread_;
  uint64_t samples_ = 0, mini_batch_ = 0;
  bool fixed_ = false;  ///< only whole mini-batches can be read
};

}  // namespace rannc::runtime
