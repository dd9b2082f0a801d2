/// Located diagnostics for user errors, and a hard check for internal errors.
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rannc {

/// A place in the input: a line of a text file, a node of a model, or only a file. Every part may be absent.
struct Location {
  std::string file;
  uint32_t line = 0;    ///< from 1; 0 = unknown
  uint32_t column = 0;  ///< from 1; 0 = unknown
  std::string node;     ///< name of the model's node, field or flag
  bool operator==(const Location&) const = default;
  std::string str() const;
};

struct Note {
  Location where;
  std::string message;
  bool operator==(const Note&) const = default;
};

/// One user error: where it is, what was found, what was allowed, and the rule that it breaks (`G3`, `S6` …).
struct Diagnostic {
  Location where;
  std::string message;
  std::string rule;         ///< label of a verifier's rule; empty if no rule is involved
  std::vector<Note> notes;  ///< the second place, hints
  bool operator==(const Diagnostic&) const = default;

  /// Formats as `file:line:column: error: message [rule]`, then a line per note. No trailing newline.
  std::string str() const;
  Diagnostic&& note(std::string message, Location where = {}) &&;
};

/// Builds a diagnostic without a location.
Diagnostic error(std::string message);
Diagnostic error(Location where, std::string message, std::string rule = {});

/// The exception of `Result::value()`, for users of the runtime who prefer exceptions.
class Error : public std::runtime_error {
 public:
  explicit Error(Diagnostic diagnostic) : std::runtime_error(diagnostic.str()), diagnostic_(std::move(diagnostic)) {}
  const Diagnostic& diagnostic() const { return diagnostic_; }

 private:
  Diagnostic diagnostic_;
};

/// A value, or the diagnostic that explains why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Diagnostic diagnostic) : state_(std::in_place_index<1>, std::move(diagnostic)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Diagnostic& diagnostic() const { return std::get<1>(state_); }
  /// Throws `rannc::Error` if there is no value.
  T value() && {
    if (!ok()) throw Error(diagnostic());
    return std::get<0>(std::move(state_));
  }

 private:
  std::variant<T, Diagnostic> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Diagnostic diagnostic) : diagnostic_(std::move(diagnostic)) {}
  bool ok() const { return !diagnostic_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Diagnostic& diagnostic() const { return *diagnostic_; }
  void value() const {
    if (!ok()) throw Error(*diagnostic_);
  }

 private:
  std::optional<Diagnostic> diagnostic_;
};

/// Thrown by a failed RANNC_CHECK: a bug in rannc, never an error in the user's input. Tools exit with code 70.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace detail {
class CheckFailure {
 public:
  CheckFailure(const char* condition, const char* file, int line);
  [[noreturn]] ~CheckFailure() noexcept(false);
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};
struct Voidify {
  void operator&(std::ostream&) const {}
};
}  // namespace detail

}  // namespace rannc

/// Checks an internal invariant, in release builds too: `RANNC_CHECK(cond) << "detail";`
#define RANNC_CHECK(condition)       \
  (condition) ? static_cast<void>(0) \
              : ::rannc::detail::Voidify() & ::rannc::detail::CheckFailure(#condition, __FILE__, __LINE__).stream()

#define RANNC_CONCAT_INNER(a, b) a##b
#define RANNC_CONCAT(a, b) RANNC_CONCAT_INNER(a, b)

/// Returns the diagnostic of a failed `Result<…>` to the caller.
#define RANNC_TRY(expression)                                   \
  do {                                                          \
    if (auto rannc_result = (expression); !rannc_result.ok()) { \
      return ::rannc::Diagnostic(rannc_result.diagnostic());    \
    }                                                           \
  } while (false)

/// `RANNC_ASSIGN(auto x, f());` binds the value of a `Result<…>` or returns its diagnostic to the caller.
#define RANNC_ASSIGN(declaration, expression) \
  RANNC_ASSIGN_INNER(declaration, expression, RANNC_CONCAT(rannc_assign_, __LINE__))
#define RANNC_ASSIGN_INNER(declaration, expression, name)        \
  auto name = (expression);                                      \
  if (!name.ok()) return ::rannc::Diagnostic(name.diagnostic()); \
  declaration = *std::move(name)
