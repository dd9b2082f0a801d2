// Text of programs, and a wrong program for each rule.
#include "ir/program/program_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "ir/program/stage_programs.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::ir {
namespace {

std::string without_comments(const std::string& text) { return std::regex_replace(text, std::regex("  //[^\n]*"), ""); }

/// Each part of a gradient is a bucket.
StagePorts ports_with_marks(const Joint& joint) {
  StagePorts ports = own_ports(joint);
  for (uint32_t part = 0; part < joint.gradients.size(); ++part) ports.buckets.push_back({part});
  return ports;
}

/// All programs of a plan, and how many instructions they have of each kind.
struct Printed {
  std::string text = programs_head();
  std::map<Instruction::Kind, size_t> kinds;
};

Printed printed(const Plan& plan, LoweringOptions options) {
  Printed made;
  for (size_t s = 0; s < plan.functions.size(); ++s) {
    const StageFunctions& stage = *plan.functions[s];
    const FunctionTable table = function_table(stage);
    options.origins = stage.joint.origins;
    options.resident = resident_values(stage.joint.graph, table);
    ProgramLowering lowering(stage.joint.graph, options);
    const StagePorts ports = ports_with_marks(stage.joint);
    for (const auto& spec : stage_specs(stage.joint, stage.kept.has_value(), table, ports).programs.items) {
      if (!spec) continue;
      const Program program = lowering.lower(*spec).value();
      EXPECT_TRUE(verify(program).empty()) << verify(program)[0].message << "\n" << print(program, s);
      for (const Instruction& each : program.instructions) ++made.kinds[each.kind];
      made.text += print(program, s);
    }
  }
  return made;
}

void expect_read_back(const std::string& text) {
  const Result<ParsedPrograms> parsed = parse_programs(text, "text");
  ASSERT_TRUE(parsed.ok()) << parsed.diagnostic().str() << "\n" << text;
  EXPECT_EQ(without_comments(parsed->print()), without_comments(text));
}

TEST(ProgramText, IsReadBack) {
  std::map<Instruction::Kind, size_t> kinds;
  for (const bool recompute : {false, true}) {
    for (const bool loops : {false, true}) {
      for (const auto& graph : {testing::norm_model(DType::kF32), testing::dropout_model(DType::kF64)}) {
        const Plan plan = testing::build_plan(graph.clone(), {.cuts = {2}, .recompute = recompute});
        const Printed made = printed(plan, {.loops = loops});
        expect_read_back(made.text);
        for (const auto& [kind, count] : made.kinds) kinds[kind] += count;
      }
    }
  }
  for (const auto kind : {Instruction::Kind::kCalls, Instruction::Kind::kRandomInput, Instruction::Kind::kAdd,
                          Instruction::Kind::kLoop, Instruction::Kind::kMark, Instruction::Kind::kReturn}) {
    EXPECT_GT(kinds[kind], 0U) << static_cast<int>(kind);
  }
}

/// One program with every form of an argument.
TEST(ProgramText, OfArgumentsIsReadBack) {
  expect_read_back(R"(rannc.programs 1

program F stage 3 device cuda
fixed %w : f32[4,4]
argument %x : f32[n,4] samples 0
#0 calls grad-mode
  ~0 = aten::one(%x, none, [%w, none], [n, 4], [%], [?], [0x], [0x1p+0,-0x1p-1], [true, false])
  ~1, ~2 = aten::two(~0, dim=n - 1, scale=-0x1p+1, flag=true, (none + 1), !i64, channels-last, device, training, "a b") list
  = aten::check(~2)
  makes %y : f32[n,4] samples 0 in %x = ~1
  makes %z! : f32[n] samples 0 = ~2
#1 %view : f32[4,4] in fixed = aten::t(%w)
#2,#3 %loop : f32[n,4] samples 0 = loop(%y!, none)
  loop f32 [n, 4] by-rows
  input full f32 [1, n, 1, 1] ignored -100
  input full f32 [1, n, 1, 1] random %keep elements [4] = bernoulli drop 0x1p-1 key 7
  member #2 (i0, i1) each f32 {each y0 (mul x0 x1)}
  member #3 (m0.0, none) each f32 {each y0 (neg x0)}
  output m1.0 f32 [n, 4]
#4 %noise : f32[n,4] samples 0 = random()
#5 %taped : f32[n,4] samples 0, %tape : u8[*] = task(%loop!, none) records
#6 %sum : f32[n,4] samples 0 = exchange(%taped!, %noise!)
#7 add-product(%view!, %w) to 0
#8 add(%sum) to 1
mark 0
mark 1
return(%sum!, %x!, %tape!, %w, none)
)");
}

struct Fault {
  const char* rule;
  const char* body;
};

/// Names the rule when the test fails.
void PrintTo(const Fault& fault, std::ostream* to) { *to << fault.rule; }

class ProgramRules : public ::testing::TestWithParam<Fault> {};

TEST_P(ProgramRules, AreChecked) {
  const std::string head = "rannc.programs 1\nprogram F stage 0 device cpu\nfixed %w : f32[4]\nargument %x : f32[4]\n";
  const auto parsed = parse_programs(head + GetParam().body, "text");
  ASSERT_FALSE(parsed.ok()) << parsed->print();
  EXPECT_EQ(parsed.diagnostic().rule, GetParam().rule) << parsed.diagnostic().str();
}

INSTANTIATE_TEST_SUITE_P(
    Text, ProgramRules,
    ::testing::Values(
        Fault{"L1", "#0 %x : f32[4] = aten::neg(%x!)\nreturn(%x!)\n"},
        Fault{"L1",
              "#0 %y : f32[4] = aten::neg(%x!)\nreturn(%y!)\nprogram B stage 0 device cpu\nargument %y : f32[5]\n"},
        Fault{"L2", "#0 %y : f32[4] = aten::neg(%z!)\nreturn(%y!)\n"},
        Fault{"L3", "#0 %y : f32[4] = aten::neg(%x)\nreturn(%y!)\n"},
        Fault{"L3", "#0 %y : f32[4] = aten::neg(%x!)\nreturn(%y!, %x!)\n"},
        Fault{"L3", "#0 %y : f32[4] = aten::neg(%x!)\nreturn(%w)\n"},
        Fault{"L3", "#0 %y! : f32[4] = aten::neg(%x!)\nreturn(%y!)\n"},
        Fault{"L4", "#0 calls\n  ~0 = aten::neg(~1)\n  makes %y : f32[4] = ~0\nreturn(%y!, %x!)\n"},
        Fault{"L4", "#0 calls\n  ~1 = aten::neg(%x!)\n  makes %y : f32[4] = ~1\nreturn(%y!)\n"},
        Fault{"L5", "#0 %y : f32[4] = aten::neg(%x!)\n"}, Fault{"L5", "%y : f32[4] = aten::neg(%x!)\nreturn(%y!)\n"},
        Fault{"L5", "return(%x)\nreturn(%x!)\n"}, Fault{"L5", "#0 add-product(%x!) to 0\nreturn()\n"},
        Fault{"L5", "#0 %y : f32[4] = add(%x!) to 0\nreturn(%y!)\n"},
        Fault{"L5", "#0 %y : f32[4] = aten::neg(%x!) records\nreturn(%y!)\n"},
        Fault{"L5", "#0 %y : f32[4] = mark 0\nreturn(%x!)\n"}, Fault{"L5", "return(%x!)\nmark 0\n"},
        Fault{"L8", "mark 1\nreturn(%x!)\n"}, Fault{"L8", "mark 0\nmark 0\nreturn(%x!)\n"},
        Fault{"L8", "mark 0\nmark 2\nreturn(%x!)\n"}, Fault{"L8", "mark 1\nmark 0\nreturn(%x!)\n"},
        Fault{"L6",
              "#0 %y : f32[4] in %x = aten::view(%x)\n#1 %z : f32[4] in %y = aten::view(%y!)\nreturn(%x!, %z!)\n"},
        Fault{"L7",
              "#0 %y : f32[4] = loop(%x!)\n  loop f32 [1, 4]\n  member #0 (i0) each f32 {each y0 (neg x0)}\n"
              "  output m0.0 f32 [4]\nreturn(%y!)\n"},
        Fault{"L7",
              "#0 %y : f32[4] = loop(%x!)\n  loop f32 [1, 4]\n  input full f32 [1, 1, 1, 1]\n"
              "  member #0 (m0.0) each f32 {each y0 (neg x0)}\n  output m0.0 f32 [4]\nreturn(%y!)\n"},
        Fault{"L7",
              "#0 %y : f32[4] = loop(%x!)\n  loop f32 [1, 4]\n  input full f32 [1, 1, 1, 1]\n"
              "  member #0 (i0) each f32 {each y0 (neg x0)}\n  output m0.1 f32 [4]\nreturn(%y!)\n"}));

// L5; the text has no form for it.
TEST(ProgramText, OfAMarkWithOperandsIsRefused) {
  auto parsed = parse_programs(
      "rannc.programs 1\nprogram B stage 0 device cpu\nargument %x : f32[4]\nmark 0\nreturn(%x!)\n", "text");
  ASSERT_TRUE(parsed.ok()) << parsed.diagnostic().str();
  Program& program = parsed->programs[0];
  ASSERT_TRUE(verify(program).empty());
  program.instructions[0].operands.push_back(program.instructions[1].operands[0]);
  program.instructions[0].operands[0].last = false;
  const auto found = verify(program);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "L5") << found[0].message;
  EXPECT_NE(found[0].message.find("marks, and has operands"), std::string::npos) << found[0].message;
}

TEST(ProgramText, OfWrongFormNamesTheLine) {
  const std::string head = "rannc.programs 1\nprogram F stage 0 device cpu\nargument %x : f32[4]\n";
  for (const char* line :
       {"#0 %y : f32[4] =", "#0 %y : f32[4] = aten::neg(%x", "#0 calls\n  makes %y : f32[4] = 3", "#0 add(%x!) to",
        "return(%x!) now", "argument %z", "mark", "mark %x", "mark -1", "#0 %y : f32[4] = aten::neg([%x, 3])"}) {
    const auto parsed = parse_programs(head + line, "text");
    ASSERT_FALSE(parsed.ok()) << line;
    EXPECT_GT(parsed.diagnostic().where.line, 3U) << parsed.diagnostic().str();
  }
}

}  // namespace
}  // namespace rannc::ir
