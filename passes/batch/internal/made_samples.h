/// Rebuilds values that a file stores for a static batch size with a symbolic one.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/rewriter.h"
#include "passes/batch/internal/integer_tables.h"
#include "passes/batch/internal/sample_places.h"

namespace rannc::passes {

/// Adds such values to a graph that is being rewritten.
class MadeSamples {
 public:
  /// All arguments must outlive this object. `parameters`: names of stored tensors that are known to be trained as they
  /// are.
  MadeSamples(const ir::Graph& from, ir::Rewriter& rewriter, const Samples& samples,
              const std::set<std::string>& parameters, IntegerTables& tables);

  /// Returns a value with batch layout `wanted` that equals the old one at the static batch size. It is one of these,
  /// each made once:
  /// - integers that are equal for all samples, or grow by a constant from sample to sample;
  /// - a stored tensor that is equal for all samples;
  /// - a value that was made for one sample;
  /// - a random input, of which each sample has its own part;
  /// - the result of the same task on operands with samples.
  /// An error names the value that is none of these.
  Result<ValueId> of(ValueId old, const ir::BatchLayout& wanted);
  /// Returns indices into an axis with samples that has `inner` elements inside of each, rebuilt from those of one
  /// sample. Component `component` of the last axis (-1: all) grows by `inner` from sample to sample. The indices may
  /// have samples already, each with the numbers of the first.
  Result<ValueId> numbered_from_one(ValueId old, const ir::BatchLayout& wanted, int64_t component,
                                    const ir::Dim& inner);

  /// Returns whether a value of the old graph depends on random numbers.
  bool is_random(ValueId old) const { return random_[old.index()] || from_.random_input(old) != nullptr; }

  /// Stored tensors of which the new graph has the part of one sample: its name there -> name of the whole.
  const std::map<std::string, std::string>& parts() const { return parts_; }
  /// Returns the number of these, plus the number of tables that count samples.
  size_t changed() const { return parts_.size() + counted_; }
  /// Returns the number of random inputs that have separate numbers for each sample.
  size_t random_per_sample() const { return random_per_sample_; }

 private:
  using Key = std::pair<uint32_t, std::string>;
  Result<ValueId> make(ValueId old, const ir::BatchLayout& wanted);
  Result<ValueId> from_integers(ValueId old, const ir::BatchLayout& wanted, const ir::StoredTensor& table);
  Result<ValueId> from_stored(ValueId old, const ir::BatchLayout& wanted);
  Result<ValueId> from_task(ValueId old, const ir::BatchLayout& wanted);
  Result<ValueId> stretched(ValueId old, const ir::BatchLayout& wanted, const std::vector<std::byte>& bytes);
  Result<ValueId> numbered(ValueId old, const ir::BatchLayout& wanted, const ir::StoredTensor& table);
  Result<ValueId> add(std::string_view op, std::vector<ValueId> operands, ir::Attributes attributes, ValueId named);
  Result<ValueId> shaped(std::string_view op, ValueId value, ir::Shape shape, ValueId named);
  Result<ValueId> counted_on(ValueId old, size_t rank, int32_t axis, ValueId base, ValueId by);

  const ir::Graph& from_;
  ir::Rewriter& rewriter_;
  const Samples& samples_;
  const std::set<std::string>& parameters_;
  IntegerTables& tables_;
  std::vector<bool> random_;  // values of `from` that depend on random inputs
  std::map<Key, Result<ValueId>> made_;
  std::map<std::string, std::string> parts_;
  size_t counted_ = 0, random_per_sample_ = 0;
  int depth_ = 0;
};

}  // namespace rannc::passes
