/// Gives samples to values that a file holds for a fixed number of them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/rewriter.h"
#include "passes/batch/internal/integer_tables.h"
#include "passes/batch/internal/sample_places.h"

namespace rannc::passes {

/// Makes such values in a graph that is being rewritten.
class MadeSamples {
 public:
  /// All have to outlive it. `parameters` by name: stored tensors that are known to be trained as they are.
  MadeSamples(const ir::Graph& from, ir::Rewriter& rewriter, const Samples& samples,
              const std::set<std::string>& parameters, IntegerTables& tables);

  /// The value with samples at `wanted`, for the baked number of them the one it was: integers that are alike for all
  /// of them, or grow by as much from each to the next; a stored tensor that is alike for all; what was made for one
  /// sample; a draw, of which each sample has its own; or made by the task that makes it, from operands with samples.
  /// Each is made once. An error names what cannot be had so.
  Result<ValueId> of(ValueId old, const ir::BatchLayout& wanted);
  /// Indices into an axis with samples inside of which there are `inner` elements, made for one sample: those of
  /// component `component` of the last axis (-1: all) grow by `inner` from each sample to the next. They may have
  /// samples there already, each with the numbers of the first.
  Result<ValueId> numbered_from_one(ValueId old, const ir::BatchLayout& wanted, int64_t component,
                                    const ir::Dim& inner);

  /// Whether a value of the old graph is made of random numbers.
  bool is_drawn(ValueId old) const { return drawn_[old.index()] || from_.random_input(old) != nullptr; }

  /// Stored tensors of which the new graph has the part of one sample: its name there -> the whole's.
  const std::map<std::string, std::string>& parts() const { return parts_; }
  /// How many there are, and tables that are counted on.
  size_t changed() const { return parts_.size() + counted_; }
  /// Draws that give each sample numbers of its own.
  size_t drawn_for_each() const { return drawn_for_each_; }

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
  std::vector<bool> drawn_;  // values of `from` that are made of draws
  std::map<Key, Result<ValueId>> made_;
  std::map<std::string, std::string> parts_;
  size_t counted_ = 0, drawn_for_each_ = 0;
  int depth_ = 0;
};

}  // namespace rannc::passes
