#include "ir/base/diagnostic.h"

#include "ir/base/printable.h"

namespace rannc {

std::string Location::str() const {
  std::string text = printable(file);
  if (line != 0) {
    text += ":" + std::to_string(line);
    if (column != 0) text += ":" + std::to_string(column);
  }
  if (!node.empty()) text += (text.empty() ? "'" : ": '") + printable(node) + "'";
  return text;
}

std::string Diagnostic::str() const {
  const std::string place = where.str();
  std::string text = (place.empty() ? "" : place + ": ") + "error: " + printable_lines(message);
  if (!rule.empty()) text += " [" + rule + "]";
  for (const Note& note : notes) {
    const std::string at = note.where.str();
    text += "\n" + (at.empty() ? std::string("  ") : at + ": ") + "note: " + printable_lines(note.message);
  }
  return text;
}

Diagnostic&& Diagnostic::note(std::string text, Location at) && {
  notes.push_back({std::move(at), std::move(text)});
  return std::move(*this);
}

Diagnostic error(std::string message) { return error(Location{}, std::move(message)); }

Diagnostic error(Location where, std::string message, std::string rule) {
  return Diagnostic{std::move(where), std::move(message), std::move(rule), {}};
}

namespace detail {

CheckFailure::CheckFailure(const char* condition, const char* file, int line) {
  stream_ << file << ":" << line << ": internal error: check failed: " << condition << ": ";
}

CheckFailure::~CheckFailure() noexcept(false) { throw InternalError(stream_.str()); }

}  // namespace detail
}  // namespace rannc
