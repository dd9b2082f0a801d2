/// Tracks in-place writes to tensors that share memory.
///
/// TorchScript has in-place writes (`x.add_(y)`) and views (`x[0]`), whereas a value of a task graph never changes. A
/// `Tensor` represents a name of the program, and a write changes its graph value. A view refers to its base tensor and
/// to the task that derives it. A write through the view writes the base. A read after a write to the base derives the
/// view again. If ATen decides whether a result shares memory (`reshape`, `contiguous`), a write changes only that
/// result. The content of the memory that it may share is then unknown, and reading it is an error.
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

/// The task that derives a view from its base tensor.
struct View {
  std::string op;  ///< core operator with one operand and one result
  ir::Attributes attributes;
};

/// The range [start, end) along one axis of a tensor.
struct Places {
  int64_t axis;
  ir::Dim start, end;
};

/// Memory of a tensor and its views.
struct Memory {
  /// A range, or all, of unknown content.
  struct Unknown {
    std::optional<Places> places;
    std::string why;
  };
  /// Memory that may contain this one, with the writes and unknown ranges that it had when last compared.
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
  /// A tensor with its own memory.
  explicit Tensor(ValueId value) : value_(value), memory_(std::make_shared<Memory>()) {}
  /// A view of `of` whose current value is `value`.
  Tensor(ValueId value, TensorRef of, View view)
      : value_(value), of_(std::move(of)), view_(std::move(view)), memory_(of_->memory_), seen_(memory_->writes) {}
  /// A tensor that is either `of` or a copy of it.
  static TensorRef unsure(ValueId value, TensorRef of);

  /// Returns the current value. Derives a view again if its base was written. Errors latch in `writer`.
  ValueId read(TaskWriter& writer);
  /// The last known value. Its type and shape are up to date, its content may not be.
  ValueId now() const { return value_; }
  bool is_view() const { return of_ != nullptr; }
  /// Sets the tensor to `value`, which must have its type. Errors latch in `writer`.
  void write(TaskWriter& writer, ValueId value);
  /// Makes reads of its memory, and of memory that it may share, fail with `why` until all of it is overwritten.
  /// Returns false if memory outside the current body may be affected too.
  [[nodiscard]] bool lose(const std::string& why);
  /// Marks the tensor as state of the model (a parameter or a buffer of that name), so that writes are side effects.
  void set_state(std::string name) { state_ = std::move(name); }
  /// Makes writes fail with `why`.
  void forbid_writes(std::string why) { forbidden_ = std::move(why); }
  /// State name of the base tensor. Empty: it is no state.
  const std::string& state() const { return of_ ? of_->state() : state_; }

 private:
  bool is_own() const { return !of_ || unsure_; }  ///< not certainly a view
  std::optional<Places> places() const;
  std::optional<std::string> fault(const TaskWriter& writer) const;
  const std::string& forbidden() const;
  void write_own(const TaskWriter& writer, ValueId value);

  ValueId value_;
  TensorRef of_;
  std::optional<View> view_;
  bool unsure_ = false;
  std::shared_ptr<Memory> memory_;
  uint64_t seen_ = 0;  ///< number of writes to the memory when `value_` was derived
  std::string state_, forbidden_;
};

}  // namespace rannc::frontend::torchscript
