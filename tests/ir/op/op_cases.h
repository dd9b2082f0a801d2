/// Calls of every core operator, for suites that check a rule on all of them.
#pragma once

#include <string>
#include <vector>

#include "ir/op/op.h"

namespace rannc::ir::testing {

/// One operand: a type, and the half-open range its integers are drawn from. Integers with contents take these.
struct Operand {
  ValueType type;
  bool absent = false;
  int64_t low = 0, high = 1;
  bool whole = false;  ///< its floats are integers of the range: among them are zeros, and some are equal
};

/// One call. Floats are f64, which a suite may narrow, but for those that are f32 in every suite.
struct OpCase {
  std::string op;  ///< short name
  std::vector<Operand> operands;
  Attributes attributes = {};
  uint32_t outputs = 1;
  /// Whether computing samples alone gives the parts of the whole, as the layouts say: not for statistics over samples,
  /// and not for indices that are sample numbers.
  bool parts_make_whole = true;
};

/// `f("batch,12,64")`: a float operand; its samples are on the axis whose extent is a multiple of `batch`.
Operand f(std::string_view shape);
Operand single(std::string_view shape);  ///< of f32
Operand whole(std::string_view shape, int64_t low, int64_t high);
Operand i(std::string_view shape, int64_t low, int64_t high);
Operand b(std::string_view shape);
Operand none();
/// A rank-1 i64 operand of known contents: `list("batch,12")`.
Operand list(std::string_view contents);
/// A rank-0 i64 operand of known contents.
Operand scalar(std::string_view content);
Shape dims(std::string_view text);

/// Those of operators of the backward pass, and forward ones on shapes and numbers at which gradients go wrong
/// (op_cases_grad_elementwise.cc).
void add_grad_elementwise(std::vector<OpCase>& cases);

/// At least one call of each core operator but the random ones, which have no statement of their own.
const std::vector<OpCase>& op_cases();
/// Those of op_cases_scatter.cc, op_cases_bits.cc and op_cases_quantize.cc.
void add_quantize(std::vector<OpCase>& cases);
void add_scatter(std::vector<OpCase>& cases);
void add_bits(std::vector<OpCase>& cases);
/// Whether it is an operator of the backward pass: there is neither a gradient nor a tape of it.
bool is_of_backward_pass(const OpCase& c);
/// Whether LibTorch has a derivative by an operand: not by running statistics, nor by the weights of a loss.
bool has_derivative(const OpInfo& op, size_t operand);
/// Whether a result is the memory of a kernel that only its gradient understands.
bool is_workspace(const OpCase& c, size_t result, const ValueType& type);
/// Those of op_cases_grad_dense.cc.
void add_grad_dense(std::vector<OpCase>& cases);
/// Those of op_cases_control.cc.
void add_control(std::vector<OpCase>& cases);
/// The call with bodies that take its operands.
OpCase fitted(OpCase c);
/// Those of operators that resample or spread elements over windows (op_cases_resample.cc).
void add_resample(std::vector<OpCase>& cases);
/// Those of op_cases_recurrent.cc.
void add_recurrent(std::vector<OpCase>& cases);
/// Those of op_cases_attention.cc.
void add_attention(std::vector<OpCase>& cases);
/// Those of op_cases_group_norm.cc.
void add_group_norm(std::vector<OpCase>& cases);
/// Those of op_cases_losses.cc.
void add_loss_cases(std::vector<OpCase>& cases);
/// The shape, and the call, for a fixed number of samples: no symbol, no batch layout.
Shape concrete(Shape shape, int64_t batch);
OpCase with_batch(OpCase c, int64_t batch);
/// The case for messages: `gather(f64[9,4] i64[batch,3])`.
std::string describe(const OpCase& c);

}  // namespace rannc::ir::testing
