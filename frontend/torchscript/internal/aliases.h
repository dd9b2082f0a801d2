/// Tensors that share memory: what operators that write into one make of the others.
///
/// TorchScript writes in place (`x.add_(y)`) and has views (`x[0]`), values of a task graph are made once. A `Tensor`
/// here is what a name of the program stands for; which value of the graph it is changes as it is written. A view knows
/// the tensor that it is a view of and the task that takes it from there: whoever writes through it writes the tensor
/// behind, whoever reads it after that tensor was written takes it anew. Where ATen itself decides whether a result
/// shares memory (`reshape`, `contiguous`), a write makes the tensor what was written, and nothing proves what the
/// memory that it may share holds then: to read that afterwards is an error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/internal/task_writer.h"
#include "frontend/torchscript/internal/item.h"
#include "ir/graph/attributes.h"

namespace rannc::frontend::torchscript {

/// How a view is taken: one task on the tensor behind.
struct View {
  std::string op;  ///< of core, of one operand and one result
  ir::Attributes attributes;
};

/// Places along one axis of a tensor, from `start` to before `end`.
struct Places {
  int64_t axis;
  ir::Dim start, end;
};

/// What tensors share that are views of one another.
struct Memory {
  /// Places, or all of it, that hold no one knows what.
  struct Unknown {
    std::optional<Places> places;
    std::string why;
  };
  /// Memory that this may be a part of, with as many writes as this has seen.
  struct Shared {
    std::shared_ptr<Memory> with;
    std::optional<Places> places;
    uint64_t writes;
    size_t unknown;
  };
  uint64_t writes = 0;
  std::vector<Unknown> unknown = {};
  std::vector<Shared> shared = {};
};

class Tensor {
 public:
  /// A tensor of its own.
  explicit Tensor(ValueId value) : value_(value), memory_(std::make_shared<Memory>()) {}
  /// A view of `of`, which `value` is now.
  Tensor(ValueId value, TensorRef of, View view)
      : value_(value), of_(std::move(of)), view_(std::move(view)), memory_(of_->memory_), seen_(memory_->writes) {}
  /// What may be `of` or a copy of it.
  static TensorRef unsure(ValueId value, TensorRef of);

  /// The value that the tensor is now, taken anew where what is behind it was written. Errors latch in `writer`.
  ValueId read(TaskWriter& writer);
  /// The value that it was last, whose type and shape are those of now.
  ValueId now() const { return value_; }
  bool is_view() const { return of_ != nullptr; }
  /// From now on the tensor is `value`, of its type. Errors latch in `writer`.
  void write(TaskWriter& writer, ValueId value);
  /// Makes reads of its memory, and of what that may share, errors that say so, until all of it is written anew. False:
  /// others see that memory, too, which nobody can tell.
  [[nodiscard]] bool lose(const std::string& why);
  /// Says that the tensor is state of the model (a parameter or a buffer of that name): writes are effects.
  void set_state(std::string name) { state_ = std::move(name); }
  /// Makes writes errors that say so.
  void forbid_writes(std::string why) { forbidden_ = std::move(why); }
  /// Of the tensor behind all views; empty: it is none.
  const std::string& state() const { return of_ ? of_->state() : state_; }

 private:
  bool is_own() const { return !of_ || unsure_; }  ///< not a view for certain
  std::optional<Places> places() const;
  std::optional<std::string> fault(const TaskWriter& writer) const;
  const std::string& forbidden() const;
  void write_own(const TaskWriter& writer, ValueId value);

  ValueId value_;
  TensorRef of_;
  std::optional<View> view_;
  bool unsure_ = false;
  std::shared_ptr<Memory> memory_;
  uint64_t seen_ = 0;  ///< of the memory's writes, when `value_` was taken
  std::string state_, forbidden_;
};

}  // namespace rannc::frontend::torchscript
