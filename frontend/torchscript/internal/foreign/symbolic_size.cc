#include "frontend/torchscript/internal/foreign/symbolic_size.h"

#include <c10/core/SymNodeImpl.h>

#include <set>
#include <utility>

#include "ir/dim/dim_bounds.h"

namespace rannc::frontend::torchscript {

namespace {

using c10::SymNode;
using ir::Dim;

/// Shifts symbols so that bounds, which assume at least 1, hold for at least 2.
Dim from_two(const Dim& dim) {
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  Dim found = dim;
  for (const std::string& symbol : symbols) found = found.substitute(symbol, Dim::symbol(symbol) + Dim(1));
  return found;
}

/// Calls `mod`, which members would hide.
Dim modulo(const Dim& a, const Dim& b) { return mod(a, b); }

/// A boolean that is known or undetermined.
class Truth final : public c10::SymNodeImpl {
 public:
  explicit Truth(std::optional<bool> value) : value_(value) {}
  static SymNode of(std::optional<bool> value) { return c10::make_intrusive<Truth>(value); }

  bool is_int() override { return false; }
  bool is_bool() override { return true; }
  bool is_float() override { return false; }
  SymNode clone() override { return of(value_); }
  SymNode wrap_bool(bool value) override { return of(value); }
  SymNode sym_not() override { return of(value_ ? std::optional(!*value_) : std::nullopt); }
  SymNode sym_and(const SymNode& other) override { return joined(other, false); }
  SymNode sym_or(const SymNode& other) override { return joined(other, true); }
  bool guard_bool(const char*, int64_t) override {
    TORCH_CHECK(value_.has_value(), "a kernel needs an undetermined property of symbolic sizes");
    return *value_;
  }
  bool guard_or_false(const char*, int64_t) override { return value_.value_or(false); }
  bool guard_or_true(const char*, int64_t) override { return value_.value_or(true); }
  bool statically_known_true(const char*, int64_t) override { return value_.value_or(false); }
  bool bool_() override { return guard_bool(nullptr, 0); }
  bool has_hint() override { return value_.has_value(); }
  std::optional<bool> constant_bool() override { return value_; }
  bool is_constant() override { return value_.has_value(); }
  std::string str() override { return !value_ ? "?" : *value_ ? "true" : "false"; }

 private:
  /// `decides` is the operand that determines the result on its own.
  SymNode joined(const SymNode& other, bool decides) const {
    const auto second = other->constant_bool();
    if (value_ == decides || second == decides) return of(decides);
    return of(value_ && second ? std::optional(!decides) : std::nullopt);
  }

  std::optional<bool> value_;
};

class Size final : public c10::SymNodeImpl {
 public:
  explicit Size(Dim dim) : dim_(std::move(dim)) {}
  static SymNode of(Dim dim) { return c10::make_intrusive<Size>(std::move(dim)); }
  const Dim& dim() const { return dim_; }

  bool is_int() override { return true; }
  bool is_bool() override { return false; }
  bool is_float() override { return false; }
  SymNode clone() override { return of(dim_); }
  SymNode wrap_int(int64_t number) override { return of(Dim(number)); }
  SymNode wrap_bool(bool value) override { return Truth::of(value); }

  SymNode add(const SymNode& other) override { return of(dim_ + dim_of(other)); }
  SymNode sub(const SymNode& other) override { return of(dim_ - dim_of(other)); }
  SymNode mul(const SymNode& other) override { return of(dim_ * dim_of(other)); }
  SymNode floordiv(const SymNode& other) override { return of(floor_div(dim_, divisor(other))); }
  SymNode mod(const SymNode& other) override { return of(modulo(dim_, divisor(other))); }
  SymNode neg() override { return of(Dim(0) - dim_); }
  SymNode sym_min(const SymNode& other) override { return of(min(dim_, dim_of(other))); }
  SymNode sym_max(const SymNode& other) override { return of(max(dim_, dim_of(other))); }

  SymNode eq(const SymNode& other) override { return Truth::of(equal(other)); }
  SymNode ne(const SymNode& other) override { return eq(other)->sym_not(); }
  SymNode ge(const SymNode& other) override { return Truth::of(at_least(dim_, dim_of(other))); }
  SymNode le(const SymNode& other) override { return Truth::of(at_least(dim_of(other), dim_)); }
  SymNode gt(const SymNode& other) override { return le(other)->sym_not(); }
  SymNode lt(const SymNode& other) override { return ge(other)->sym_not(); }

  int64_t guard_int(const char*, int64_t) override {
    TORCH_CHECK(dim_.is_constant(), "a kernel needs the number of symbolic size ", dim_.str());
    return dim_.constant();
  }
  int64_t int_() override { return guard_int(nullptr, 0); }
  bool has_hint() override { return dim_.is_constant(); }
  std::optional<int64_t> constant_int() override { return maybe_as_int(); }
  std::optional<int64_t> maybe_as_int() override {
    return dim_.is_constant() ? std::optional(dim_.constant()) : std::nullopt;
  }
  bool is_constant() override { return dim_.is_constant(); }
  bool is_symbolic() override { return !dim_.is_constant(); }
  std::string str() override { return dim_.str(); }

  // Synthetic operands and kernel allocations are contiguous. Views are not queried.
  SymNode is_contiguous(c10::ArrayRef<SymNode> sizes, c10::ArrayRef<SymNode> strides) override {
    Dim expected = 1;
    std::optional<bool> all = true;
    for (size_t i = sizes.size(); i-- > 0 && all;) {
      const Dim size = dim_of(sizes[i]);
      if (!(size == Dim(1))) all = equal_sizes(dim_of(strides[i]), expected);
      if (all == false) return Truth::of(false);
      expected = expected * size;
    }
    return Truth::of(all);
  }
  SymNode is_channels_last_contiguous_2d(c10::ArrayRef<SymNode>, c10::ArrayRef<SymNode>) override {
    return Truth::of(false);
  }
  SymNode is_channels_last_contiguous_3d(c10::ArrayRef<SymNode>, c10::ArrayRef<SymNode>) override {
    return Truth::of(false);
  }
  SymNode is_channels_last_strides_2d(c10::ArrayRef<SymNode>, c10::ArrayRef<SymNode>) override {
    return Truth::of(false);
  }
  SymNode is_channels_last_strides_3d(c10::ArrayRef<SymNode>, c10::ArrayRef<SymNode>) override {
    return Truth::of(false);
  }
  SymNode is_non_overlapping_and_dense(c10::ArrayRef<SymNode> sizes, c10::ArrayRef<SymNode> strides) override {
    return is_contiguous(sizes, strides);
  }

  static Dim dim_of(const SymNode& node) {
    if (const auto* size = dynamic_cast<const Size*>(node.get())) return size->dim_;
    const auto number = node->maybe_as_int();
    TORCH_CHECK(number.has_value(), "a kernel computes with ", node->str(), ", which is no size");
    return Dim(*number);
  }

 private:
  static Dim divisor(const SymNode& node) {
    const Dim dim = dim_of(node);
    TORCH_CHECK(ir::sign(from_two(dim)) == 1, "a kernel divides by ", dim.str());
    return dim;
  }
  static std::optional<bool> equal_sizes(const Dim& a, const Dim& b) {
    return ir::certainly_equal(from_two(a), from_two(b));
  }
  std::optional<bool> equal(const SymNode& other) const { return equal_sizes(dim_, dim_of(other)); }
  static std::optional<bool> at_least(const Dim& a, const Dim& b) {
    const Dim more = from_two(a - b);
    if (ir::never_negative(more)) return true;
    return ir::never_negative(Dim(-1) - more) ? std::optional(false) : std::nullopt;
  }

  Dim dim_;
};

}  // namespace

c10::SymInt symbolic_size(const ir::Dim& dim) {
  return dim.is_constant() ? c10::SymInt(dim.constant()) : c10::SymInt(Size::of(dim));
}

std::optional<ir::Dim> as_dim(const c10::SymInt& size) {
  if (const auto number = size.maybe_as_int()) return ir::Dim(*number);
  const SymNode node = size.toSymNode();
  const auto* own = dynamic_cast<const Size*>(node.get());
  return own != nullptr ? std::optional(own->dim()) : std::nullopt;
}

}  // namespace rannc::frontend::torchscript
