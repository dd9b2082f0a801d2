// Random programs around the forms that fusions know stay the same functions, gradients included.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "tests/passes/torch/fused_case.h"

namespace rannc::test {
namespace {

constexpr uint64_t kPrograms = 1500;
constexpr double kSame = 1e-12, kSameGradient = 1e-11;  // of doubles

/// Writes forms of fusions one behind another: what a form makes another one reads. Numbers, axes and readers are now
/// and then others than a fusion asks for.
class Writer {
 public:
  explicit Writer(uint64_t seed)
      : random_(seed), features_(2 * pick({1, 2, 3})), places_(pick({1, 3, features_})), heads_(pick({1, 2})) {
    text_ = fmt::format("input x [batch,{},{}] samples 0\n", places_, features_);
    values_ = {"x"};
  }

  std::string program() {
    const int64_t forms = pick({1, 2, 3, 4});
    for (int64_t i = 0; i < forms; ++i) {
      static constexpr void (Writer::*kForms[])() = {
          &Writer::gelu,      &Writer::silu,    &Writer::norm,        &Writer::softmax,  &Writer::linear,
          &Writer::attention, &Writer::selects, &Writer::convolution, &Writer::permutes, &Writer::cross_entropy};
      (this->*kForms[random_() % std::size(kForms)])();
    }
    std::string outputs = "outputs " + values_.back();
    for (const std::string& each : losses_) outputs += " " + each;
    for (const std::string& each : inner_)
      if (often(4)) outputs += " " + each;
    return text_ + outputs + "\n";
  }

 private:
  int64_t pick(std::initializer_list<int64_t> from) { return from.begin()[random_() % from.size()]; }
  /// One time of so many.
  bool often(uint64_t of) { return random_() % of == 0; }
  std::string value() { return values_[values_.size() - 1 - random_() % std::min<size_t>(values_.size(), 3)]; }

  std::string task(const std::string& op, const std::string& operands, const std::string& attributes = "") {
    const std::string name = fmt::format("t{}", ++names_);
    text_ += fmt::format("{} = {}({}) {}\n", name, op, operands, attributes);
    static const std::set<std::string> kNoFloats = {"logical_not", "eq", "unsqueeze"};
    if (kNoFloats.contains(op)) return name;
    if (often(40)) inner_.push_back(name);
    if (often(60)) inner_.push_back(task("sin", name));
    return name;
  }
  std::string either_order(const std::string& op, const std::string& a, const std::string& b) {
    return often(2) ? task(op, a + ", " + b) : task(op, b + ", " + a);
  }
  std::string add(const std::string& a, const std::string& b) { return either_order("add", a, b); }
  std::string mul(const std::string& a, const std::string& b) { return either_order("mul", a, b); }
  std::string number(double number) {
    const std::string name = fmt::format("c{}", ++names_);
    if (often(40)) number = number * 1.001 + 1e-9;
    if (often(20)) number = static_cast<double>(static_cast<float>(number));
    text_ += fmt::format("constant {} {} {:.17g}\n", name, often(8) ? "[1]" : "[]", number);
    return name;
  }
  std::string parameter(const std::string& shape) {
    const std::string name = fmt::format("p{}", ++names_);
    text_ += fmt::format("parameter {} {}\n", name, shape);
    return name;
  }
  std::string axes() { return fmt::format("{{axes=[{}], keepdim=true}}", often(15) ? "1" : often(2) ? "-1" : "2"); }
  /// Another value than the one that is meant, now and then.
  std::string again(const std::string& meant) { return often(30) ? value() : meant; }
  std::string square(const std::string& x) {
    return often(2) ? task("pow", x + ", " + number(2)) : task("mul", x + ", " + again(x));
  }

  void gelu() {
    const std::string x = value();
    const std::string share = often(2) ? task("erf", often(2) ? mul(x, number(std::sqrt(0.5)))
                                                              : task("div", x + ", " + number(std::sqrt(2.0))))
                                       : task("tanh", bent(x));
    const std::string raised = add(share, number(1));
    switch (random_() % 3) {
      case 0:
        return values_.push_back(mul(mul(raised, again(x)), number(0.5)));
      case 1:
        return values_.push_back(mul(raised, mul(again(x), number(0.5))));
      default:
        return values_.push_back(mul(mul(raised, number(0.5)), again(x)));
    }
  }
  std::string bent(const std::string& x) {
    const std::string factor = number(std::sqrt(2 / M_PI)), cubic = number(0.044715);
    if (often(2)) return mul(add(x, mul(mul(square(x), x), cubic)), factor);
    return mul(mul(x, factor), add(mul(square(x), cubic), number(1)));
  }

  void silu() {
    const std::string x = value();
    values_.push_back(mul(task("sigmoid", x), again(x)));
  }

  void norm() {
    const std::string x = value();
    const bool centres = often(2);
    const std::string centred = centres ? task("sub", x + ", " + task("mean", x, axes())) : x;
    const std::string raised = add(task("mean", square(centred), axes()), number(1e-3));
    const std::string numerator = again(centred);
    std::string made;
    switch (random_() % 3) {
      case 0:
        made = task("div", numerator + ", " + task("sqrt", raised));
        break;
      case 1:
        made = mul(numerator, task("rsqrt", raised));
        break;
      default:
        made = mul(numerator, task("reciprocal", task("sqrt", raised)));
    }
    const std::string shape = often(10) ? "[1]" : fmt::format("[{}]", features_);
    if (!often(3)) made = mul(made, parameter(shape));
    if (!often(3)) made = add(made, often(12) ? made : parameter(shape));
    values_.push_back(made);
  }

  void softmax() {
    const std::string x = value(), over = axes(), most = task("amax", x, over);
    const std::string shifted = task("sub", x + ", " + (often(2) ? most : task("stop_gradient", most)));
    const std::string exponential = task("exp", shifted), sum = task("sum", exponential, often(15) ? axes() : over);
    if (often(3)) return values_.push_back(task("sub", again(shifted) + ", " + task("log", sum)));
    values_.push_back(often(2) ? task("div", again(exponential) + ", " + sum)
                               : mul(task("reciprocal", sum), again(exponential)));
  }

  std::string product(const std::string& x) {
    const std::string shape = fmt::format("[{},{}]", features_, features_);
    std::string weight = parameter(shape);
    if (often(12)) weight = task("tanh", weight);
    if (often(2)) weight = task("permute", weight, "{dims=[1,0]}");
    return task("matmul", x + ", " + weight);
  }
  void linear() {
    const std::string made = product(value());
    if (often(2)) return values_.push_back(made);
    const std::string shapes[] = {fmt::format("[{}]", features_), "[1]", "[]",
                                  fmt::format("[{},{}]", places_, features_)};
    values_.push_back(add(made, parameter(shapes[often(4) ? random_() % 4 : 0])));
  }

  std::string by_heads(const std::string& x, const std::string& dims) {
    const std::string apart =
        task("reshape", x, fmt::format("{{shape=[batch,{},{},{}]}}", places_, heads_, features_ / heads_));
    return task("permute", apart, "{dims=" + dims + "}");
  }
  std::string scaled(const std::string& x, uint64_t of) {
    if (!often(of)) return x;
    return often(2) ? mul(x, number(0.6)) : task("div", x + ", " + number(1.7));
  }
  std::string projected(const std::string& x) { return often(3) ? x : product(x); }

  void attention() {
    const std::string x = value();
    const std::string q = scaled(by_heads(projected(x), "[0,2,1,3]"), 3), once = "[0,2,3,1]";
    const std::string k = often(2)
                              ? by_heads(projected(x), once)
                              : task("permute", scaled(by_heads(projected(x), "[0,2,1,3]"), 3), "{dims=[0,1,3,2]}");
    std::string scores = scaled(task("matmul", q + ", " + scaled(k, 3)), 2);
    const bool safe = often(2);
    if (often(2)) scores = masked(scores, safe);
    const std::string weights = task(
        "softmax", scores, fmt::format("{{axis={}, hidden_rows=\"{}\"}}", often(15) ? 2 : -1, safe ? "zero" : "nan"));
    const std::string values = often(12) && places_ == features_ / heads_ ? weights
                               : often(10)                                ? q
                                                                          : by_heads(projected(again(x)), "[0,2,1,3]");
    const std::string turned = task("permute", task("matmul", weights + ", " + values), "{dims=[0,2,1,3]}");
    values_.push_back(task("reshape", turned, fmt::format("{{shape=[batch,{},{}]}}", places_, features_)));
  }

  std::string masked(const std::string& scores, bool safe) {
    const std::string name = fmt::format("m{}", ++names_);
    if (often(3)) {
      const std::string shapes[] = {fmt::format("[{0},{0}]", places_), fmt::format("[1,{0},{0}]", places_),
                                    fmt::format("[1,1,{0},{0}]", places_), fmt::format("[{}]", places_)};
      text_ += fmt::format("{} {} {}\n", often(4) ? "parameter" : "input", name, shapes[random_() % 4]);
      return add(scores, often(12) ? scores : name);
    }
    text_ += fmt::format("constant {} bool [{},{}]", name, places_, places_);
    for (int64_t i = 0; i < places_ * places_; ++i) text_ += i % places_ == i / places_ || often(2) ? " 1" : " 0";
    text_ += "\n";
    const std::string hides = safe && often(2) ? "-inf"
                              : often(8)       ? "-1e4"
                                               : "-inf",
                      fill = fmt::format("f{}", ++names_);
    text_ += fmt::format("constant {} [] {}\n", fill, hides);
    if (often(2)) return task("where", name + ", " + scores + ", " + fill);
    return task("where", task("logical_not", name) + ", " + fill + ", " + scores);
  }

  /// A part of each value, then spread over all places again.
  void selects() {
    const std::string x = value(), at = fmt::format("c{}", ++names_);
    text_ += fmt::format("constant {} i64 {} {}\n", at, often(10) ? "[1]" : "[]", often(3) ? -1 : 0);
    const std::string part = task("gather", x + ", " + at, "{axis=1}");
    const std::string placed = task("reshape", part, fmt::format("{{shape=[batch,1,{}]}}", features_));
    values_.push_back(add(x, placed));
  }

  /// Over features, with places as channels.
  void convolution() {
    const std::string weight = parameter(fmt::format("[{0},{0},1]", places_));
    const std::string made = task("conv", value() + ", " + weight);
    const std::string bias = often(2)   ? parameter(fmt::format("[{},1]", places_))
                             : often(5) ? parameter(fmt::format("[{}]", features_))
                                        : task("unsqueeze", parameter(fmt::format("[{}]", places_)), "{axes=[-1]}");
    values_.push_back(add(made, bias));
  }

  void permutes() {
    const std::string turn = "{dims=[0,2,1]}", x = value();
    std::string made = task("permute", x, turn);
    for (int64_t i = pick({1, 2, 3}); i > 0; --i) {
      switch (random_() % 4) {
        case 0:
          made = mul(made, often(5) ? parameter(fmt::format("[{}]", places_)) : number(0.7));
          break;
        case 1:
          made = add(made, task("permute", value(), turn));
          break;
        case 2:
          made = task("sub", number(0.3) + ", " + made);
          break;
        default:
          made = task(often(6) ? "softmax" : "tanh", made);
      }
    }
    values_.push_back(task("permute", made, often(10) && places_ == features_ ? "{dims=[0,1,2]}" : turn));
  }

  /// The loss beside the rest, by labels on the last axis.
  void cross_entropy() {
    const std::string labels = fmt::format("i{}", ++names_), count = fmt::format("c{}", ++names_);
    text_ += fmt::format("input {} i64 [batch,{}] samples 0\nconstant {} i64 [{}]", labels, places_, count, features_);
    for (int64_t i = 0; i < features_; ++i) text_ += fmt::format(" {}", i);
    text_ += "\n";
    const std::string of = often(15) && places_ == features_ ? "{axis=1}" : "{axis=2}";
    const std::string log = task("log_softmax", value(), of);
    std::string made;
    if (often(3)) {
      const std::string equal = either_order("eq", task("unsqueeze", labels, "{axes=[2]}"), count);
      made = mul(task("cast", equal, "{dtype=!f64}"), log);
    } else {
      made = counted(task("gather_elements", log + ", " + task("unsqueeze", labels, "{axes=[2]}"), "{axis=2}"), labels);
    }
    if (often(2)) made = task("neg", made);
    losses_.push_back(task("sum", made));
    if (often(2)) losses_.back() = task("neg", losses_.back());
  }
  std::string counted(const std::string& picked, const std::string& labels) {
    const std::string each = task("squeeze", picked, "{axes=[2]}"), ignored = fmt::format("c{}", ++names_);
    if (often(3)) return each;
    text_ += fmt::format("constant {} i64 [] 1\n", ignored);
    const std::string hidden = "eq(" + labels + ", " + ignored + ")", mask = fmt::format("m{}", ++names_);
    text_ += fmt::format("{} = {}\n", mask, hidden);
    if (often(2)) return task("where", mask + ", " + number(0) + ", " + each);
    const std::string shown = task("logical_not", mask);
    return often(2) ? task("where", shown + ", " + each + ", " + number(0))
                    : mul(each, task("cast", shown, "{dtype=!f64}"));
  }

  std::mt19937_64 random_;
  int64_t features_, places_, heads_;
  std::string text_;
  std::vector<std::string> values_, inner_, losses_;
  int names_ = 0;
};

size_t count_fused(const ir::Graph& graph) {
  size_t count = 0;
  for (const std::string& name : operators(graph))
    for (const char* fused : {"gelu", "silu", "layer_norm", "rms_norm", "log_softmax", "linear", "attention", "slice",
                              "conv", "cross_entropy_sum"})
      count += name == fused;
  return count;
}

TEST(RandomFusions, StayTheSameFunctions) {
  size_t programs = 0, tasks = 0;
  std::map<std::string, size_t> alone = {
      {"fuse-selects", 0}, {"fuse-conv-bias", 0}, {"fuse-cross-entropy", 0}, {"fuse-permutes", 0}};
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const std::string text = Writer(seed).program();
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    const ir::Graph before = short_graph(text);
    ir::Graph snapped = before.clone(), after = before.clone();
    ASSERT_EQ(run_passes(snapped, {"snap-constants"}), "");
    ASSERT_EQ(run_passes(after, standard_order()), "");
    const size_t fused = count_fused(after);
    programs += fused > 0;
    tasks += fused;
    for (auto& [pass, count] : alone) {
      ir::Graph changed = before.clone();
      ASSERT_EQ(run_passes(changed, {pass}), "");
      count += operators(changed) != operators(before);
    }
    const auto a = numbers_of(snapped, 3), b = numbers_of(after, 3);
    ASSERT_TRUE(a.ok()) << a.diagnostic().str();
    ASSERT_TRUE(b.ok()) << b.diagnostic().str();
    for (const auto& [name, numbers] : *a) {
      const double limit = name.starts_with("d ") ? kSameGradient : kSame;
      // A parameter that no result needs is none any more.
      const auto found = b->find(name);
      const std::vector<double> others = found == b->end() ? std::vector<double>(numbers.size()) : found->second;
      ASSERT_LE(difference({{name, numbers}}, {{name, others}}), limit) << name;
    }
  }
  RecordProperty("fused_programs", static_cast<int>(programs));
  RecordProperty("fused_tasks", static_cast<int>(tasks));
  EXPECT_GT(programs, kPrograms * 3 / 4);
  EXPECT_GT(tasks, kPrograms);
  for (const auto& [pass, count] : alone) EXPECT_GT(count, kPrograms / 20) << pass;
}

}  // namespace
}  // namespace rannc::test
