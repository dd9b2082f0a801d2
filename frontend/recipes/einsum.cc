#include "frontend/recipes/einsum.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace rannc::frontend {

namespace {

/// A letter of an equation, or a negative number for an axis of the ellipsis, counted from the end.
using Label = int;
using Labels = std::vector<Label>;

constexpr Label kEllipsis = INT32_MIN;

/// A value whose axes have different labels.
struct Term {
  ValueId value;
  Labels labels;
};

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

size_t place(const Labels& labels, Label label) {
  return static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

/// Parses the labels of one operand or of the result. Fails and returns nullopt on other characters.
std::optional<Labels> read_labels(TaskWriter& writer, std::string_view text) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (text.substr(i).starts_with("...") && !contains(labels, kEllipsis)) {
      labels.push_back(kEllipsis);
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      labels.push_back(c);
    } else {
      writer.fail("Einsum: '" + std::string(text) + "' must consist of letters and at most one ellipsis");
      return std::nullopt;
    }
  }
  return labels;
}

/// Replaces the ellipsis by `axes` labels.
Labels spread(const Labels& written, size_t axes) {
  Labels labels;
  for (const Label label : written) {
    if (label != kEllipsis) labels.push_back(label);
    for (size_t i = axes; label == kEllipsis && i > 0; --i) labels.push_back(-static_cast<Label>(i));
  }
  return labels;
}

/// Translates one equation.
class Einsum {
 public:
  Einsum(TaskWriter& writer, std::string_view equation, std::span<const ValueId> operands)
      : writer_(writer), equation_(equation), operands_(operands) {}

  std::optional<LastTask> run() {
    if (!read()) return std::nullopt;
    for (Term& term : terms_) {
      while (writer_.good() && diagonal(term)) {
      }
      drop_ones(term);
    }
    while (writer_.good() && terms_.size() > 1) {
      const Term b = terms_[1];
      terms_.erase(terms_.begin() + 1);
      const Term left = sum_alone(terms_[0], b.labels), right = sum_alone(b, terms_[0].labels);
      terms_[0] = product(left, right);
    }
    return writer_.good() ? finish() : std::nullopt;
  }

 private:
  const ir::Shape& shape(const Term& term) { return *writer_.shape(term.value); }
  const ir::Dim& extent(const Term& term, Label label) { return shape(term)[place(term.labels, label)]; }

  bool read() {
    const std::string_view equation = equation_;
    const size_t arrow = equation.find("->");
    std::vector<Labels> written;
    for (std::string_view left = equation.substr(0, arrow);;) {
      const size_t comma = left.find(',');
      const auto labels = read_labels(writer_, left.substr(0, comma));
      if (!labels) return false;
      written.push_back(*labels);
      if (comma == std::string_view::npos) break;
      left.remove_prefix(comma + 1);
    }
    if (written.size() != operands_.size()) return fail("must have one term for each operand");
    size_t most = 0;
    for (size_t i = 0; i < written.size(); ++i) {
      const ir::Shape* const from = writer_.shape(operands_[i]);
      if (!from) return false;
      const bool open = contains(written[i], kEllipsis);
      const size_t named = written[i].size() - (open ? 1 : 0);
      if (named > from->size() || (!open && named < from->size())) {
        return fail("names " + std::to_string(named) + " axes of operand " + std::to_string(i) + ", whose shape is " +
                    ir::str(*from));
      }
      most = std::max(most, from->size() - named);
      terms_.push_back({operands_[i], spread(written[i], from->size() - named)});
    }
    return arrow == std::string_view::npos ? imply_output(most) : read_output(equation.substr(arrow + 2), most);
  }

  bool read_output(std::string_view text, size_t most) {
    const auto labels = read_labels(writer_, text);
    if (!labels) return false;
    output_ = spread(*labels, most);
    for (const Label label : output_) {
      const auto names = [&](const Term& term) { return contains(term.labels, label); };
      const bool twice = std::count(output_.begin(), output_.end(), label) > 1;
      if (twice || std::none_of(terms_.begin(), terms_.end(), names)) {
        return fail("has a result whose label '" + std::string(1, static_cast<char>(label)) +
                    (twice ? "' is repeated" : "' is in no operand"));
      }
    }
    return true;
  }

  // The result has the axes of the ellipses, then all letters that occur once, in alphabetical order.
  bool imply_output(size_t most) {
    output_ = spread({kEllipsis}, most);
    std::map<Label, int> times;
    for (const Term& term : terms_) {
      for (const Label label : term.labels) ++times[label];
    }
    for (const auto& [label, count] : times) {
      if (label >= 0 && count == 1) output_.push_back(label);
    }
    return true;
  }

  bool fail(const std::string& what) {
    writer_.fail("Einsum: \"" + equation_ + "\" " + what);
    return false;
  }

  void reorder(Term& term, const Labels& to) {
    ir::Shape dims;
    for (const Label label : to) dims.emplace_back(static_cast<int64_t>(place(term.labels, label)));
    if (term.labels == to) return;
    term = {writer_.emit("permute", {term.value}, {{"dims", dims}}), to};
  }

  void reshape(Term& term, const ir::Shape& to) {
    if (writer_.good() && !(shape(term) == to)) term.value = writer_.emit("reshape", {term.value}, {{"shape", to}});
  }

  void sum(Term& term, const Labels& over) {
    if (over.empty() || !writer_.good()) return;
    ir::Shape axes;
    Labels left;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (contains(over, term.labels[i])) {
        axes.emplace_back(static_cast<int64_t>(i));
      } else {
        left.push_back(term.labels[i]);
      }
    }
    term = {writer_.emit("sum", {term.value}, {{"axes", axes}, {"keepdim", false}}), left};
  }

  // Merges two axes of one label: replaces elements off the diagonal by 0 and sums over one axis.
  bool diagonal(Term& term) {
    for (size_t second = 0; second < term.labels.size(); ++second) {
      const size_t first = place(term.labels, term.labels[second]);
      if (first == second) continue;
      const ir::Dim n = shape(term)[first];
      if (!(n == shape(term)[second])) {
        return fail("takes a diagonal of " + ir::str(shape(term)) + ", but the extents of the two axes differ");
      }
      const auto counted = [&](size_t axis) {
        ir::Shape column(term.labels.size() - axis, ir::Dim(1));
        column[0] = n;
        const ValueId places = writer_.emit(
            "range", {}, {{"start", ir::Dim(0)}, {"limit", n}, {"delta", ir::Dim(1)}, {"dtype", ir::DType::kI64}});
        return writer_.emit("reshape", {places}, {{"shape", column}});
      };
      const ValueId on = writer_.emit("eq", {counted(first), counted(second)});
      const ValueId zero = writer_.scalar(0, writer_.dtype(term.value));
      const ValueId kept = writer_.emit("where", {on, term.value, zero});
      const ir::Shape axes = {static_cast<int64_t>(second)};
      term.value = writer_.emit("sum", {kept}, {{"axes", axes}, {"keepdim", false}});
      term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(second));
      return true;
    }
    return false;
  }

  // Whether the extent of the label is not 1 in some operand.
  bool is_stretched(Label label) {
    return std::any_of(terms_.begin(), terms_.end(), [&](const Term& term) {
      return contains(term.labels, label) && !(extent(term, label) == ir::Dim(1));
    });
  }

  // Drops axes of extent 1 that are broadcast. If all extents of a label are 1, its axis stays: it may count samples.
  void drop_ones(Term& term) {
    if (!writer_.good()) return;
    ir::Shape axes;
    Labels left;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (shape(term)[i] == ir::Dim(1) && is_stretched(term.labels[i])) {
        axes.emplace_back(static_cast<int64_t>(i));
      } else {
        left.push_back(term.labels[i]);
      }
    }
    if (!axes.empty()) term = {writer_.emit("squeeze", {term.value}, {{"axes", axes}}), left};
  }

  bool is_read_later(Label label) const {
    const auto names = [&](const Term& term) { return contains(term.labels, label); };
    return contains(output_, label) || std::any_of(terms_.begin() + 1, terms_.end(), names);
  }

  // Sums over the axes that neither the other operand, a later operand nor the result has.
  Term sum_alone(Term term, const Labels& other) {
    Labels over;
    for (const Label label : term.labels) {
      if (!contains(other, label) && !is_read_later(label)) over.push_back(label);
    }
    sum(term, over);
    return term;
  }

  /// Labels of a product: in both operands and kept, in both and summed, only in the left, only in the right.
  struct Parts {
    Labels shared, summed, left, right;
  };

  Parts parts_of(const Term& a, const Term& b) const {
    Parts parts;
    for (const Label label : a.labels) {
      const bool both = contains(b.labels, label);
      (!both ? parts.left : is_read_later(label) ? parts.shared : parts.summed).push_back(label);
    }
    for (const Label label : b.labels) {
      if (!contains(a.labels, label)) parts.right.push_back(label);
    }
    return parts;
  }

  ir::Shape extents(const Term& term, const Labels& labels) {
    ir::Shape sizes;
    for (const Label label : labels) sizes.push_back(extent(term, label));
    return sizes;
  }

  Term product(Term a, Term b) {
    if (!writer_.good()) return a;
    const Parts parts = parts_of(a, b);
    const bool floats = ir::is_float(writer_.dtype(a.value));
    return parts.summed.empty() || !floats ? elementwise(a, b, parts) : contracted(a, b, parts);
  }

  // Multiplies [shared, left, 1…, summed] by [shared, 1…, right, summed].
  Term elementwise(Term a, Term b, const Parts& parts) {
    Labels labels = parts.shared;
    for (const Labels* part : {&parts.left, &parts.right, &parts.summed}) {
      labels.insert(labels.end(), part->begin(), part->end());
    }
    const auto stretched = [&](Term term) {
      Labels own;
      ir::Shape to;
      for (const Label label : labels) {
        const bool has = contains(term.labels, label);
        if (has) own.push_back(label);
        to.push_back(has ? extent(term, label) : ir::Dim(1));
      }
      reorder(term, own);
      reshape(term, to);
      return term.value;
    };
    Term made{writer_.emit("mul", {stretched(a), stretched(b)}), labels};
    sum(made, parts.summed);
    return made;
  }

  // Multiplies matrices [shared, left, summed] by [shared, summed, right], with the axes of each of the last two parts
  // joined. The left axes are joined only if there are shared ones, so that samples keep their axis.
  Term contracted(Term a, Term b, const Parts& parts) {
    const auto joined = [](const Labels& x, const Labels& y, const Labels& z) {
      Labels all = x;
      all.insert(all.end(), y.begin(), y.end());
      all.insert(all.end(), z.begin(), z.end());
      return all;
    };
    const ir::Shape shared = extents(a, parts.shared), left = extents(a, parts.left), right = extents(b, parts.right);
    const auto matrices = [&](const ir::Dim& rows, const ir::Dim& columns) {
      ir::Shape to = shared;
      to.insert(to.end(), {rows, columns});
      return to;
    };
    const ir::Dim m = ir::element_count(left), k = ir::element_count(extents(a, parts.summed)),
                  n = ir::element_count(right);
    reorder(a, joined(parts.shared, parts.left, parts.summed));
    reorder(b, joined(parts.shared, parts.summed, parts.right));
    ir::Shape rows = parts.shared.empty() && !left.empty() ? left : matrices(m, k);
    if (parts.shared.empty() && !left.empty()) rows.push_back(k);
    reshape(a, rows);
    reshape(b, matrices(k, n));
    Term made{writer_.emit("matmul", {a.value, b.value}), joined(parts.shared, parts.left, parts.right)};
    ir::Shape to = shared;
    to.insert(to.end(), left.begin(), left.end());
    to.insert(to.end(), right.begin(), right.end());
    reshape(made, to);
    return made;
  }

  std::optional<LastTask> finish() {
    Term& term = terms_[0];
    Labels over, kept;
    ir::Shape ones;
    for (const Label label : term.labels) {
      if (!contains(output_, label)) over.push_back(label);
    }
    sum(term, over);
    for (size_t i = 0; i < output_.size(); ++i) {
      if (contains(term.labels, output_[i])) {
        kept.push_back(output_[i]);
      } else {
        ones.emplace_back(static_cast<int64_t>(i));
      }
    }
    reorder(term, kept);
    if (!writer_.good()) return std::nullopt;
    if (ones.empty()) return LastTask{"identity", term.value, {}};
    return LastTask{"unsqueeze", term.value, {{"axes", ones}}};
  }

  TaskWriter& writer_;
  const std::string equation_;
  const std::span<const ValueId> operands_;
  std::vector<Term> terms_;
  Labels output_;
};

}  // namespace

std::optional<LastTask> einsum(TaskWriter& writer, std::string_view equation, std::span<const ValueId> operands) {
  return Einsum(writer, equation, operands).run();
}

}  // namespace rannc::frontend
